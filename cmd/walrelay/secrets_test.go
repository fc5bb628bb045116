package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// marker is a part of every secret below.
const marker = "hunter2"

// leaks are the ways in which the marker may come out.
func leaks(text string) []string {
	var found []string
	for name, form := range map[string]string{"plain": marker, "hex": fmt.Sprintf("%x", marker), "base64": strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(marker)), "=")[:8]} {
		for line := range strings.Lines(text) {
			if strings.Contains(line, form) {
				found = append(found, name+": "+strings.TrimSpace(line))
			}
		}
	}
	return found
}

func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Secure: true})
	pgtest.Exec(t, server.URL("postgres"), "CREATE ROLE keeper SUPERUSER LOGIN PASSWORD '"+marker+" of postgres'")
	plain := server.Database(t)
	pgtest.Exec(t, plain, `CREATE TABLE outbox (id int, aggregatetype text, aggregateid text, type text, payload text)`)
	database := strings.TrimPrefix(must(url.Parse(plain)).Path, "/")
	address := fmt.Sprintf("postgres://keeper:%s@localhost:%d/%s?sslmode=require", url.PathEscape(marker+" of postgres"), server.Port(), database)
	wrong := strings.Replace(address, marker, marker+"-wrong", 1)
	brokers := strings.Join(kafkatest.Fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "relay", marker+" of kafka")).ListenAddrs(), ",")
	sasl := func(mechanism string, more ...string) []string {
		return append([]string{"WALRELAY_KAFKA_BROKERS=" + brokers, "WALRELAY_KAFKA_SASL_MECHANISM=" + mechanism, "WALRELAY_KAFKA_SASL_USERNAME=relay",
			"WALRELAY_LOG_LEVEL=debug", "WALRELAY_HTTP_TOKEN=" + marker + " of the pages", "WALRELAY_DRAIN_TIMEOUT=1s", "GOTRACEBACK=all"}, more...)
	}
	secret, failing := keep(t, "secret", marker+" of kafka\n"), keep(t, "failing", "#!/bin/sh\necho "+marker+"\necho "+marker+" >&2\nexit 1\n")
	if err := os.Chmod(failing, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, environ := range map[string][]string{
		"all is well":          sasl("PLAIN", "WALRELAY_POSTGRES_URL="+address, "WALRELAY_KAFKA_SASL_PASSWORD_FILE="+secret),
		"kafka refuses":        sasl("SCRAM-SHA-512", "WALRELAY_POSTGRES_URL="+address, "WALRELAY_KAFKA_SASL_PASSWORD="+marker+"-wrong"),
		"postgres refuses":     sasl("PLAIN", "WALRELAY_POSTGRES_URL="+wrong, "WALRELAY_KAFKA_SASL_PASSWORD_FILE="+secret),
		"commands fail":        sasl("PLAIN", "WALRELAY_POSTGRES_URL="+plain, "WALRELAY_POSTGRES_PASSWORD_COMMAND="+failing, "WALRELAY_KAFKA_SASL_PASSWORD_COMMAND="+failing),
		"kafka command fails":  sasl("PLAIN", "WALRELAY_POSTGRES_URL="+address, "WALRELAY_KAFKA_SASL_PASSWORD_COMMAND="+failing),
		"token server refuses": sasl("OAUTHBEARER", "WALRELAY_POSTGRES_URL="+address, "WALRELAY_KAFKA_SASL_PASSWORD="+marker, "WALRELAY_KAFKA_SASL_TOKEN_URL=http://127.0.0.1:1/"),
		"no token at all":      sasl("OAUTHBEARER", "WALRELAY_POSTGRES_URL="+address, "WALRELAY_KAFKA_SASL_PASSWORD="+marker+" \x07", "WALRELAY_KAFKA_SASL_USERNAME="),
		"bad configuration":    sasl("PLAIN", "WALRELAY_POSTGRES_URL=postgres://u:"+marker+"@h:"+marker+"/", "WALRELAY_KAFKA_SASL_PASSWORD="+marker, "WALRELAY_KAFKA_SASL_PASSWORT="+marker),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			environ = append(environ, "WALRELAY_POSTGRES_SLOT="+strings.ReplaceAll(name, " ", "_")) // one each, so that none stands by
			all := ""
			for _, command := range []string{"config print", "config check", "init --sql", "slot list", "status", "doctor --json", "verify", "pause", "version --json"} {
				ran := walrelay(t, environ, strings.Fields(command)...)
				all += command + ":\n" + ran.out + ran.err
			}
			if !strings.Contains(all, "token: '***'") {
				t.Error("config print has not shown that there is a token")
			}
			all += dying(t, environ)
			for _, leak := range leaks(all) {
				t.Error(leak)
			}
		})
	}
}

// dying is all that a relay says until it is made to dump its goroutines, as a panic would.
func dying(t *testing.T, environ []string) string {
	t.Helper()
	cmd, output := child(t.Context(), append(environ, "WALRELAY_HTTP_LISTEN=127.0.0.1:0"), "run")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // by the signal, or by itself with a code that other tests look at
	}()
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	said := func() bool { // something worth to look at
		for _, words := range []string{`"kafka session begins"`, `"no kafka broker answers"`, `"trying again"`} {
			if strings.Contains(output.String(), words) {
				return true
			}
		}
		return over()
	}
	await(t, "the relay to say something", said)
	pages := ""
	if _, rest, found := strings.Cut(output.String(), `"address":"`); found && !over() {
		address, _, _ := strings.Cut(rest, `"`)
		for _, path := range []string{"/status", "/readyz", "/metrics", "/healthz"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Close = true
			request.Header.Set("Authorization", "Bearer "+marker+" of the pages")
			if response, err := http.DefaultClient.Do(request); err == nil {
				body, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				pages += string(body)
			}
		}
		if !strings.Contains(pages, "walrelay_") && !over() {
			t.Errorf("the pages were not shown: %s", pages)
		}
		_ = cmd.Process.Signal(syscall.SIGQUIT) // it may have ended
		<-ended
		if !strings.Contains(output.String(), "\ngoroutine 1 ") && cmd.ProcessState.ExitCode() == 2 {
			t.Error("no dump")
		}
	}
	<-ended
	return output.String() + pages
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
