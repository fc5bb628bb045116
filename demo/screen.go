package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// screen writes for a person. On a terminal it has colours and lines are cut to its width. Several goroutines may use it.
type screen struct {
	mu    sync.Mutex
	out   io.Writer
	color bool
	width func() int // of the terminal; 0: lines are not cut

	topicWidth int // of the column; set by intro, before the first delivery
}

// newScreen looks whether file is a terminal. NO_COLOR and TERM=dumb switch colours off.
func newScreen(file *os.File) *screen {
	width := func() int {
		size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return 0
		}
		return int(size.Col)
	}
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &screen{out: file, width: width, color: terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// style is an SGR sequence of ECMA-48.
type style string

const (
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
)

func (s *screen) in(style style, text string) string {
	if !s.color {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}

func (s *screen) line(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintln(s.out, text)
}

// The columns of a delivery, in characters; the payload takes the rest of the line.
const (
	latencyWidth = 9
	keyWidth     = 4
	typeWidth    = len("CustomerJoined")
)

// intro says what is going on and what will be seen.
func (s *screen) intro(o options, servers *servers, pid int) {
	killed, end := "", "Ctrl-C ends it and counts."
	if o.kill {
		killed = "\n            Now and then it is killed, and started again."
	}
	if o.events > 0 {
		end = fmt.Sprintf("It ends after %d events and counts.", o.events)
	}
	s.line(s.in(bold, "walrelay demo") + `

  Database  ` + servers.aboutPostgres + `
            A small shop writes its orders. Each change is one transaction,
            with the event about it as a row in the table outbox.
  Relay     walrelay, process ` + fmt.Sprint(pid) + `
            It reads the events from the write-ahead log and publishes them.` + killed + `
  Kafka     ` + servers.aboutKafka + `
            A consumer prints each record, with the time since the commit.

` + end + "\n")
	for _, topic := range servers.topics() {
		s.topicWidth = max(s.topicWidth, len(topic))
	}
	s.line(s.in(dim, s.columns("LATENCY", delivery{topic: "TOPIC", key: "KEY", eventType: "EVENT"}, plain)+"PAYLOAD"))
}

// deliver prints a record.
func (s *screen) deliver(d delivery) {
	latency := fmt.Sprintf("%.1f ms", float64(d.latency)/float64(time.Millisecond))
	s.line(s.columns(latency, d, s.in) + s.rest(d))
}

// again prints a record that has been delivered before.
func (s *screen) again(d delivery) {
	s.line(s.in(red, s.columns("again", d, plain)+s.rest(d)))
}

// rest is as much of the payload as fits into the line.
func (s *screen) rest(d delivery) string {
	width := s.width()
	if width == 0 {
		return d.payload
	}
	return shorten(d.payload, width-utf8.RuneCountInString(s.columns("", d, plain)))
}

// columns are those before the payload.
func (s *screen) columns(latency string, d delivery, in func(style, string) string) string {
	return fmt.Sprintf("%*s  %s  %s  %s  ", latencyWidth, latency,
		in(cyan, pad(d.topic, s.topicWidth)), in(yellow, pad(d.key, keyWidth)), in(green, pad(d.eventType, typeWidth)))
}

// plain is in without colours.
func plain(_ style, text string) string { return text }

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// shorten cuts text to width characters.
func shorten(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	if width < 1 {
		return ""
	}
	return string([]rune(text)[:width-1]) + "…"
}

// notice tells what was done to the relay.
func (s *screen) notice(text string) { s.line(s.in(red, text)) }

func (s *screen) progress(text string) { s.line(s.in(dim, text+" ...")) }

func (s *screen) summary(sum summary) {
	verdict := green
	if !sum.clean() {
		verdict = red
	}
	s.line("\n" + s.in(verdict, sum.String()))
}
