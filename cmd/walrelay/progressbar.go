package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/walrelay/walrelay/audit"
)

// progressBar shows how far a long command has come: on a terminal a bar that is drawn over itself, elsewhere a line when
// a step begins and each ten seconds.
type progressBar struct {
	to       io.Writer
	terminal bool
	step     string
	told     time.Time
	drawn    bool
}

func newProgressBar(to io.Writer) *progressBar { return &progressBar{to: to, terminal: isTerminal(to)} }

const (
	barWidth       = 30
	plainInterval  = 10 * time.Second
	eraseLine      = "\r\x1b[K"
	percentInWhole = 100
)

// show takes the next state.
func (b *progressBar) show(p audit.Progress) {
	switch {
	case b.terminal:
		fmt.Fprint(b.to, eraseLine, progressText(p))
		b.drawn = true
	case p.Step != b.step || time.Since(b.told) >= plainInterval:
		b.told = time.Now()
		fmt.Fprintln(b.to, progressText(p))
	}
	b.step = p.Step
}

// end leaves an empty line behind.
func (b *progressBar) end() {
	if b.drawn {
		fmt.Fprint(b.to, eraseLine)
	}
}

// progressText is a state in words, with a bar where the total is known.
func progressText(p audit.Progress) string {
	if p.Total <= 0 {
		return fmt.Sprintf("%s: %s", p.Step, thousands(p.Done))
	}
	done := min(p.Done, p.Total)
	filled := int(done * barWidth / p.Total)
	return fmt.Sprintf("%s: [%s%s] %d %%, %s of %s", p.Step, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled),
		done*percentInWhole/p.Total, thousands(p.Done), thousands(p.Total))
}

// thousands writes a number with commas.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
