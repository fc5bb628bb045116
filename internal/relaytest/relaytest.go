package relaytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/walrelay/walrelay/internal/pgtest/process"
	"github.com/walrelay/walrelay/relay"
)

// AnyPort keeps relays of one machine off each other's HTTP address.
const AnyPort = "WALRELAY_HTTP_LISTEN=127.0.0.1:0"

// Variables are the two that walrelay needs.
func Variables(url string, brokers []string) []string {
	return []string{"WALRELAY_POSTGRES_URL=" + url, "WALRELAY_KAFKA_BROKERS=" + strings.Join(brokers, ",")}
}

// Build builds the binary at path, from the source of this module.
func Build(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "github.com/walrelay/walrelay/cmd/walrelay")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build walrelay: %w\n%s", err, said)
	}
	return nil
}

// Process is a process of the binary.
type Process struct {
	*process.Process
	output string // path of standard output and standard error
	pages  string // address of the HTTP pages, once known
}

// Launch starts the binary with exactly these variables of walrelay. What it says goes to the file output.
func Launch(binary, output string, environ []string, args ...string) (*Process, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the child has its own
	cmd := exec.Command(binary, args...)
	cmd.Env = append(WithoutOurs(os.Environ()), environ...)
	cmd.Stdout, cmd.Stderr = file, file
	started, err := process.Start(cmd)
	if err != nil {
		return nil, err
	}
	return &Process{Process: started, output: output}, nil
}

// WithoutOurs drops the variables that would configure walrelay.
func WithoutOurs(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if !strings.HasPrefix(entry, "WALRELAY_") && !strings.HasPrefix(entry, "PG") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// Said is all that it has said so far.
func (p *Process) Said() string {
	text, err := os.ReadFile(p.output)
	if err != nil {
		return fmt.Sprintf("(its output cannot be read: %v)", err)
	}
	return string(text)
}

// errNotYet is what a poll answers while it waits.
var errNotYet = errors.New("not yet")

// Ended is an error with the end of what it has said once it has ended by itself, which it should not.
func (p *Process) Ended() error {
	if p.Running() {
		return nil
	}
	said := p.Said()
	return fmt.Errorf("walrelay %d has ended (%v), and said at the end:\n%s", p.Pid(), p.Err(), said[max(0, len(said)-4096):])
}

// AwaitLine waits until it has said text. It fails at once when it has ended without.
func (p *Process) AwaitLine(ctx context.Context, text string) error {
	return Await(ctx, func() error {
		if strings.Contains(p.Said(), text) {
			return nil
		}
		return errNotYet
	}, p)
}

// Await polls every few milliseconds until holds returns nil. It fails when ctx ends, or when one of the processes has.
func Await(ctx context.Context, holds func() error, alive ...*Process) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		err := holds()
		if err == nil {
			return nil
		}
		for _, p := range alive {
			if ended := p.Ended(); ended != nil {
				return ended
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last answer: %w)", context.Cause(ctx), err)
		case <-poll.C:
		}
	}
}

// findPages takes the address of the pages from the log.
func (p *Process) findPages() error {
	if p.pages != "" {
		return nil
	}
	_, rest, _ := strings.Cut(p.Said(), `"serving health, metrics and status"`)
	_, rest, found := strings.Cut(rest, `"address":"`)
	address, _, whole := strings.Cut(rest, `"`)
	if !found || !whole {
		return errNotYet
	}
	p.pages = address
	return nil
}

// Pages is the address of the HTTP pages, empty before the relay has said it.
func (p *Process) Pages() string {
	_ = p.findPages()
	return p.pages
}

// Page gets one of the pages. It fails while the relay has not said where they are.
func (p *Process) Page(ctx context.Context, path string) (code int, body string, err error) {
	if err := p.findPages(); err != nil {
		return 0, "", err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.pages+path, nil)
	if err != nil {
		return 0, "", err
	}
	request.Close = true // no connection stays
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// Status is what /status says.
func (p *Process) Status(ctx context.Context) (s relay.Status, err error) {
	_, body, err := p.Page(ctx, "/status")
	if err == nil {
		err = json.Unmarshal([]byte(body), &s)
	}
	return s, err
}

// HasPublished fails as long as Kafka has acknowledged nothing to this process.
func (p *Process) HasPublished(ctx context.Context) error {
	_, body, err := p.Page(ctx, "/metrics")
	if err == nil && !strings.Contains(body, "\nwalrelay_published_total{") {
		err = errNotYet
	}
	return err
}
