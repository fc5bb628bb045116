package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
)

// Relay makes the relay's configuration. The error is of type Problems, with all of them; Load has told them already.
// Files with certificates are read here.
func (c Config) Relay() (relay.Config, error) {
	v := validation{config: c}
	return v.all(), v.problems.err()
}

// all composes the configuration and checks it on the way.
func (v *validation) all() relay.Config {
	c := v.config
	v.values()
	composed := relay.Config{
		Postgres:     c.replication(),
		Kafka:        v.kafka(),
		Ignore:       c.Ignore,
		SaveInterval: c.Checkpoint.SaveInterval,
		DrainTimeout: c.DrainTimeout,
		WaitStopped:  c.OnStop == "wait",
		SlotWatch:    relay.SlotWatch{Warn: int64(c.SlotWatch.WarnBytes), Unready: int64(c.SlotWatch.UnreadyBytes)},
	}
	if c.OnPoison == "dead_letter" {
		composed.DeadLetterTopic = c.DeadLetterTopic
	}
	if m := c.Messages; m.Enabled {
		composed.Messages = &relay.Messages{Prefix: m.Prefix, Topics: m.Topics, Route: m.Route}
		if m.OnPoison == "dead_letter" {
			composed.Messages.DeadLetterTopic = c.DeadLetterTopic
		}
	}
	for _, table := range c.Tables {
		composed.Tables = append(composed.Tables, relay.Table{Name: table.Name, Route: table.Route})
	}
	return composed
}

func (c Config) replication() replication.Config {
	slot, publication := c.names()
	return replication.Config{
		URL:              c.Postgres.URL.Reveal(),
		Slot:             slot,
		Publication:      publication,
		Messages:         c.Messages.Enabled,
		WALSenderTimeout: c.Postgres.WALSenderTimeout,
		DecodingWorkMem:  c.Postgres.LogicalDecodingWorkMem,
		MaxEventBytes:    int(c.Postgres.MaxEventBytes),
	}
}

func (v *validation) kafka() kafka.Config {
	k := v.config.Kafka
	var compression compress.Compression
	if err := compression.UnmarshalText([]byte(k.Compression)); err != nil {
		v.wrong("kafka.compression", "want none, gzip, snappy, lz4 or zstd")
	}
	composed := kafka.Config{
		Brokers:            k.Brokers,
		ClientID:           k.ClientID,
		TLS:                v.tls(),
		SASL:               v.sasl(),
		Compression:        compression,
		BatchBytes:         int(k.BatchBytes),
		Linger:             k.Linger,
		MaxInFlightBytes:   int(k.MaxInFlightBytes),
		MaxInFlightRecords: k.MaxInFlightRecords,
		MaxRecordBytes:     int(k.MaxRecordBytes),
		Topics: kafka.TopicConfig{
			Create:            k.Topics.Create,
			Partitions:        k.Topics.Partitions,
			ReplicationFactor: k.Topics.ReplicationFactor,
			Config:            k.Topics.Config,
		},
		TopicWait:      k.Topics.Wait,
		HaltRetry:      k.HaltRetry,
		DialTimeout:    k.DialTimeout,
		RequestTimeout: k.RequestTimeout,
		MetadataMaxAge: k.MetadataMaxAge,
	}
	v.producer(composed)
	return composed
}

// tls is nil when TLS is off.
func (v *validation) tls() *tls.Config {
	t := v.config.Kafka.TLS
	if !t.Enabled {
		if t != (TLS{}) {
			v.wrong("kafka.tls.enabled", "want true, since other keys of kafka.tls are set; without TLS they would do nothing")
		}
		return nil
	}
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         t.ServerName,
		InsecureSkipVerify: t.InsecureSkipVerify, // documented as what it is
	}
	if t.CAFile != "" {
		pool, err := certificates(t.CAFile)
		if err != nil {
			v.wrong("kafka.tls.ca_file", err.Error())
		}
		config.RootCAs = pool
	}
	switch {
	case (t.CertFile == "") != (t.KeyFile == ""):
		v.wrong("kafka.tls.cert_file", "want kafka.tls.cert_file and kafka.tls.key_file together")
	case t.CertFile != "":
		certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			v.wrong("kafka.tls.cert_file", "cannot be used with kafka.tls.key_file: "+err.Error())
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config
}

func certificates(path string) (*x509.CertPool, error) {
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

// sasl is nil without a mechanism.
func (v *validation) sasl() sasl.Mechanism {
	s := v.config.Kafka.SASL
	if s.Mechanism == "" {
		if s.Username != "" || s.Password.Reveal() != "" {
			v.wrong("kafka.sasl.mechanism", "not set, but a user or password is; want "+saslMechanisms)
		}
		return nil
	}
	if s.Username == "" {
		v.wrong("kafka.sasl.username", "not set; kafka.sasl.mechanism needs it")
	}
	if s.Password.Reveal() == "" && s.PasswordFile == "" {
		v.wrong("kafka.sasl.password", "not set; kafka.sasl.mechanism needs it (or kafka.sasl.password_file)")
	}
	algorithm := scram.SHA256
	switch s.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: s.Username, Password: s.Password.Reveal()}
	case "SCRAM-SHA-256":
	case "SCRAM-SHA-512":
		algorithm = scram.SHA512
	default:
		v.wrong("kafka.sasl.mechanism", "want "+saslMechanisms)
		return nil
	}
	mechanism, err := scram.Mechanism(algorithm, s.Username, s.Password.Reveal())
	if err != nil { // its text could repeat the password
		v.wrong("kafka.sasl.password", "user or password has characters that SCRAM does not allow (RFC 4013)")
	}
	return mechanism
}

const saslMechanisms = "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
