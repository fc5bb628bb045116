package main

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// lock is a cluster that wants client certificates, ends sessions after three seconds and takes the tokens of a server.
type lock struct {
	*kafkatest.Cluster
	tokens *kafkatest.TokenServer
}

func startLocked(t *testing.T) lock {
	t.Helper()
	tokens := kafkatest.StartTokens(t, 5*time.Second)
	return lock{kafkatest.Start(t, tokens.Accept(kafkatest.Options{FastJVM: true, Secure: true,
		Properties: map[string]string{"ssl.client.auth": "required", "connections.max.reauth.ms": "3000"}})), tokens}
}

// environ is how walrelay reaches one of the listeners.
func (l lock) environ(t *testing.T, listener string, more ...string) (environ []string, database string) {
	t.Helper()
	database = pgtest.Shared(t, "").Database(t)
	pgtest.Exec(t, database, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	ca, _, _ := l.CertificateFiles()
	return append([]string{"WALRELAY_POSTGRES_URL=" + database, "WALRELAY_KAFKA_BROKERS=" + strings.Join(l.Listener(listener), ","),
		"WALRELAY_KAFKA_TLS_ENABLED=true", "WALRELAY_KAFKA_TLS_CA_FILE=" + ca}, more...), database
}

// relay starts run; its topic is one of its own.
func (l lock) relay(t *testing.T, environ []string) *relayProcess {
	t.Helper()
	r := &relayProcess{brokers: l.Bootstrap()}
	r.cmd, r.output, r.address = start(t, environ)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.output)
		}
	})
	return r
}

// sends inserts rows first to last-1, one after the other, and waits for each record.
func (r *relayProcess) sends(t *testing.T, database, kind string, first, last int, pause time.Duration) {
	t.Helper()
	await(t, "streaming", func() bool { return strings.Contains(r.output.String(), `"streaming"`) })
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for n := first; n < last; n++ {
		pgtest.Exec(t, database, fmt.Sprintf(`INSERT INTO outbox VALUES (%d, '%s', 'o', 'X', 'payload %[1]d')`, n, kind))
		await(t, fmt.Sprintf("%s %d", kind, n), func() bool {
			records, err := kafkatest.ReadAll(t.Context(), r.brokers, "outbox.event."+kind)
			return err == nil && len(records) == n+1 && string(records[n].Value) == fmt.Sprintf("payload %d", n)
		})
		<-ticker.C
	}
}

// refused sends a row and waits until the relay says why it cannot be published.
func (r *relayProcess) refused(t *testing.T, database, why string) {
	t.Helper()
	await(t, "streaming", func() bool { return strings.Contains(r.output.String(), `"streaming"`) })
	pgtest.Exec(t, database, `INSERT INTO outbox VALUES (0, 'refused', 'o', 'X', 'payload')`)
	await(t, "the reason in the log: "+why, func() bool { return strings.Contains(r.output.String(), why) })
	r.stop(t)
}

