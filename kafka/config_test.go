package kafka

import (
	"strings"
	"testing"
	"time"
)

func TestDefaultsAreValid(t *testing.T) {
	if err := (Config{Brokers: []string{"localhost:9092"}}).Validate(); err != nil {
		t.Error(err)
	}
}

// Every problem is reported, not only the first.
func TestValidate(t *testing.T) {
	cfg := Config{
		Brokers: []string{"localhost", "a:1"}, Compression: 9, BatchBytes: 2 << 20, Linger: time.Minute,
		MaxInFlightBytes: 1, MaxInFlightRecords: -1, MaxRecordBytes: 1, TopicWait: 1, HaltRetry: 1, DialTimeout: 1,
		RequestTimeout: 1, MetadataMaxAge: 1, Topics: TopicConfig{Partitions: -2, ReplicationFactor: -2},
	}
	err := cfg.Validate()
	if err == nil {
		t.Fatal("no problem found")
	}
	problems := strings.Split(err.Error(), "\n")
	for _, want := range []string{
		`broker "localhost"`, "compression 9", "batch bytes 2097152", "linger 1m0s", "in-flight bytes 1", "in-flight records -1",
		"record bytes 1", "topic wait", "halt retry", "dial timeout", "request timeout", "metadata age", "topic partitions -2",
		"replication factor -2",
	} {
		found := 0
		for _, problem := range problems {
			if strings.Contains(problem, want) {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d problems name %q in:\n%v", found, want, err)
		}
	}
	if len(problems) != 14 {
		t.Errorf("%d problems:\n%v", len(problems), err)
	}
	if err := (Config{}).Validate(); err == nil || !strings.Contains(err.Error(), "brokers") {
		t.Errorf("no brokers: %v", err)
	}
}

func TestRunRefusesAnInvalidConfiguration(t *testing.T) {
	if err := New(Config{}, nil).Run(t.Context()); err == nil {
		t.Error("no error")
	}
}
