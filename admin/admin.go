package admin

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Config tells where the pages are served and who may ask.
type Config struct {
	// Listen is the address to serve on, host:port.
	Listen string
	// Token gives what a request must carry, but for the probes: "Authorization: Bearer <token>", or the same as password of
	// Basic. It is called for each request, so that a token can be changed. Nil: everybody may read, and nobody may change.
	Token func() (string, error)
	// CertFile and KeyFile (PEM) turn TLS on. They are read for each connection, so that they can be renewed.
	CertFile, KeyFile string
}

// DefaultListen is the address without configuration: loopback, since nothing asks for a token then.
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
	// Control is what may be changed by whoever has the token.
	Control Control
}

// writeTimeout bounds an answer, or one event of a stream.
const writeTimeout = 30 * time.Second

// Listen opens the address, with TLS if there is a certificate, so that what is wrong is an error at start.
func Listen(cfg Config) (net.Listener, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("http.listen %q: %w; choose another address, or %q", cfg.Listen, err, Off)
	}
	if cfg.CertFile == "" {
		return listener, nil
	}
	secure, err := cfg.tlsConfig()
	if err != nil {
		_ = listener.Close() // nobody has used it
		return nil, err
	}
	return tls.NewListener(listener, secure), nil
}

// Serve answers requests until ctx ends. It closes the listener.
func Serve(ctx context.Context, listener net.Listener, cfg Config, probes Probes) error {
	server := &http.Server{
		Handler:           handler(cfg, probes),
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections and handshakes of others
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // ends the streams of events
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

func handler(cfg Config, probes Probes) http.Handler {
	g := newGuard(cfg.Token)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", g.reads(servePage))
	mux.HandleFunc("GET /events", g.reads((&events{status: probes.Status}).ServeHTTP))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, probes.Live(), "the relay's loop does not turn")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ready, reason := probes.Ready()
		if allowed, _ := g.check(r); !allowed {
			reason = "not ready" // the reason names tables, topics and servers
		}
		answer(w, ready, reason)
	})
	mux.HandleFunc("GET /status", g.reads(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(probes.Status()) // the client went away
	}))
	mux.HandleFunc("GET /metrics", g.reads(promhttp.HandlerFor(probes.Metrics, promhttp.HandlerOpts{}).ServeHTTP))
	probes.Control.routes(mux, g)
	return g.around(mux)
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
