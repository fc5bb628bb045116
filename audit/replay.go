package audit

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/lsn"
)

// HeaderReplayed marks a record that a replay has brought to its topic. The value is the identity of the event, or, where it
// comes from a table and the row does not know its place, the time at which the replay began. Such a record has no
// walrelay.lsn, since it does not stand in its place.
const HeaderReplayed = "walrelay.replayed"

// Replay says which of the selected rows Choose leaves to be published.
type Replay struct {
	// Sent is what is known to be in Kafka. A row from behind it that has no record is left to the slot.
	Sent Horizon
	// Again takes the rows that have a record too.
	Again bool
	// From and To leave only the rows with a record of ours whose commit record is in between, inclusive; zero: no bound.
	// Only Again knows such rows.
	From, To lsn.Start
}

// Choice is what Choose has found.
type Choice struct {
	// Already have a record, and are left out for that. Waiting are left to the slot.
	Already, Waiting int64
	// Left are to be published.
	Left int64
	// Unknown are ids that were asked for and that no row has.
	Unknown []string
}

// bounded tells whether positions are asked for.
func (r *Replay) bounded() bool { return r.From != 0 || r.To != 0 }

// covers tells whether a commit record is between the positions, if those are asked for.
func (r *Replay) covers(commit lsn.Start) bool {
	return r.bounded() && commit >= r.From && commit <= cmp.Or(r.To, commit)
}

// young is the SQL of whether the slot may still send a row.
func (r *Replay) young(ctx context.Context, tx pgx.Tx) (string, error) {
	if r == nil {
		return "", nil
	}
	young, err := r.Sent.candidates(ctx, tx)
	return cmp.Or(young, "true"), err
}

// Choose ends the comparison for a replay: what is missing from here on, for Missing and Publish, are the rows to replay. A row
// is stale when its key has a newer event in the topic that is not among them.
func (a *Audit) Choose() Choice {
	c := a.ledger.choose()
	c.Unknown = a.named.Unfound()
	return c
}

// Named are ids that a person has asked for, and whether they were found.
type Named map[string]bool

// NewNamed makes them of a list, of which nothing is found yet.
func NewNamed(ids []string) Named {
	n := make(Named, len(ids))
	for _, id := range ids {
		n[id] = false
	}
	return n
}

// Unfound are those that were not found, in their order.
func (n Named) Unfound() (missing []string) {
	for id, found := range n {
		if !found {
			missing = append(missing, id)
		}
	}
	slices.Sort(missing)
	return missing
}

// forReplay prepares for choose; nil: nobody replays. A row that was changed since, or whose value the mapping of now makes
// otherwise, is not to be replayed for that.
func (l *ledger) forReplay(r *Replay) { l.replay, l.hash.byID = r, r != nil }

func (l *ledger) choose() (all Choice) {
	for i := range l.rows {
		c := &l.rows[i]
		there := min(c.seen, c.rows)
		missing := int64(c.rows - there)
		bounded := l.replay.bounded()
		waits := l.young[uint32(i)]
		switch {
		case l.replay.Again && there > 0 && (!bounded || l.picked[uint32(i)]):
			if len(l.dead) > 0 {
				l.picked[uint32(i)] = true
			}
			if c.seen = 0; waits {
				c.seen = uint16(missing)
				all.Waiting += missing
			}
			all.Left += int64(c.rows - c.seen)
			continue
		case bounded: // not asked for, or nobody knows
			c.seen = c.rows
		case waits:
			c.seen = c.rows
			all.Waiting += missing
			all.Already += int64(there)
		default:
			all.Left += missing
			all.Already += int64(there)
		}
		if there > 0 {
			l.overtaken(c)
		}
	}
	return all
}
