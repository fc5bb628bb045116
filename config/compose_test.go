package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/compress"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/relay"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// Every key arrives where it belongs.
func TestRelay(t *testing.T) {
	t.Parallel()
	c := load(t, Sources{Environ: minimal(), File: write(t, "c.yaml", `
postgres:
  slot: the_slot
  publication: the_publication
  wal_sender_timeout: 30s
  logical_decoding_work_mem: 256MB
  max_event_bytes: 1MiB
tables:
  - name: sales.events
    route: {field: kind}
messages: {enabled: true, prefix: ours, topics: [orders], columns: {key: tenant}}
ignore: [sales.audit]
kafka:
  client_id: the_client
  compression: zstd
  batch_bytes: 2KiB
  linger: 3ms
  max_in_flight_bytes: 4MiB
  max_in_flight_records: 5
  max_record_bytes: 6MiB
  resume: require
  halt_retry: 7s
  dial_timeout: 8s
  request_timeout: 9s
  metadata_max_age: 10s
  topics: {create: true, partitions: 11, replication_factor: 12, wait: 13s, config: {retention.ms: 1}}
checkpoint: {save_interval: 14s}
drain_timeout: 15s
on_stop: wait
slot_watch: {warn_bytes: 1GiB, unready_bytes: 2GiB}
`)})
	got, err := c.Relay()
	if err != nil {
		t.Fatal(err)
	}
	want := relay.Config{
		Postgres: replication.Config{
			URL: testURL, Slot: "the_slot", Publication: "the_publication",
			Messages: true, WALSenderTimeout: 30 * time.Second, DecodingWorkMem: "256MB", MaxEventBytes: 1 << 20,
		},
		Kafka: kafka.Config{
			Brokers: []string{testBroker}, ClientID: "the_client", Compression: compress.Zstd,
			BatchBytes: 2 << 10, Linger: 3 * time.Millisecond, MaxInFlightBytes: 4 << 20, MaxInFlightRecords: 5, MaxRecordBytes: 6 << 20,
			HaltRetry: 7 * time.Second, DialTimeout: 8 * time.Second, RequestTimeout: 9 * time.Second, MetadataMaxAge: 10 * time.Second,
			Topics:    kafka.TopicConfig{Create: true, Partitions: 11, ReplicationFactor: 12, Config: map[string]string{"retention.ms": "1"}},
			TopicWait: 13 * time.Second, ResumePolicy: kafka.ResumeRequire,
		},
		Tables: []relay.Table{{Name: "sales.events", Route: router.Config{Route: router.Routing{Field: "kind"}}}},
		Messages: &relay.Messages{
			Prefix: "ours", Topics: []string{"orders"}, DeadLetterTopic: "walrelay.dead-letter",
			Route: router.Config{Columns: router.Columns{Key: "tenant"}},
		},
		Ignore:       []string{"sales.audit"},
		SaveInterval: 14 * time.Second,
		SlotWatch:    relay.SlotWatch{Warn: 1 << 30, Unready: 2 << 30},
		WaitStopped:  true,
		DrainTimeout: 15 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSASL(t *testing.T) {
	t.Parallel()
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		c := valid()
		c.Kafka.SASL = SASL{Mechanism: mechanism, Username: "u", Password: NewSecret("p")}
		got, err := c.Relay()
		if err != nil {
			t.Fatal(err)
		}
		if got.Kafka.SASL.Name() != mechanism {
			t.Errorf("%s became %s", mechanism, got.Kafka.SASL.Name())
		}
		_, first, err := got.Kafka.SASL.Start(t.Context())
		if want := map[string]string{"PLAIN": "\x00u\x00p"}[mechanism]; err != nil || !strings.HasPrefix(string(first), want) || len(first) == 0 {
			t.Errorf("%s begins with %q, %v", mechanism, first, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	certificate, key := certificate(t)
	c := valid()
	c.Kafka.TLS = TLS{
		Enabled: true, ServerName: "kafka.example", InsecureSkipVerify: true,
		CAFile: write(t, "ca.pem", certificate), CertFile: write(t, "cert.pem", certificate), KeyFile: write(t, "key.pem", key),
	}
	got, err := c.Relay()
	if err != nil {
		t.Fatal(err)
	}
	tls, err := got.Kafka.TLS()
	if err != nil {
		t.Fatal(err)
	}
	if tls.ServerName != "kafka.example" || !tls.InsecureSkipVerify || len(tls.Certificates) != 1 || tls.RootCAs == nil {
		t.Errorf("%+v", tls)
	}
	c.Kafka.TLS = TLS{Enabled: true}
	if got, err = c.Relay(); err != nil {
		t.Fatal(err)
	}
	if tls, err = got.Kafka.TLS(); err != nil || tls.InsecureSkipVerify || tls.RootCAs != nil {
		t.Errorf("plain TLS: %+v, %v", tls, err)
	}
}

// certificate makes one that signs itself, and its key.
func certificate(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}
