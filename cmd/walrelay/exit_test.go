package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	password := &pgconn.PgError{Code: "28P01", Message: "password authentication failed"}
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{errors.New("disk on fire"), 1, "walrelay: disk on fire\n"},
		{&replication.WireError{Type: 'x', Reason: "too short"}, 1, "walrelay: replication protocol message 'x': too short [log-unreadable]\n"},
		{&usageError{"walrelay run", errors.New("unknown flag: --x")}, 2, "walrelay: unknown flag: --x; see walrelay run --help\n"},
		{listenError{errors.New("http.listen: in use")}, 2, "walrelay: http.listen: in use [http-listen]\n"},
		{config.Problems{{Key: "a", Want: "want b"}}, 2, "walrelay: configuration: a: want b\n"},
		{fmt.Errorf("run: %w", &relay.StopError{Reason: "too large", Remedy: "walrelay skip"}), 3, "walrelay: run: too large; walrelay skip\n"},
		{fmt.Errorf("run: %w", &replication.SetupError{Code: fault.TableMissing, Problem: "no table", Remedy: "walrelay init"}), 3, "walrelay: run: no table; walrelay init [table-missing]\n"},
		{&replication.ConnectError{Remedy: "check it", Err: password}, 3, "walrelay: connect to Postgres: : password authentication failed (SQLSTATE 28P01); check it\n"},
		{&replication.ConnectError{Err: errors.New("failed:\n\ta: refused\n\ta: refused\n\tb: refused")}, 1,
			"walrelay: connect to Postgres: failed: a: refused, b: refused\n"},
	} {
		var output lines
		p := program{err: &output}
		if code := p.report(c.err); code != c.code || output.String() != c.text {
			t.Errorf("%v: code %d, %q, want %d, %q", c.err, code, output.String(), c.code, c.text)
		}
	}
}
