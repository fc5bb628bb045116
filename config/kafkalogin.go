package config

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/walrelay/walrelay/kafka/oauth"
)

// tls is nil when TLS is off.
func (v *validation) tls() func() (*tls.Config, error) {
	t := v.config.Kafka.TLS
	if !t.Enabled {
		if t != (TLS{}) {
			v.wrong("kafka.tls.enabled", "want true, since other keys of kafka.tls are set; without TLS they would do nothing")
		}
		return nil
	}
	if t.CAFile != "" {
		if _, err := authorities(t.CAFile); err != nil {
			v.wrong("kafka.tls.ca_file", err.Error())
		}
	}
	v.keyPair("kafka.tls", t.CertFile, t.KeyFile)
	return t.config
}

// keyPair checks a certificate and its key below a section.
func (v *validation) keyPair(section, certFile, keyFile string) {
	if (certFile == "") != (keyFile == "") {
		v.wrong(section+".cert_file", "want "+section+".cert_file and "+section+".key_file together")
	} else if certFile != "" {
		if _, err := tls.LoadX509KeyPair(certFile, keyFile); err != nil {
			v.wrong(section+".cert_file", "cannot be used with "+section+".key_file: "+err.Error())
		}
	}
}

// config reads the files as they are now.
func (t TLS) config() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, // documented as what it is
	}
	var err error
	if t.CAFile != "" {
		if config.RootCAs, err = authorities(t.CAFile); err != nil {
			return nil, fmt.Errorf("kafka.tls.ca_file %q %w", t.CAFile, err)
		}
	}
	if t.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("kafka.tls.cert_file %q with kafka.tls.key_file: %w", t.CertFile, err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

func authorities(path string) (*x509.CertPool, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.New("cannot be read: " + cause(err))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, errors.New("has no certificate; want PEM, beginning with -----BEGIN CERTIFICATE-----")
	}
	return pool, nil
}

const saslMechanisms = "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"

// sasl is nil without a mechanism.
func (v *validation) sasl() sasl.Mechanism {
	s := v.config.Kafka.SASL
	if s.Mechanism == "" {
		if s.Username != "" || s.source().given() || s.TokenURL != "" {
			v.wrong("kafka.sasl.mechanism", "not set, but other keys of kafka.sasl are; want "+saslMechanisms)
		}
		return nil
	}
	if s.Mechanism == "OAUTHBEARER" {
		return v.bearer(s)
	}
	if s.Mechanism != "PLAIN" && s.Mechanism != "SCRAM-SHA-256" && s.Mechanism != "SCRAM-SHA-512" {
		v.wrong("kafka.sasl.mechanism", "want "+saslMechanisms)
		return nil
	}
	v.userAndPassword(s)
	if s.TokenURL != "" {
		v.wrong("kafka.sasl.token_url", "only OAUTHBEARER asks for a token; leave it out")
	}
	if _, err := s.login(s.Password.Reveal()); err != nil && s.Password.Reveal() != "" {
		v.wrong("kafka.sasl.password", err.Error())
	}
	return fresh{s}
}

func (v *validation) userAndPassword(s SASL) {
	if s.Username == "" {
		v.wrong("kafka.sasl.username", "not set; kafka.sasl.mechanism needs it")
	}
	v.secret(s)
}

func (v *validation) secret(s SASL) {
	if !s.source().given() {
		v.wrong("kafka.sasl.password", "not set; kafka.sasl.mechanism needs it (or kafka.sasl.password_file or _command)")
	}
}

// bearer is OAUTHBEARER, with a token from a server or one that somebody else makes.
func (v *validation) bearer(s SASL) sasl.Mechanism {
	if s.TokenURL == "" {
		v.secret(s)
		if s.Username != "" {
			v.wrong("kafka.sasl.username", "only kafka.sasl.token_url is asked with it; want both or none")
		}
		return oauth.Mechanism{Token: func(context.Context) (string, error) { return s.source().read() }}
	}
	v.userAndPassword(s)
	u, err := url.Parse(string(s.TokenURL))
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		v.wrong("kafka.sasl.token_url", "want https://host/path, since the secret is sent there")
	}
	source := &oauth.Source{URL: string(s.TokenURL), ClientID: s.Username, Secret: s.source().read, Scope: s.TokenScope}
	if s.TokenCAFile != "" {
		if _, err := authorities(s.TokenCAFile); err != nil {
			v.wrong("kafka.sasl.token_ca_file", err.Error())
		}
		source.TLS = TLS{CAFile: s.TokenCAFile}.config
	}
	return oauth.Mechanism{Token: source.Token}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fresh logs in with the password of the moment.
type fresh struct{ sasl SASL }

// Name is the mechanism's name in the protocol.
func (f fresh) Name() string { return f.sasl.Mechanism }

// Start reads the password and begins the dialogue.
func (f fresh) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	password, err := f.sasl.source().read()
	if err != nil {
		return nil, nil, err
	}
	mechanism, err := f.sasl.login(password)
	if err != nil {
		return nil, nil, err
	}
	return mechanism.Start(ctx)
}

// login is the mechanism with a password.
func (s SASL) login(password string) (sasl.Mechanism, error) {
	algorithm := scram.SHA256
	switch s.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: s.Username, Password: password}, nil
	case "SCRAM-SHA-512":
		algorithm = scram.SHA512
	}
	mechanism, err := scram.Mechanism(algorithm, s.Username, password)
	if err != nil { // its text could repeat the password
		return nil, errors.New("user or password has characters that SCRAM does not allow (RFC 4013)")
	}
	return mechanism, nil
}
