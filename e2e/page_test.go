package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/internal/relaytest"
)

// browser is a tab of a real browser, and what its console complained about.
type browser struct {
	t *testing.T
	// tab is a context for one action in it.
	tab func() (context.Context, context.CancelFunc)

	mu         sync.Mutex
	complaints []string
}

// openBrowser starts Chromium. Without it the test is skipped, loudly; with WALRELAY_REQUIRE_BROWSER=1 it fails.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("WALRELAY_REQUIRE_BROWSER") == "1" {
			t.Fatalf("a browser is required: %v", err)
		}
		fmt.Fprintf(os.Stderr, "SKIPPED without a browser: %s: %v\n", t.Name(), err)
		t.Skip(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Error(err)
		}
		stop()
	})
	b := &browser{t: t, tab: func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, patience) }}
	err = chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, event.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if event.Entry.Level == "error" {
				b.complaints = append(b.complaints, event.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	return b
}

// in runs one action in the tab.
func in[T any](b *browser, what string, action chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := b.tab()
	defer cancel()
	result, err := chromedp.Run(ctx, action)
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
	return result
}

// sees waits until the element of that id shows a text.
func (b *browser) sees(id, text string) {
	b.t.Helper()
	awaitWithin(b.t, 2*patience, 100*time.Millisecond, "#"+id+" shows "+text, func() error {
		shown := in(b, "look", chromedp.TextContent("#"+id))
		if strings.Contains(shown, text) {
			return nil
		}
		return errors.New(shown)
	})
}

// drawn waits until a chart has so many points.
func (b *browser) drawn(points int) {
	b.t.Helper()
	awaitWithin(b.t, patience, 50*time.Millisecond, "points in the chart", func() error {
		if n := in(b, "count", chromedp.Evaluate[int](`lags.length`)); n < points {
			return fmt.Errorf("%d of %d", n, points)
		}
		return nil
	})
}

// picture keeps the whole page as seen by a device, in the folder of WALRELAY_SCREENSHOTS.
func (b *browser) picture(name string, width int, scheme string) {
	b.t.Helper()
	in(b, "resize", chromedp.EmulateViewport(int64(width), 900))
	in(b, "choose colours", chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
	overflow := in(b, "measure", chromedp.Evaluate[bool](`document.documentElement.scrollWidth > window.innerWidth`))
	png := in(b, "picture", chromedp.FullScreenshot(100))
	if overflow {
		b.t.Errorf("%s: the page is wider than the %d pixels of its screen", name, width)
	}
	if len(png) < 10_000 {
		b.t.Errorf("%s: a picture of %d bytes", name, len(png))
	}
	folder := os.Getenv("WALRELAY_SCREENSHOTS")
	if folder == "" {
		return
	}
	if err := errors.Join(os.MkdirAll(folder, 0o755), os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644)); err != nil {
		b.t.Error(err)
	}
}

// The page of a relay that works, of one whose Kafka is away, and of one whose slot is lost, in a real browser.
func TestStatusPage(t *testing.T) {
	b := openBrowser(t)
	s := pgtest.Start(t, pgtest.Options{Settings: map[string]string{"max_slot_wal_keep_size": "64MB", "max_wal_size": "64MB", "min_wal_size": "32MB"}})
	url := s.Database(t)
	cluster, err := kafkatest.LaunchFake("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	pgtest.Exec(t, url, outboxSQL)
	w := launch(t, append(relaytest.Variables(url, cluster.ListenAddrs()), relaytest.AnyPort, "WALRELAY_ON_STOP=wait"), "run")
	w.findPages(t)
	w.awaitReady(t)

	in(b, "open", chromedp.Navigate("http://"+w.Pages()+"/"))
	b.sees("state", "streaming")
	b.sees("ready", "ready")
	events := func(n int) {
		pgtest.Exec(t, url, fmt.Sprintf(`INSERT INTO outbox SELECT gen_random_uuid(), (ARRAY['order', 'customer', 'invoice'])[1 + i %% 3], 'key-' || i %% 50,
			'Created', '{"secret": "the-payload-word"}' FROM generate_series(1, %d) i`, n))
	}
	for i := range 12 { // so that the charts have a shape
		events(10 + 30*(i%4))
		b.drawn(i + 1)
	}
	b.sees("topics", "outbox.event.invoice")
	b.sees("recent", "Created")
	b.sees("role", "active")
	b.sees("slotfacts", "reserved")
	b.sees("noerrors", "none since the start")
	b.picture("light", 1200, "light")
	b.picture("dark", 1200, "dark")
	b.picture("phone", 390, "light")
	b.picture("phone-dark", 390, "dark")
	if strings.Contains(in(b, "read", chromedp.OuterHTML("html")), "the-payload-word") {
		t.Error("the page has a payload")
	}

	cluster.Close()
	events(5)
	b.sees("reason", "kafka: unreachable")
	b.sees("ready", "not ready")
	b.sees("inflight", "5 events in flight")
	b.sees("errors", "kafka: unreachable")
	b.picture("kafka-away", 1200, "light")

	// More log than the slot may keep, and a checkpoint that drops it.
	for range 10 {
		pgtest.Exec(t, url, `SELECT pg_logical_emit_message(true, 'foreign', 'x')`, `SELECT pg_switch_wal()`)
	}
	pgtest.Exec(t, url, `CHECKPOINT`)
	b.sees("state", "stopped")
	b.sees("reason", "walrelay repair")
	b.sees("reason", "code slot-lost")
	b.picture("slot-lost", 1200, "dark")

	b.mu.Lock()
	defer b.mu.Unlock()
	for _, complaint := range b.complaints {
		t.Errorf("the browser complains: %s", complaint)
	}
}
