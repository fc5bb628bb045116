package inbox

import (
	"context"
	"fmt"
	"time"
)

// Forget deletes the rows of events that the consumer has processed longer ago than so, 10,000 at a time, each time in a
// transaction of its own where db is a pool or a connection. An event whose row is gone counts as new when it is
// delivered again: keep rows for longer than a consumer may ever be set back. It returns how many were deleted.
func Forget(ctx context.Context, db DB, consumer string, olderThan time.Duration) (int64, error) {
	var all int64
	for {
		var n int64
		err := db.QueryRow(ctx, `SELECT walrelay.forget($1, $2::text::interval)`, consumer, fmt.Sprintf("%f seconds", olderThan.Seconds())).Scan(&n)
		if err != nil {
			return all, fmt.Errorf("inbox: forget old events of consumer %s: %w", consumer, remedy(err))
		}
		if all += n; n == 0 {
			return all, nil
		}
	}
}
