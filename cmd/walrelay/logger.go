package main

import (
	"io"
	"os"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/walrelay/walrelay/config"
)

// newLogger writes lines for people to a terminal and JSON to everything else, unless told otherwise.
func newLogger(c config.Log, to io.Writer, environ []string) *zap.Logger {
	return loggerAt(levelOf(c), c.Format, to, environ)
}

// levelOf is the configured level, which can be changed while the program runs.
func levelOf(c config.Log) zap.AtomicLevel {
	level, err := zap.ParseAtomicLevel(c.Level)
	if err != nil {
		panic(err) // the configuration was checked
	}
	return level
}

func loggerAt(level zap.AtomicLevel, format string, to io.Writer, environ []string) *zap.Logger {
	terminal := isTerminal(to)
	encoder := encoderFor(format, terminal, terminal && !noColor(environ))
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(to)), level))
}

func encoderFor(format string, terminal, color bool) zapcore.Encoder {
	c := zap.NewProductionEncoderConfig()
	c.TimeKey, c.EncodeTime, c.EncodeDuration = "time", zapcore.ISO8601TimeEncoder, zapcore.StringDurationEncoder
	if format == "json" || format == "auto" && !terminal {
		return zapcore.NewJSONEncoder(c)
	}
	c.EncodeLevel = zapcore.CapitalLevelEncoder
	if color {
		c.EncodeLevel = zapcore.CapitalColorLevelEncoder
	}
	return zapcore.NewConsoleEncoder(c)
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// noColor is the convention of no-color.org.
func noColor(environ []string) bool {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, "NO_COLOR="); ok && value != "" {
			return true
		}
	}
	return false
}
