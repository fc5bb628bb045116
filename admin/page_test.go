package admin

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The page needs nothing but itself, and a browser is told so.
func TestPage(t *testing.T) {
	url := serve(t, Config{}, Probes{Metrics: prometheus.NewRegistry(), Status: func() any { return 1 }})
	response, err := http.Get(url + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	policy := response.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || strings.Count(policy, "'sha256-") != 2 {
		t.Errorf("policy %s", policy)
	}
	if strings.Contains(string(body), "//cdn") || strings.Contains(string(body), "innerHTML") || !strings.Contains(string(body), `new EventSource("/events")`) {
		t.Error("the page is not what it should be")
	}
}

// Each event is the status; the stream ends with the server, and there are only so many.
func TestEvents(t *testing.T) {
	var count atomic.Int32
	listener, err := Listen(Config{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	probes := Probes{Metrics: prometheus.NewRegistry(), Status: func() any { return map[string]int32{"n": count.Add(1)} }}
	go func() { done <- Serve(ctx, listener, Config{}, probes) }()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)

	var streams []*http.Response
	for range maxStreams {
		response, err := http.Get("http://" + listener.Addr().String() + "/events")
		if err != nil || response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatal(response, err)
		}
		streams = append(streams, response)
	}
	if status, _ := get(t, "http://"+listener.Addr().String()+"/events"); status != http.StatusServiceUnavailable {
		t.Errorf("one too many: %d", status)
	}
	lines := bufio.NewScanner(streams[0].Body)
	for seen := 0; seen < 2; {
		if !lines.Scan() {
			t.Fatal("the stream has ended")
		}
		if strings.HasPrefix(lines.Text(), `data: {"n":`) {
			seen++
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, stream := range streams {
		_, _ = io.Copy(io.Discard, stream.Body)
		stream.Body.Close()
	}
}
