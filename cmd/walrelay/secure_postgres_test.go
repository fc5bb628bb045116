package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/walrelay/walrelay/internal/certificates"
	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// guarded is a server with TLS, and what is needed to get in.
type guarded struct {
	*pgtest.Server
	ca, cert, key string // files
}

const firstPassword, secondPassword = "first pass:word", `second p\ass%word`

func startGuarded(t *testing.T) guarded {
	t.Helper()
	g := guarded{Server: pgtest.Start(t, pgtest.Options{Secure: true, Settings: map[string]string{"listen_addresses": "127.0.0.1,127.0.0.2"}})}
	authority := g.Authority()
	if err := authority.Client("client", pgtest.CertifiedUser); err != nil {
		t.Fatal(err)
	}
	g.ca, g.cert, g.key = authority.File("ca.pem"), authority.File("client.pem"), authority.File("client.key")
	pgtest.Exec(t, g.URL("postgres"),
		"CREATE ROLE keeper SUPERUSER LOGIN PASSWORD '"+firstPassword+"'", "CREATE ROLE "+pgtest.CertifiedUser+" SUPERUSER LOGIN")
	return g
}

// shop makes a database with an outbox and returns its name.
func (g guarded) shop(t *testing.T) string {
	t.Helper()
	url := g.Database(t)
	pgtest.Exec(t, url, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	_, name, _ := strings.Cut(strings.TrimSuffix(url, "?sslmode=disable"), fmt.Sprintf("%d/", g.Port()))
	return name
}

// address is a connection string by keywords, without a password.
func (g guarded) address(host, user, database, more string) string {
	return fmt.Sprintf("host=%s port=%d user=%s dbname=%s %s", host, g.Port(), user, database, more)
}

func keep(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Each way to a server that wants TLS, through the whole program to a record.
func TestPostgresTLS(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	verified := "sslmode=verify-full sslrootcert=" + g.ca
	passFile := keep(t, "pgpass", "localhost:*:*:keeper:"+strings.ReplaceAll(firstPassword, ":", `\:`)+"\n")
	printer := keep(t, "print", "#!/bin/sh\nprintf '%s\\n' '"+firstPassword+"'\n")
	if err := os.Chmod(printer, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, environ := range map[string]func(database string) []string{
		"verify-full": func(db string) []string {
			return []string{"WALRELAY_POSTGRES_URL=" + g.address("localhost", "keeper", db, verified), "WALRELAY_POSTGRES_PASSWORD=" + firstPassword}
		},
		"verify-full by address, as URL": func(db string) []string {
			return []string{fmt.Sprintf("WALRELAY_POSTGRES_URL=postgres://keeper:%s@127.0.0.1:%d/%s?sslmode=verify-full&sslrootcert=%s",
				strings.NewReplacer(" ", "%20", ":", "%3A").Replace(firstPassword), g.Port(), db, g.ca)}
		},
		"client certificate": func(db string) []string {
			return []string{"WALRELAY_POSTGRES_URL=" + g.address("localhost", pgtest.CertifiedUser, db, verified+" sslcert="+g.cert+" sslkey="+g.key)}
		},
		"service file and pass file": func(db string) []string {
			service := "[shop]\n" + strings.ReplaceAll(g.address("localhost", "keeper", db, verified), " ", "\n") + "\n"
			return []string{"WALRELAY_POSTGRES_URL=service=shop", "PGSERVICEFILE=" + keep(t, "services", service), "PGPASSFILE=" + passFile}
		},
		"variables of libpq": func(db string) []string {
			return []string{"WALRELAY_POSTGRES_URL=dbname=" + db, "PGHOST=localhost", fmt.Sprintf("PGPORT=%d", g.Port()), "PGUSER=keeper",
				"PGPASSWORD=" + firstPassword, "PGSSLMODE=verify-full", "PGSSLROOTCERT=" + g.ca}
		},
		"password command": func(db string) []string {
			return []string{"WALRELAY_POSTGRES_URL=" + g.address("localhost", "keeper", db, verified), "WALRELAY_POSTGRES_PASSWORD_COMMAND=" + printer + " now"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := g.shop(t)
			r := startRelay(t, environ(database))
			r.relays(t, g.URL(database), 1)
			pgtest.Exec(t, g.URL(database), `DO $$ BEGIN ASSERT (SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
				WHERE application_name LIKE 'walrelay/%'), 'a connection without TLS'; END $$`)
			r.stop(t)
		})
	}
}

// relayProcess is walrelay run with a Kafka of its own.
type relayProcess struct {
	cmd     *exec.Cmd
	output  *lines
	address string
	brokers []string
}

func startRelay(t *testing.T, environ []string) *relayProcess {
	t.Helper()
	r := &relayProcess{brokers: kafkatest.Fake(t).ListenAddrs()}
	r.cmd, r.output, r.address = start(t, append(environ, "WALRELAY_KAFKA_BROKERS="+strings.Join(r.brokers, ",")))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.output)
		}
	})
	return r
}

