package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve starts the pages on a free port and returns their address.
func serve(t *testing.T, cfg Config, probes Probes) string {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	listener, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, listener, cfg, probes) }()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	if cfg.CertFile != "" {
		return "https://" + listener.Addr().String()
	}
	return "http://" + listener.Addr().String()
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestPages(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "walrelay_events_total"})
	counter.Add(7)
	registry.MustRegister(counter)
	var good atomic.Bool
	url := serve(t, Config{}, Probes{
		Live:    good.Load,
		Ready:   func() (bool, string) { return good.Load(), "slot is held by another" },
		Status:  func() any { return map[string]int{"in_flight": 3} },
		Metrics: registry,
	})

	for _, c := range []struct {
		good   bool
		path   string
		status int
		text   string
	}{
		{true, "/healthz", 200, "ok"},
		{true, "/readyz", 200, "ok"},
		{false, "/healthz", 503, "does not turn"},
		{false, "/readyz", 503, "slot is held by another"},
		{true, "/metrics", 200, "walrelay_events_total 7"},
		{true, "/nothing", 404, ""},
	} {
		good.Store(c.good)
		status, body := get(t, url+c.path)
		if status != c.status || !strings.Contains(body, c.text) {
			t.Errorf("%s with good=%v: %d %q, want %d with %q", c.path, c.good, status, body, c.status, c.text)
		}
	}

	_, body := get(t, url+"/status")
	var status map[string]int
	if err := json.Unmarshal([]byte(body), &status); err != nil || status["in_flight"] != 3 {
		t.Errorf("/status: %q, %v", body, err)
	}
}

func TestOnlyGet(t *testing.T) {
	url := serve(t, Config{}, Probes{Live: func() bool { return true }, Metrics: prometheus.NewRegistry()})
	response, err := http.Post(url+"/healthz", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", response.StatusCode)
	}
}

func TestTakenAddress(t *testing.T) {
	first, err := Listen(Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = Listen(Config{Listen: first.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "http.listen") {
		t.Errorf("got %v, want an error that names the setting", err)
	}
}
