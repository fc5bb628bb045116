package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

const (
	clients = 4
	// pace is how often each client makes an order.
	pace = 60 * time.Millisecond
	// last orders come at the end, so many that each partition gets one: what stands before them was handled by then.
	last = 60
)

// load is the clients of the shop. Each creates an order and pays it, and repeats a request until it is answered.
type load struct {
	address string
	http    *http.Client
	paid    atomic.Int64
}

func newLoad(address string) *load {
	return &load{address: address, http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// client orders until the context ends, and pays its last order.
func (l *load) client(ctx context.Context, number int) error {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := l.order(context.WithoutCancel(ctx), fmt.Sprintf("o-%d-%d", number, n)); err != nil {
			return err
		}
	}
}

// finish makes the last orders.
func (l *load) finish(ctx context.Context) error {
	for n := range last {
		if err := l.order(ctx, fmt.Sprintf("last-%d", n)); err != nil {
			return err
		}
	}
	return nil
}

func (l *load) order(ctx context.Context, id string) error {
	if err := l.post(ctx, "/orders", fmt.Sprintf(`{"id": %q, "amount": 7}`, id)); err != nil {
		return err
	}
	if err := l.post(ctx, "/orders/"+id+"/pay", ""); err != nil {
		return err
	}
	l.paid.Add(1)
	return nil
}

// patience is how long anything may take: a language's start on a busy machine, a group's session.
const patience = 2 * time.Minute

// post repeats a request until it is answered with success.
func (l *load) post(ctx context.Context, path, body string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := l.request(ctx, http.MethodPost, path, body)
		if err == nil {
			return nil
		}
		if !pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("no answer to %s in %v: %w", path, patience, err)
		}
	}
}

func (l *load) request(ctx context.Context, method, path, body string) error {
	request, err := http.NewRequestWithContext(ctx, method, l.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := l.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", answer.Status)
	}
	return nil
}

// pause waits, and reports false when the context ends first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