// relays inserts the n-th row and waits until its record is the n-th.
func (r *relayProcess) relays(t *testing.T, url string, n int) {
	t.Helper()
	await(t, "ready", func() bool {
		code, _ := get(t, r.address, "/readyz")
		return code == http.StatusOK
	})
	pgtest.Exec(t, url, fmt.Sprintf(`INSERT INTO outbox VALUES (%d, 'order', 'o', 'OrderCreated', 'payload %d')`, n, n))
	await(t, fmt.Sprintf("record %d", n), func() bool {
		records, err := kafkatest.ReadAll(t.Context(), r.brokers, "outbox.event.order")
		return err == nil && len(records) == n && string(records[n-1].Value) == fmt.Sprintf("payload %d", n)
	})
}

func (r *relayProcess) stop(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.cmd.Process.Signal(syscall.SIGTERM), r.cmd.Wait()); err != nil {
		t.Errorf("stop: %v\n%s", err, r.output)
	}
}

// What a server that wants TLS refuses, and a server that we must not trust, ends the first start with what to do.
func TestPostgresTLSRefused(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	stranger, err := certificates.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Client("client", pgtest.CertifiedUser); err != nil {
		t.Fatal(err)
	}
	database := g.shop(t)
	for name, c := range map[string]struct{ host, user, more, want string }{
		"unknown authority":     {"localhost", "keeper", "sslmode=verify-full sslrootcert=" + stranger.File("ca.pem"), "sslrootcert must name the authority"},
		"another host":          {"127.0.0.2", "keeper", "sslmode=verify-full sslrootcert=" + g.ca, "the host must be a name in it"},
		"without TLS":           {"localhost", "keeper", "sslmode=disable", "pg_hba.conf"},
		"wrong password":        {"localhost", "keeper", "sslmode=require password=wrong", "check user, password"},
		"no client certificate": {"localhost", pgtest.CertifiedUser, "sslmode=require", "pg_hba.conf"},
		"certificate of a name": {"localhost", "keeper", "sslmode=require sslcert=" + g.cert + " sslkey=" + g.key, "check user, password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.host == "127.0.0.2" && runtime.GOOS != "linux" {
				t.Skip("only Linux has the address 127.0.0.2 without being told")
			}
			got := walrelay(t, []string{"WALRELAY_POSTGRES_URL=" + g.address(c.host, c.user, database, c.more), "WALRELAY_KAFKA_BROKERS=127.0.0.1:1",
				"WALRELAY_HTTP_LISTEN=off", "WALRELAY_LOG_LEVEL=error"}, "run")
			if got.code != exitPerson || !oneLineWith(got.err, "walrelay: connect to Postgres: ", c.want) || strings.Contains(got.err, "=wrong") {
				t.Errorf("code %d, %s", got.code, got.err)
			}
		})
	}
	// A certificate that the server does not trust may be one that it will trust soon.
	r := startRelay(t, []string{"WALRELAY_POSTGRES_URL=" + g.address("localhost", pgtest.CertifiedUser, database,
		"sslmode=require sslcert="+stranger.File("client.pem")+" sslkey="+stranger.File("client.key"))})
	await(t, "the refusal in the log", func() bool {
		return strings.Contains(r.output.String(), "it must trust (ssl_ca_file) who has signed sslcert")
	})
	r.stop(t)
	// With verify-ca the name does not matter.
	r = startRelay(t, []string{"WALRELAY_POSTGRES_URL=" + g.address("127.0.0.2", "keeper", database, "sslmode=verify-ca sslrootcert="+g.ca), "WALRELAY_POSTGRES_PASSWORD=" + firstPassword})
	r.relays(t, g.URL(database), 1)
	r.stop(t)
}

