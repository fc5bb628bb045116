package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/walrelay/walrelay/checkpoint"
	"github.com/walrelay/walrelay/lsn"
)

// levelKey is the one key that takes effect without a restart.
const levelKey = "log.level"

// reload reads the configuration again. The log level takes effect; of everything else it is said that a restart is needed.
func (d *daemon) reload() {
	fresh, err := d.load(d.cmd)
	if err != nil {
		d.log.Error("the configuration is wrong and was not taken over", zap.String("error", oneLine(err)))
		return
	}
	d.level.SetLevel(levelOf(fresh.Log).Level())
	var keys []string
	for _, key := range d.config.Differences(fresh) {
		if key != levelKey {
			keys = append(keys, key)
		}
	}
	d.relay.NeedRestart(len(keys) > 0)
	if len(keys) > 0 {
		d.log.Warn("configuration read again: a restart is needed for some of it", zap.Strings("keys", keys), zap.Stringer("level", d.level))
		return
	}
	d.log.Info("configuration read again: all of it is in effect", zap.Stringer("level", d.level))
}

// setLevel changes the log level until the next change of the configuration.
func (d *daemon) setLevel(text string) error {
	level, err := zapcore.ParseLevel(text)
	if err != nil || level > zapcore.ErrorLevel {
		return errors.New("level: want debug, info, warn or error")
	}
	d.level.SetLevel(level)
	d.log.Warn("log level changed over HTTP", zap.Stringer("level", level))
	return nil
}

// ask is pause, resume and skip over HTTP: the same request as by the command, made as the relay's role.
func (d *daemon) ask(ctx context.Context, kind, event, reason string) (outcome string, err error) {
	if kind == string(checkpoint.Skip) {
		if _, err := lsn.ParseIdentity(event); err != nil {
			return "", fmt.Errorf("event: %w", err)
		}
		if strings.TrimSpace(reason) == "" {
			return "", errors.New("reason: say why, for the record")
		}
	}
	address, err := d.settings.Postgres.SQL()
	if err != nil {
		return "", err
	}
	conn, err := pgx.ConnectConfig(ctx, address)
	if err != nil {
		return "", fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the server notices either way
	slot, _ := d.settings.Postgres.Names(address.Database)
	return ask(ctx, conn, slot, checkpoint.RequestKind(kind), event, strings.TrimSpace(reason+" (over HTTP)"))
}