func TestKafkaSecurity(t *testing.T) {
	t.Parallel()
	l := startLocked(t)
	_, cert, key := l.CertificateFiles()

	t.Run("client certificate", func(t *testing.T) {
		t.Parallel()
		environ, database := l.environ(t, "SSL", "WALRELAY_KAFKA_TLS_CERT_FILE="+cert, "WALRELAY_KAFKA_TLS_KEY_FILE="+key)
		r := l.relay(t, environ)
		r.sends(t, database, "certified", 0, 1, time.Millisecond)
		r.stop(t)
	})
	t.Run("no client certificate", func(t *testing.T) {
		t.Parallel()
		environ, database := l.environ(t, "SSL")
		r := l.relay(t, environ)
		r.refused(t, database, "remote error: tls: ")
	})
	t.Run("unknown authority", func(t *testing.T) {
		t.Parallel()
		environ, database := l.environ(t, "SASL_SSL", "WALRELAY_KAFKA_TLS_CA_FILE="+l.tokens.CAFile, "WALRELAY_KAFKA_SASL_MECHANISM=PLAIN",
			"WALRELAY_KAFKA_SASL_USERNAME=u", "WALRELAY_KAFKA_SASL_PASSWORD=p")
		r := l.relay(t, environ)
		r.refused(t, database, "x509: certificate signed by unknown authority")
	})
	t.Run("tokens and sessions", func(t *testing.T) {
		t.Parallel()
		environ, database := l.environ(t, "SASL_SSL", "WALRELAY_KAFKA_SASL_MECHANISM=OAUTHBEARER", "WALRELAY_KAFKA_SASL_TOKEN_URL="+l.tokens.URL,
			"WALRELAY_KAFKA_SASL_TOKEN_SCOPE=produce", "WALRELAY_KAFKA_SASL_TOKEN_CA_FILE="+l.tokens.CAFile,
			"WALRELAY_KAFKA_SASL_USERNAME="+kafkatest.ClientID, "WALRELAY_KAFKA_SASL_PASSWORD="+kafkatest.ClientSecret)
		r := l.relay(t, environ)
		r.sends(t, database, "bearer", 0, 28, 250*time.Millisecond) // over two ends of a session and of a token
		if n := l.tokens.Issued(); n < 2 || n > 4 {
			t.Errorf("%d tokens in 7 s, of 5 s each", n)
		}
		r.neverRetried(t)
		r.stop(t)
	})
	t.Run("refused token", func(t *testing.T) {
		t.Parallel()
		environ, database := l.environ(t, "SASL_SSL", "WALRELAY_KAFKA_SASL_MECHANISM=OAUTHBEARER", "WALRELAY_KAFKA_SASL_PASSWORD="+l.tokens.Token("another audience"))
		r := l.relay(t, environ)
		r.refused(t, database, `SASL_AUTHENTICATION_FAILED: {\"status\":\"invalid_token\"}`)
	})
	t.Run("rotated password", func(t *testing.T) {
		t.Parallel()
		secret := keep(t, "password", kafkatest.Password)
		environ, database := l.environ(t, "SASL_SSL", "WALRELAY_KAFKA_SASL_MECHANISM=SCRAM-SHA-512",
			"WALRELAY_KAFKA_SASL_USERNAME="+kafkatest.User, "WALRELAY_KAFKA_SASL_PASSWORD_FILE="+secret)
		r := l.relay(t, environ)
		r.sends(t, database, "rotated", 0, 1, time.Millisecond)
		if err := l.SetPassword(t.Context(), "the next one"); err != nil {
			t.Fatal(err)
		}
		sent := 1
		await(t, "a refused login", func() bool { // once the session ends
			pgtest.Exec(t, database, fmt.Sprintf(`INSERT INTO outbox VALUES (%d, 'rotated', 'o', 'X', 'payload %[1]d')`, sent))
			sent++
			return strings.Contains(r.output.String(), "SASL_AUTHENTICATION_FAILED")
		})
		if err := os.WriteFile(secret, []byte("the next one\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		await(t, "the records that waited", func() bool {
			records, err := kafkatest.ReadAll(t.Context(), r.brokers, "outbox.event.rotated")
			return err == nil && len(records) == sent
		})
		r.sends(t, database, "rotated", sent, sent+1, time.Millisecond)
		r.stop(t)
	})
}

// neverRetried fails when a batch had to be sent again, or a connection was lost instead of replaced.
func (r *relayProcess) neverRetried(t *testing.T) {
	t.Helper()
	_, body := get(t, r.address, "/metrics")
	found := map[string]string{}
	for line := range strings.Lines(body) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "walrelay_retries_total") {
			found[name] = value
		}
	}
	if len(found) == 0 {
		t.Error("no walrelay_retries_total among the metrics")
	}
	for name, value := range maps.All(found) {
		if value != "0" {
			t.Errorf("%s is %s", name, value)
		}
	}
}
