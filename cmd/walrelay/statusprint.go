package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/walrelay/walrelay/relay"
)

// maxShownTopics keeps the status on one screen.
const maxShownTopics = 8

// printStanding writes the status for a person.
func (p *program) printStanding(s standing, now time.Time) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", name, fmt.Sprintf(format, args...))
	}
	if s.Relay == nil {
		line("relay", "does not answer at %s: %s", s.Address, s.Error)
	} else {
		printRelay(line, s.Relay, now)
	}
	server := s.Server
	if server == nil && s.Relay != nil {
		server = s.Relay.Server
	}
	if server == nil {
		line("server", "does not answer: %s", s.ServerError)
	} else {
		printServer(line, s.Slot, server, now)
	}
	if s.Relay != nil {
		printTopics(line, s.Relay)
	}
	_, err := io.WriteString(p.out, b.String())
	return err
}

func printRelay(line func(name, format string, args ...any), s *relay.Status, now time.Time) {
	ready := "ready"
	if !s.Ready {
		ready = "NOT READY"
	}
	line("relay", "%s for %s, %s", s.State, span(now.Sub(s.Since)), ready)
	reason := s.Unready
	if reason == "" {
		reason = s.Reason
	}
	if reason != "" {
		line("", "%s", reason)
	}
	var behind []string
	for _, lag := range s.Lag {
		behind = append(behind, fmt.Sprintf("%s %s (%s)", lag.Position, relay.Bytes(int64(lag.Bytes)), span(time.Duration(lag.Seconds*float64(time.Second)))))
	}
	line("behind", "%s", strings.Join(behind, ", "))
	line("waiting", "%s events in flight, the oldest for %s", thousands(s.InFlight), span(time.Duration(s.LagSeconds*float64(time.Second))))
	line("checkpoint", "saved at %s%s", s.Saved, unsaved(s.UnsavedSeconds))
	if s.RestartNeeded {
		line("restart", "needed: the configuration was changed")
	}
}

func unsaved(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return fmt.Sprintf(", and cannot be written for %s", span(time.Duration(seconds*float64(time.Second))))
}

func printServer(line func(name, format string, args ...any), slot string, s *relay.SlotStatus, now time.Time) {
	held := "nobody streams from it"
	if s.Active {
		held = "streamed from"
	}
	status := s.WALStatus
	if s.Invalidation != "" {
		status += " (" + s.Invalidation + ")"
	}
	line("slot", "%s is %s, %s (%s ago)", slot, status, held, span(now.Sub(s.At)))
	limit := "no limit is set (max_slot_wal_keep_size)"
	if s.LimitBytes > 0 {
		limit = "at most " + relay.Bytes(s.LimitBytes)
	}
	if s.SafeBytes != nil {
		limit += fmt.Sprintf(", it is lost when %s more are written", relay.Bytes(max(0, *s.SafeBytes)))
	}
	line("log kept", "%s, %s", relay.Bytes(s.RetainedBytes), limit)
	for _, pin := range s.Pins {
		line("", "kept by %v", pin)
	}
	if s.Finding.Problem != "" {
		line("DANGER", "%s", s.Finding.Problem)
		line("", "-> %s", s.Finding.Remedy)
	}
}

func printTopics(line func(name, format string, args ...any), s *relay.Status) {
	var records uint64
	for _, t := range s.Topics {
		records += t.Records
	}
	line("published", "%s records to %d topics since the start; %d dead letters, %d skipped", thousands(int64(records)), len(s.Topics), s.DeadLetters, s.Skipped)
	for i, t := range s.Topics {
		if i == maxShownTopics {
			line("", "and %d more topics", len(s.Topics)-i)
			break
		}
		line("", "%12s  %s", thousands(int64(t.Records)), t.Topic)
	}
}

// span is a duration for people: two units at most.
func span(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}
