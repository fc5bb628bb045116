package doctor

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

// Level is how grave a finding is.
type Level string

// The levels.
const (
	// OK: as it should be.
	OK Level = "ok"
	// Info: worth knowing; nothing has to be done.
	Info Level = "info"
	// Warn: it works, and may hurt some day.
	Warn Level = "warn"
	// Fail: walrelay cannot relay like this.
	Fail Level = "fail"
)

// Finding is the result of one check.
type Finding struct {
	// Check names what was looked at, in one word or two.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Text says what was found.
	Text string `json:"text"`
	// Remedy mends it: SQL, a setting, a command.
	Remedy string `json:"remedy,omitempty"`
	// Code is the kind of error that walrelay run would end with, see docs/errors.md; empty where it would not.
	Code fault.Code `json:"code,omitempty"`
}

// Options says what to do beyond looking.
type Options struct {
	// TestValue is what a test event has in the column that decides on the topic. It is inserted into TestTable (schema.table;
	// empty: the first outbox table), seen in Kafka, and its row is deleted. Empty: there is none.
	TestValue, TestTable string
}

// examination is one call of Examine. Later checks read what earlier ones found.
type examination struct {
	cfg     relay.Config
	options Options
	report  func(Finding)

	conn     *pgx.Conn
	server   *replication.Server
	provider provider
	slot     string
	source   uint32 // of the identities of events
	tables   []*replication.Table
	watch    *replication.Watch // nil: could not be asked
	failed   bool
}

// errEnough ends a chain of checks: what comes behind cannot be looked at.
var errEnough = errors.New("enough")

// Examine does all checks and reports each finding as it comes. It returns whether one of them is a Fail; the error is
// that of ctx.
func Examine(ctx context.Context, cfg relay.Config, o Options, report func(Finding)) (failed bool, err error) {
	e := &examination{cfg: cfg, options: o, report: report}
	defer e.close()
	e.chain(ctx, e.reach, e.primary, e.version, e.walLevel, e.room, e.role, e.replicationConnection, e.grants,
		e.outbox, e.publication, e.slotAndRow, e.synchronous)
	if e.conn != nil {
		e.chain(ctx, e.retained, e.transactions, e.failover, e.memory, e.updates, e.subscriptions, e.clock)
	}
	e.chain(ctx, e.brokers)
	if o.TestValue != "" && e.server != nil {
		e.chain(ctx, e.roundTrip)
	}
	return e.failed, ctx.Err()
}

// chain does checks one after the other. An error that is no finding is one of the check that had it.
func (e *examination) chain(ctx context.Context, checks ...func(context.Context) error) {
	for _, check := range checks {
		if ctx.Err() != nil {
			return
		}
		err := check(ctx)
		if errors.Is(err, errEnough) {
			return
		}
		if err != nil {
			e.fail("check", err, "")
		}
	}
}

func (e *examination) close() {
	if e.conn != nil {
		_ = e.conn.Close(context.Background()) // the server notices either way
	}
}

func (e *examination) say(level Level, check, text, remedy string) {
	e.add(Finding{Check: check, Level: level, Text: text, Remedy: remedy})
}

func (e *examination) add(f Finding) {
	e.failed = e.failed || f.Level == Fail
	e.report(f)
}

func (e *examination) ok(check, text string) { e.say(OK, check, text, "") }

// fail reports an error with its remedy; other is the remedy of an error that has none.
func (e *examination) fail(check string, err error, other string) {
	f := Finding{Check: check, Level: Fail, Text: err.Error(), Remedy: other}
	if code := replication.FaultOf(err); code != fault.Unexpected {
		f.Code = code
	}
	var setup *replication.SetupError
	var connect *replication.ConnectError
	switch {
	case errors.As(err, &setup):
		f.Text, f.Remedy = setup.Problem, setup.Remedy
		if setup.Err != nil {
			f.Text += ": " + setup.Err.Error()
		}
	case errors.As(err, &connect):
		f.Text, f.Remedy = connect.Attempts(), connect.Remedy
	}
	e.add(f)
}
