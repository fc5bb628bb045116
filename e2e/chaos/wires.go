package main

import (
	"context"

	"github.com/walrelay/walrelay/internal/faultconn"
)

func cutPostgres(ctx context.Context, a *arena, s strike) error {
	for range 1 + int(s.dice*3) {
		a.toPostgres.Cut()
		if err := pause(ctx, s.lasts/3); err != nil {
			return err
		}
	}
	return nil
}

func cutPostgresInside(ctx context.Context, a *arena, s strike) error {
	a.toPostgres.CutAfterRead(1 + int64(s.dice*20_000))
	defer a.toPostgres.Disarm()
	return pause(ctx, s.lasts)
}

// stallPostgres goes on where it was, or loses the connections.
func stallPostgres(ctx context.Context, a *arena, s strike) error {
	a.toPostgres.Stall()
	defer a.toPostgres.Release()
	err := pause(ctx, s.lasts)
	if s.dice < 0.5 {
		a.toPostgres.Cut()
	}
	return err
}

func refusePostgres(ctx context.Context, a *arena, s strike) error {
	a.toPostgres.Refuse(true)
	defer a.toPostgres.Refuse(false)
	a.toPostgres.Cut()
	return pause(ctx, s.lasts)
}

// proxies are those before the brokers of the strike.
func (a *arena) proxies(s strike) (list []*faultconn.Proxy) {
	for _, id := range s.brokers {
		list = append(list, a.toKafka[id])
	}
	return list
}

func cutKafka(ctx context.Context, a *arena, s strike) error {
	for range 1 + int(s.dice*3) {
		for _, p := range a.proxies(s) {
			p.Cut()
		}
		if err := pause(ctx, s.lasts/3); err != nil {
			return err
		}
	}
	return nil
}

func cutKafkaInsideRequest(ctx context.Context, a *arena, s strike) error {
	for _, p := range a.proxies(s) {
		p.CutAfterWrite(1 + int64(s.dice*10_000))
		defer p.Disarm()
	}
	return pause(ctx, s.lasts)
}

func cutKafkaInsideAnswer(ctx context.Context, a *arena, s strike) error {
	for _, p := range a.proxies(s) {
		p.CutAfterRead(1 + int64(s.dice*1_000))
		defer p.Disarm()
	}
	return pause(ctx, s.lasts)
}

// silenceKafka loses answers to requests that the broker has carried out.
func silenceKafka(ctx context.Context, a *arena, s strike) error {
	for _, p := range a.proxies(s) {
		p.SilenceAfterRead(1 + int64(s.dice*1_000))
		defer p.Disarm()
	}
	return pause(ctx, s.lasts)
}

func stallKafka(ctx context.Context, a *arena, s strike) error {
	for _, p := range a.proxies(s) {
		p.Stall()
		defer p.Release()
	}
	err := pause(ctx, s.lasts)
	if s.dice < 0.5 {
		for _, p := range a.proxies(s) {
			p.Cut()
		}
	}
	return err
}

func delayKafka(ctx context.Context, a *arena, s strike) error {
	for _, p := range a.proxies(s) {
		p.Delay(0, s.lasts/20)
		defer p.Delay(0, 0)
	}
	return pause(ctx, 2*s.lasts)
}
