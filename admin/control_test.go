package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What changes something needs the token, and is what was asked for.
func TestControl(t *testing.T) {
	var asked []string
	control := Control{
		Ask: func(_ context.Context, kind, event, reason string) (string, error) {
			if reason == "" {
				return "", errors.New("say why")
			}
			asked = append(asked, kind+" "+event+" "+reason)
			return "done: " + kind, nil
		},
		Level: func(level string) error { asked = append(asked, "level "+level); return nil },
	}
	probes := Probes{Metrics: prometheus.NewRegistry(), Control: control}
	url := serve(t, Config{Token: func() (string, error) { return token, nil }}, probes)
	for _, c := range []struct {
		method, path, authorization, body string
		status                            int
		text                              string
	}{
		{"POST", "/pause", "", `{"reason": "r"}`, 401, "Bearer"},
		{"POST", "/pause", "Bearer wrong", `{"reason": "r"}`, 401, "Bearer"},
		{"POST", "/pause", "Bearer " + token, `{"reason": "r"}`, 200, "done: pause"},
		{"POST", "/resume", "Bearer " + token, `{"reason": "r"}`, 200, "done: resume"},
		{"POST", "/skip", "Bearer " + token, `{"event": "e", "reason": "r"}`, 200, "done: skip"},
		{"POST", "/skip", "Bearer " + token, `{"event": "e"}`, 422, "say why"},
		{"POST", "/skip", "Bearer " + token, `{"evnt": "e"}`, 400, "unknown field"},
		{"PUT", "/log/level", "Bearer " + token, `{"level": "debug"}`, 200, "level is debug"},
		{"GET", "/pause", "Bearer " + token, ``, 405, ""},
	} {
		status, text := send(t, c.method, url+c.path, c.authorization, c.body)
		if status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s %s %q %s: %d %s, want %d %s", c.method, c.path, c.authorization, c.body, status, text, c.status, c.text)
		}
	}
	if got := strings.Join(asked, "; "); got != "pause  r; resume  r; skip e r; level debug" {
		t.Errorf("asked %s", got)
	}
	without := serve(t, Config{}, probes)
	if status, text := send(t, "PUT", without+"/log/level", "Bearer "+token, `{"level": "info"}`); status != 403 || !strings.Contains(text, "http.token") {
		t.Errorf("without a token: %d %s", status, text)
	}
}

func send(t *testing.T, method, url, authorization, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	request.Header.Set("Authorization", authorization)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
