package config

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/internal/certificates"
)

func TestSource(t *testing.T) {
	t.Parallel()
	file := write(t, "secret", "first\r\n")
	script := write(t, "print", "#!/bin/sh\necho \"$1 $2\"\nexit $3\n")
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		source
		want, problem string
	}{
		{source{text: NewSecret("plain")}, "plain", ""},
		{source{key: "k", file: file}, "first", ""},
		{source{key: "k", file: "no/file"}, "", `k_file "no/file" cannot be read: no such file or directory`},
		{source{key: "k", file: write(t, "empty", "\n")}, "", "the file is empty"},
		{source{key: "k", command: script + " a  b 0"}, "a b", ""},
		{source{key: "k", command: script + " topsecret b 3"}, "", "k_command: " + script + ": exit status 3"},
		{source{key: "k", command: "true"}, "", "k_command: true printed nothing"},
		{source{key: "k", command: "no-such-program x"}, "", "k_command: no-such-program: exec"},
		{source{key: "k", command: " "}, "", "k_command: no program in it"},
	} {
		got, err := c.read()
		if got != c.want || (err == nil) != (c.problem == "") || err != nil && (!strings.Contains(err.Error(), c.problem) || strings.Contains(err.Error(), "topsecret")) {
			t.Errorf("%+v: %q, %v", c.source, got, err)
		}
	}
	s := source{key: "k", file: file}
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.read(); got != "second" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Of a secret there is one source; the layer that goes first decides which.
func TestSecretCommand(t *testing.T) {
	t.Parallel()
	file := write(t, "c.yaml", "postgres: {password: x}\nkafka: {sasl: {mechanism: PLAIN, username: u, password_command: print it}}")
	c := load(t, Sources{File: file, Environ: minimal("WALRELAY_POSTGRES_PASSWORD_COMMAND=print other")})
	if c.Postgres.Password.Reveal() != "" || c.Postgres.PasswordCommand != "print other" || check(c) != nil {
		t.Errorf("%v, %v", c, check(c))
	}
	_, err := read(Sources{Environ: minimal("WALRELAY_POSTGRES_PASSWORD=x", "WALRELAY_POSTGRES_PASSWORD_COMMAND=y")})
	wantProblems(t, err, "postgres.password_command (WALRELAY_POSTGRES_PASSWORD_COMMAND): set beside postgres.password; want one of the two")
}

// A TLS server that tells what its clients said, and certificates that are replaced while the client is in use.
func TestCertificatesAreReadAnew(t *testing.T) {
	t.Parallel()
	first, second := authority(t), authority(t)
	dir := t.TempDir()
	copyTo := func(a *certificates.Authority) {
		for _, name := range []string{"ca.pem", "client.pem", "client.key"} {
			content, err := os.ReadFile(a.File(name))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, name), content, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	copyTo(first)
	c := valid()
	c.Kafka.TLS = TLS{Enabled: true, CAFile: filepath.Join(dir, "ca.pem"), CertFile: filepath.Join(dir, "client.pem"),
		KeyFile: filepath.Join(dir, "client.key"), ServerName: "localhost"}
	composed, err := c.Relay()
	if err != nil {
		t.Fatal(err)
	}
	if name, err := handshake(t, first, composed.Kafka.TLS); name != "localhost" || err != nil {
		t.Errorf("server name %q, %v", name, err)
	}
	if _, err := handshake(t, second, composed.Kafka.TLS); err == nil {
		t.Error("a stranger was trusted")
	}
	copyTo(second)
	if name, err := handshake(t, second, composed.Kafka.TLS); name != "localhost" || err != nil {
		t.Errorf("after the renewal: server name %q, %v", name, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client.key"), []byte("half a fi"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := composed.Kafka.TLS(); err == nil || !strings.Contains(err.Error(), "kafka.tls.cert_file") {
		t.Errorf("with half a key: %v", err)
	}
}

func authority(t *testing.T) *certificates.Authority {
	t.Helper()
	a, err := certificates.New(t.TempDir())
	if err == nil {
		err = a.Server("server")
	}
	if err == nil {
		err = a.Client("client", "relay")
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// handshake connects to a server of that authority, which wants a certificate of the same, and returns the name that the
// client asked for (SNI).
func handshake(t *testing.T, a *certificates.Authority, client func() (*tls.Config, error)) (string, error) {
	t.Helper()
	certificate, err := tls.LoadX509KeyPair(a.File("server.pem"), a.File("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	type met struct {
		name string
		err  error
	}
	server := make(chan met, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			server <- met{"", err}
			return
		}
		defer conn.Close()
		secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()})
		err = secured.Handshake()
		server <- met{secured.ConnectionState().ServerName, err}
	}()
	config, err := client()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", listener.Addr().String(), config)
	if err == nil {
		defer conn.Close()
	}
	other := <-server
	if err == nil {
		err = other.err
	}
	return other.name, err
}