// A password or certificate that is changed on both sides while the relay runs: no restart, nothing lost.
func TestPostgresRotation(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	verified := "sslmode=verify-full sslrootcert=" + g.ca
	secret := keep(t, "password", firstPassword+"\n")
	urlOf := func(database, password string) string {
		return g.address("localhost", "keeper", database, verified+` password='`+strings.ReplaceAll(password, `\`, `\\`)+`'`)
	}
	inFile, inURL, inCommand, certified := g.shop(t), g.shop(t), g.shop(t), g.shop(t)
	urlFile := keep(t, "url", urlOf(inURL, firstPassword))
	relays := map[string]*relayProcess{
		inFile:    startRelay(t, []string{"WALRELAY_POSTGRES_URL=" + g.address("localhost", "keeper", inFile, verified), "WALRELAY_POSTGRES_PASSWORD_FILE=" + secret}),
		inURL:     startRelay(t, []string{"WALRELAY_POSTGRES_URL_FILE=" + urlFile}),
		inCommand: startRelay(t, []string{"WALRELAY_POSTGRES_URL=" + g.address("localhost", "keeper", inCommand, verified), "WALRELAY_POSTGRES_PASSWORD_COMMAND=cat " + secret}),
		certified: startRelay(t, []string{"WALRELAY_POSTGRES_URL=" + g.address("localhost", pgtest.CertifiedUser, certified, verified+" sslcert="+g.cert+" sslkey="+g.key)}),
	}
	for database, r := range relays {
		r.relays(t, g.URL(database), 1)
	}

	// The server first: what the relays have is refused for a while.
	later, err := certificates.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := later.Client("client", pgtest.CertifiedUser); err != nil {
		t.Fatal(err)
	}
	replace(t, later.File("ca.pem"), g.Authority().File("ca.pem.next"))
	pgtest.Exec(t, g.URL("postgres"), "ALTER ROLE keeper PASSWORD '"+secondPassword+"'",
		"ALTER SYSTEM SET ssl_ca_file = 'tls/ca.pem.next'", "SELECT pg_reload_conf()")
	await(t, "the reload", func() bool { return strings.Contains(readLog(t, g.Log()), "ssl_ca_file") })
	pgtest.Exec(t, g.URL("postgres"), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'walrelay/%'`)
	for database, r := range relays {
		await(t, "unready while it is refused: "+database, func() bool {
			code, _ := get(t, r.address, "/readyz")
			return code == http.StatusServiceUnavailable
		})
	}
	if err := errors.Join(os.WriteFile(secret, []byte(secondPassword), 0o600), os.WriteFile(urlFile, []byte(urlOf(inURL, secondPassword)), 0o600)); err != nil {
		t.Fatal(err)
	}
	replace(t, later.File("client.pem"), g.cert)
	replace(t, later.File("client.key"), g.key)
	for database, r := range relays {
		r.relays(t, g.URL(database), 2)
		r.stop(t)
	}
}

func replace(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readLog(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
