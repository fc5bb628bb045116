package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/walrelay/walrelay/relay"
)

// tailFlags are what tail can be told.
type tailFlags struct {
	json bool
	n    int
}

func (p *program) tailCommand() *cobra.Command {
	var flags tailFlags
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print events as they are committed, beside a running relay",
		Long: `Print each event at the moment of its commit, as the relay makes a record of it: topic, key, id, value. It reads through a
temporary slot of its own, which ends with it: the relay and its slot notice nothing, nothing is published. It begins with what
commits from now on, and needs neither Kafka nor a right on the outbox, but REPLICATION and a free slot (max_replication_slots)
and walsender. A transaction marker, a dead letter or a skipped event is not shown: those are matters of the relay.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.tail(cmd, flags) },
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "each event as a JSON line, with all headers and the whole value")
	cmd.Flags().IntVarP(&flags.n, "events", "n", 0, "stop after so `many`; 0: never")
	return cmd
}

var errEnough = errors.New("enough")

func (p *program) tail(cmd *cobra.Command, flags tailFlags) error {
	settings, err := p.loadWithoutKafka(cmd)
	if err != nil {
		return err
	}
	ctx, stop := p.untilSignal(cmd.Context(), zap.NewNop())
	defer stop()
	print, seen := printSeen, 0
	if flags.json {
		print = printSeenJSON
	}
	ready := func() { fmt.Fprintln(p.err, "walrelay: events that commit from now on, until Ctrl-C") }
	err = relay.New(settings, zap.NewNop(), prometheus.NewRegistry()).Tail(ctx, ready, func(event relay.Seen) error {
		if err := print(p.out, event); err != nil {
			return err
		}
		if seen++; seen == flags.n {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// printSeen writes an event as a line for a person.
func printSeen(to io.Writer, event relay.Seen) (err error) {
	m := event.Message
	switch {
	case event.Poison != nil:
		_, err = fmt.Fprintf(to, "cannot be published: %s: %v\n", event.Source, event.Poison)
	case event.Filtered:
		_, err = fmt.Fprintf(to, "%s  filtered: a row of %s\n", committed(event), event.Source)
	default:
		_, err = fmt.Fprintf(to, "%s  %s  key=%s", committed(event), m.Topic, clipped(m.Key))
		for _, h := range m.Headers {
			if err == nil {
				_, err = fmt.Fprintf(to, "  %s=%s", h.Name, clipped(h.Value))
			}
		}
		if err == nil {
			_, err = fmt.Fprintf(to, "  %s\n", clipped(m.Value))
		}
	}
	return err
}

// committed is the time of the commit.
func committed(event relay.Seen) string {
	return time.UnixMicro(event.Message.Identity.Time).UTC().Format("2006-01-02T15:04:05.000Z")
}

// clipped is a value for one line.
func clipped(value []byte) string {
	const most = 200 // bytes
	switch {
	case value == nil:
		return "null"
	case !utf8.Valid(value):
		return fmt.Sprintf("(%d bytes)", len(value))
	case len(value) > most:
		return fmt.Sprintf("%s… (%d bytes)", value[:most], len(value))
	}
	return string(value)
}

// printSeenJSON writes an event as a JSON line; what is not UTF-8 is in base64.
func printSeenJSON(to io.Writer, event relay.Seen) error {
	type header struct {
		Name  string `json:"name"`
		Value any    `json:"value"`
	}
	line := struct {
		Source   string   `json:"source"`
		Commit   string   `json:"commit,omitempty"`
		Topic    string   `json:"topic,omitempty"`
		Key      any      `json:"key"`
		Value    any      `json:"value"`
		Headers  []header `json:"headers,omitempty"`
		Filtered bool     `json:"filtered,omitempty"`
		Poison   string   `json:"poison,omitempty"`
	}{Source: event.Source, Filtered: event.Filtered}
	if event.Poison != nil {
		line.Poison = event.Poison.Error()
	} else {
		m := event.Message
		line.Commit, line.Topic, line.Key, line.Value = committed(event), m.Topic, readable(m.Key), readable(m.Value)
		for _, h := range m.Headers {
			line.Headers = append(line.Headers, header{h.Name, readable(h.Value)})
		}
	}
	return json.NewEncoder(to).Encode(line)
}

// readable is text where it is text, and null where it is null.
func readable(value []byte) any {
	switch {
	case value == nil:
		return nil
	case utf8.Valid(value):
		return string(value)
	}
	return value
}
