package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
)

// servers are Postgres and Kafka, ours or the user's.
type servers struct {
	postgres string // URL
	brokers  []string
	prefix   string // of the topics
	// About them, for the intro.
	aboutPostgres, aboutKafka string

	closers []func() error
}

// startServers starts what the user does not bring. progress is told what takes long.
func startServers(ctx context.Context, o options, progress func(string)) (*servers, error) {
	s := &servers{
		postgres: o.postgres, aboutPostgres: "your PostgreSQL",
		brokers: strings.Split(o.kafka, ","), aboutKafka: "your Kafka at " + o.kafka, prefix: foreignPrefix,
	}
	err := func() error {
		if o.postgres == "" {
			if err := s.startPostgres(ctx, progress); err != nil {
				return err
			}
		}
		if o.kafka == "" {
			return s.startKafka()
		}
		return nil
	}()
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *servers) startPostgres(ctx context.Context, progress func(string)) error {
	server, err := pgtest.Launch(ctx, pgtest.Options{Progress: progress})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, server.Close)
	s.postgres = server.URL("postgres")
	s.aboutPostgres = fmt.Sprintf("PostgreSQL %s, started for you on port %d", server.Version(), server.Port())
	return nil
}

func (s *servers) startKafka() error {
	dir, err := os.MkdirTemp("", "walrelay-demo-kafka-")
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	cluster, err := kafkatest.LaunchFake(dir)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() error {
		cluster.Close()
		return nil
	})
	s.brokers, s.prefix = cluster.ListenAddrs(), defaultPrefix
	s.aboutKafka = "a small broker inside this program, " + s.brokers[0]
	return nil
}

// topics are those of the shop's aggregates.
func (s *servers) topics() []string { return []string{s.prefix + customers, s.prefix + orders} }

// close ends what was started, the last first.
func (s *servers) close() error {
	var errs []error
	for i := len(s.closers) - 1; i >= 0; i-- {
		errs = append(errs, s.closers[i]())
	}
	return errors.Join(errs...)
}
