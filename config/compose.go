package config

import (
	"github.com/segmentio/kafka-go/compress"

	"github.com/walrelay/walrelay/admin"
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
		Password:         c.Postgres.password(),
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
		ResumePolicy:   kafka.ResumePolicy(k.Resume),
		TopicWait:      k.Topics.Wait,
		HaltRetry:      k.HaltRetry,
		DialTimeout:    k.DialTimeout,
		RequestTimeout: k.RequestTimeout,
		MetadataMaxAge: k.MetadataMaxAge,
	}
	v.producer(composed)
	return composed
}

// Admin is the configuration of the pages.
func (c Config) Admin() admin.Config {
	pages := admin.Config{Listen: c.HTTP.Listen, CertFile: c.HTTP.CertFile, KeyFile: c.HTTP.KeyFile}
	if s := c.HTTP.source(); s.given() {
		pages.Token = s.read
	}
	return pages
}
