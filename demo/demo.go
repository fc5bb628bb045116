package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/walrelay/walrelay/internal/audit"
)

const (
	readTime      = time.Second      // for a person to read the intro
	tradeTimeout  = 30 * time.Second // one transaction of the shop
	settleTimeout = 30 * time.Second // for the last events to arrive
	stopTimeout   = 20 * time.Second // for relay and servers to end
	killEvery     = 40               // events between two kills where their number is not known
)

// run shows the demo until ctx ends or all events are written, and audits it. It is context.Canceled when ctx ends before
// the first event.
func run(ctx context.Context, o options, sc *screen) (sum summary, err error) {
	servers, err := startServers(ctx, o, sc.progress)
	if err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, servers.close()) }()
	spec := relaySpec{Postgres: servers.postgres, Brokers: servers.brokers, Prefix: servers.prefix}
	d := &demo{options: o, screen: sc, servers: servers, ledger: newLedger(), relay: &relayProcess{spec: spec}}
	if d.shop, err = openShop(ctx, servers.postgres, servers.prefix, d.ledger); err != nil {
		return sum, err
	}
	defer d.shop.close()
	if err := createTopics(ctx, servers.brokers, servers.topics()); err != nil {
		return sum, err
	}
	if err := spec.setUp(ctx); err != nil {
		return sum, err
	}
	if o.postgres != "" {
		defer func() { err = errors.Join(err, d.leave()) }()
	}
	if err := d.relay.start(); err != nil {
		return sum, err
	}
	defer func() { err = errors.Join(err, d.relay.Kill()) }() // before leave; no more than a look when it has ended
	if err := d.relay.awaitStreaming(ctx, d.shop.conn); err != nil {
		return sum, err
	}
	sc.intro(o, servers, d.relay.Pid())
	if err := d.play(ctx); err != nil {
		return sum, err
	}
	return d.audit()
}

// demo is one run, after the start of the servers.
type demo struct {
	options options
	screen  *screen
	servers *servers
	ledger  *ledger
	shop    *shop
	relay   *relayProcess
}

// play trades and consumes, and ends when all that was written has arrived and the relay has stopped.
func (d *demo) play(stop context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(stop))
	defer cancel()
	group, work := errgroup.WithContext(work)
	group.Go(func() error { return consume(work, d.servers.brokers, d.servers.topics(), d.see) })
	err := d.trade(work, stop)
	if err == nil {
		err = d.settle(work)
	}
	if err == nil {
		ending, cancel := context.WithTimeout(work, stopTimeout)
		defer cancel()
		err = d.relay.stop(ending)
	}
	cancel()
	return errors.Join(err, group.Wait())
}

func (d *demo) see(record delivery) {
	switch d.ledger.arrived(record.id, record.latency) {
	case first:
		d.screen.deliver(record)
	case repeated:
		d.screen.again(record)
	}
}

// trade writes events at the rate of the options until stop ends or their number is reached.
func (d *demo) trade(work, stop context.Context) error {
	every := killEvery
	if d.options.events > 0 {
		every = max(1, d.options.events/4)
	}
	clock := time.NewTimer(readTime)
	defer clock.Stop()
	for written, kills := 0, 0; d.options.events == 0 || written < d.options.events; {
		select {
		case <-stop.Done():
			return nil
		case <-work.Done():
			return context.Cause(work)
		case <-d.relay.Done():
			return errors.Join(d.relay.ended(), errors.New("the relay has stopped by itself"))
		case <-clock.C:
		}
		room := 2
		if d.options.events > 0 {
			room = d.options.events - written
		}
		ctx, cancel := context.WithTimeout(work, tradeTimeout)
		n, err := d.shop.trade(ctx, room)
		cancel()
		if err != nil {
			return err
		}
		written += n
		clock.Reset(time.Duration(float64(n) * float64(time.Second) / d.options.rate))
		if d.options.kill && written/every > kills && written != d.options.events {
			kills = written / every
			if err := d.kill(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *demo) kill() error {
	before := d.relay.Pid()
	if err := d.relay.restart(); err != nil {
		return err
	}
	d.screen.notice(fmt.Sprintf("%*s  relay %d killed (SIGKILL), relay %d started", latencyWidth, "", before, d.relay.Pid()))
	return nil
}

// settle waits until all has arrived. When time is up it returns as well: the audit tells what is lost.
func (d *demo) settle(work context.Context) error {
	limit := time.NewTimer(settleTimeout)
	defer limit.Stop()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !d.ledger.complete() {
		select {
		case <-poll.C:
		case <-limit.C:
			return nil
		case <-work.Done():
			return context.Cause(work)
		case <-d.relay.Done():
			return errors.Join(d.relay.ended(), errors.New("the relay has stopped by itself"))
		}
	}
	return nil
}

// audit compares what was committed with all that the topics hold.
func (d *demo) audit() (summary, error) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	records, err := readBack(ctx, d.servers.brokers, d.servers.topics())
	if err != nil {
		return summary{}, err
	}
	return summarise(audit.Compare(d.ledger.rows, records), d.ledger.latencies), nil
}

// leave removes slot and publication from the user's server. The relay must have ended.
func (d *demo) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := withdraw(ctx, d.shop.conn); err != nil {
		return fmt.Errorf("clean up on your server: %w", err)
	}
	d.screen.line("On your server: slot and publication " + slot + " are dropped; the tables stay: DROP SCHEMA " + schema + " CASCADE;")
	return nil
}
