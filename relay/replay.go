package relay

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/replication"
)

// ReplaySource is where a replay takes events from.
type ReplaySource string

// The sources of a replay.
const (
	FromDeadLetters ReplaySource = "dead-letters"
	FromTables      ReplaySource = "tables"
)

// ReplayOptions says what Replay brings to the topics. An event must meet all that is said; nothing said means all events.
type ReplayOptions struct {
	// From is FromDeadLetters when empty.
	From ReplaySource
	// IDs are ids of events; or, of dead letters, also their identities as walrelay.lsn has them.
	IDs []string
	// Keys are keys of records, and Types event types.
	Keys, Types []string
	// Since and Until are bounds, inclusive: of the commit of a dead letter, or of the time of creation of a row, see
	// audit.Selection.
	Since, Until time.Time
	// FirstLSN and LastLSN are bounds of the commit record, inclusive. A row does not know its own; the record in its
	// topic does, so that they go with Again.
	FirstLSN, LastLSN lsn.Start
	// Again publishes the rows whose event is in its topic already, too. Dead letters that are there are left out always.
	Again bool
	// DryRun publishes nothing.
	DryRun bool
	// AllowStale brings events back also where their key has a newer event in the topic already.
	AllowStale bool
	// Progress is told how far it has come. May be nil.
	Progress func(audit.Progress)
}

// ReplayReport is the result of Replay. Events is the sum of Replayed, Already, Waiting, Buried, Gone, StaleEvents and
// ImpossibleEvents, unless it was interrupted.
type ReplayReport struct {
	From   ReplaySource `json:"from"`
	DryRun bool         `json:"dry_run,omitempty"`
	// Events were chosen: dead letters, each event once, or rows. Others are dead letters of other databases.
	Events int64 `json:"events"`
	Others int64 `json:"of_other_databases,omitempty"`
	// Replayed are in their topics now (or would be); Already were there before.
	Replayed int64 `json:"replayed"`
	Already  int64 `json:"already"`
	// Waiting are rows without a record that a relay may still send. Buried are rows whose event is a dead letter. Gone were
	// deleted or changed meanwhile.
	Waiting int64 `json:"waiting,omitempty"`
	Buried  int64 `json:"dead_letters,omitempty"`
	Gone    int64 `json:"gone,omitempty"`
	// Stale were left out since their keys have newer events; all are counted, the first are named.
	Stale       []string `json:"stale,omitempty"`
	StaleEvents int64    `json:"stale_events"`
	// Impossible are those of which no record can be made, or that no topic takes, with the reason; the first are named.
	Impossible       []string `json:"impossible,omitempty"`
	ImpossibleEvents int64    `json:"impossible_events"`
	// Unknown are IDs that no dead letter, or no row, has.
	Unknown []string `json:"unknown,omitempty"`
}

// LeftOut tells whether events that were asked for are not in their topics, and need a person.
func (r *ReplayReport) LeftOut() bool {
	return r.Buried+r.Gone+r.StaleEvents+r.ImpossibleEvents+int64(len(r.Unknown)) > 0
}

// maxNamed bounds the events or rows that a report names.
const maxNamed = 10_000

// stale takes note of an event whose key has a newer one.
func (r *ReplayReport) stale(event string) {
	if r.StaleEvents++; len(r.Stale) < maxNamed {
		r.Stale = append(r.Stale, event)
	}
}

// impossible takes note of an event that cannot be published.
func (r *ReplayReport) impossible(event, reason string) {
	if r.ImpossibleEvents++; len(r.Impossible) < maxNamed {
		r.Impossible = append(r.Impossible, event+": "+reason)
	}
}

// Replay brings events to their topics from the dead-letter topics or from the tables, in the order of their keys and marked
// with audit.HeaderReplayed. It can be repeated, and relays may run. It needs the right to read the topics and the tables;
// for dead letters, the tables only where events are not whole. Memory: all dead letters that are chosen, or about 220 bytes a
// row.
func Replay(ctx context.Context, cfg Config, o ReplayOptions, log *zap.Logger) (ReplayReport, error) {
	cfg = cfg.withDefaults()
	if o.From == FromTables {
		return replayTables(ctx, cfg, o, log)
	}
	return replayLetters(ctx, cfg, o, log)
}

// forReplay prepares what replays of both sources need. It fences earlier replays, and no relay.
func (c Config) forReplay(ctx context.Context, o ReplayOptions, log *zap.Logger, choose func(*replication.Survey) audit.Selection) (*comparison, error) {
	compared, err := c.compareAs(ctx, log, "/replay", audit.Config{Ranked: true, Progress: o.Progress}, choose)
	if err != nil {
		return nil, err
	}
	if _, err := compared.sameCluster(ctx); err != nil {
		compared.close()
		return nil, err
	}
	return compared, nil
}
