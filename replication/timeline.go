package replication

import (
	"bufio"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"

	"github.com/walrelay/walrelay/lsn"
)

// SwitchPoint is where the server's history left a timeline for the next one. It reports false when the history does not
// come from that timeline. On the current timeline there is no such point.
func (c *Conn) SwitchPoint(ctx context.Context, timeline int32) (lsn.End, bool, error) {
	if timeline >= c.System.Timeline {
		return 0, false, nil
	}
	history, err := pglogrepl.TimelineHistory(ctx, c.pg, c.System.Timeline)
	if err != nil {
		return 0, false, fmt.Errorf("read the history of timeline %d: %w", c.System.Timeline, err)
	}
	return switchPoint(string(history.Content), timeline)
}

// switchPoint reads a history file: a line for each timeline that was left, with its number, where it was left, and why
// (readTimeLineHistory in the source of Postgres).
func switchPoint(history string, timeline int32) (lsn.End, bool, error) {
	for lines := bufio.NewScanner(strings.NewReader(history)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		number, err := strconv.ParseInt(fields[0], 10, 32)
		if err != nil {
			return 0, false, fmt.Errorf("timeline history: %w", err)
		}
		if int32(number) == timeline {
			end, err := lsn.ParseEnd(fields[1])
			return end, err == nil, err
		}
	}
	return 0, false, nil
}
