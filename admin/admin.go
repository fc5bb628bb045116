package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config is the HTTP part of the configuration.
type Config struct {
	// Listen is the address to serve on; "off" serves nothing. Loopback by default, since nothing here asks
	// for a password.
	Listen string `yaml:"listen" env:"LISTEN"`
}

// DefaultListen is the address without configuration.
const DefaultListen = "127.0.0.1:9187"

// Off is the address that switches HTTP off.
const Off = "off"

// Probes are the functions behind the pages.
type Probes struct {
	// Live: the relay's loop turns. A false asks the orchestrator for a restart.
	Live func() bool
	// Ready: the relay streams and is caught up or advancing, or it waits as hot standby; with the reason
	// where it is not ready.
	Ready func() (bool, string)
	// Status is written as JSON.
	Status func() any
	// Metrics are what /metrics shows.
	Metrics prometheus.Gatherer
}

// Listen opens the address, so that a wrong or taken one is an error at start.
func Listen(cfg Config) (net.Listener, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("http.listen %q: %w; choose another address, or %q", cfg.Listen, err, Off)
	}
	return listener, nil
}

// Serve answers requests until ctx ends. It closes the listener.
func Serve(ctx context.Context, listener net.Listener, probes Probes) error {
	server := &http.Server{
		Handler:           handler(probes),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	closed := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		closed <- server.Shutdown(grace)
	})
	err := server.Serve(listener)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve http: %w", err)
	}
	if err := <-closed; errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	}
	return nil
}

func handler(probes Probes) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, probes.Live(), "the relay's loop does not turn")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		ready, reason := probes.Ready()
		answer(w, ready, reason)
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(probes.Status()) // the client went away
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(probes.Metrics, promhttp.HandlerOpts{}))
	return guarded(mux)
}

func answer(w http.ResponseWriter, good bool, reason string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if good {
		_, _ = fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = fmt.Fprintln(w, reason)
}

// guarded sets the headers that keep a browser from guessing or caching.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}
