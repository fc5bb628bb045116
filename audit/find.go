package audit

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// ErrNoRow: there is no row with the id.
var ErrNoRow = errors.New("its row is not there any more")

// Find makes the message of the row with an id, as the mapping is now. table is schema.table; empty: any of them. The
// message owns its bytes. The error is ErrNoRow or a *router.PoisonError where the row is the reason.
func (a *Audit) Find(ctx context.Context, tx pgx.Tx, table, id string) (router.Message, error) {
	var found []router.Message
	var poison error
	for i := range a.tables {
		t := &a.tables[i]
		if table != "" && table != t.Name() || !t.mayHave(id) {
			continue
		}
		where, err := Selection{FirstID: id, LastID: id}.where(t.Table, "")
		if err != nil {
			return router.Message{}, err
		}
		err = t.read(ctx, tx, where, rank{}, false, func(row *decoder.Row, _ standing) error {
			verdict, err := t.route.Route(row, lsn.Identity{}, &t.message)
			if err == nil && verdict == router.Filtered {
				err = &router.PoisonError{Reason: "the filter of table " + t.Name() + " leaves it out"}
			}
			var unfit *router.PoisonError
			if err != nil && !errors.As(err, &unfit) {
				return fmt.Errorf("table %s: %w", t.Name(), err)
			}
			poison = err
			found = append(found, t.message.Clone())
			return nil
		})
		if err != nil {
			return router.Message{}, err
		}
	}
	switch {
	case len(found) == 0:
		return router.Message{}, ErrNoRow
	case len(found) > 1:
		return router.Message{}, &router.PoisonError{Reason: fmt.Sprintf("%d rows have the id %s", len(found), clip([]byte(id)))}
	}
	return found[0], poison
}

var uuidText = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// CanonicalID is an id as Postgres writes it: people paste UUIDs in capitals.
func CanonicalID(id string) string {
	if lower := strings.ToLower(id); uuidText.MatchString(lower) {
		return lower
	}
	return id
}

// mayHave tells whether the text can be an id of the table. Another one would be an error to Postgres.
func (t *Table) mayHave(id string) bool {
	oid := t.typeOf(t.Route.ColumnsOf(t.Relation).ID)
	if oid == oidUUID {
		return uuidText.MatchString(id)
	}
	bits, number := map[uint32]int{oidInt2: 16, oidInt4: 32, oidInt8: 64}[oid]
	if !number {
		return true
	}
	n, err := strconv.ParseInt(id, 10, bits)
	return err == nil && strconv.FormatInt(n, 10) == id
}
