package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/walrelay/walrelay/config"
)

// People get lines, with colours on a terminal only; everything else gets JSON, unless told otherwise.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	const json, line, colored = `{"level":"warn","time":"2026-01-02T03:04:05.000Z","msg":"text"}`, "2026-01-02T03:04:05.000Z\tWARN\ttext", "\x1b[33mWARN\x1b[0m"
	entry := zapcore.Entry{Level: zapcore.WarnLevel, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Message: "text"}
	for _, c := range []struct {
		format          string
		terminal, color bool
		want            string
	}{
		{"auto", false, false, json}, {"auto", true, true, colored}, {"auto", true, false, line},
		{"json", true, true, json}, {"console", false, false, line}, {"console", true, true, colored},
	} {
		buffer, err := encoderFor(c.format, c.terminal, c.color).EncodeEntry(entry, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := buffer.String(); !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestLogLevel(t *testing.T) {
	t.Parallel()
	var output lines
	log := newLogger(config.Log{Level: "warn", Format: "auto"}, &output, nil)
	log.Info("not wanted")
	log.Warn("wanted")
	if got := output.String(); strings.Contains(got, "not wanted") || !strings.HasPrefix(got, `{"level":"warn","time":"`) {
		t.Error(got)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if isTerminal(file) || isTerminal(new(lines)) {
		t.Error("a file or buffer is taken for a terminal")
	}
	if noColor([]string{"A=b", "NO_COLOR="}) || !noColor([]string{"NO_COLOR=1"}) {
		t.Error("NO_COLOR is not obeyed")
	}
}
