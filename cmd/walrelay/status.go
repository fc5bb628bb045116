package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/walrelay/walrelay/admin"
	"github.com/walrelay/walrelay/config"
	"github.com/walrelay/walrelay/relay"
)

// statusFlags are what status can be told.
type statusFlags struct {
	json, watch bool
	url         string
}

// watchInterval is how often status --watch looks.
const watchInterval = 2 * time.Second

// standing is what status knows: from the relay, and where that cannot be asked, from the server.
type standing struct {
	// Relay is what the relay at Address says; null where it does not answer, and Error says why.
	Relay   *relay.Status `json:"relay"`
	Address string        `json:"address"`
	Error   string        `json:"relay_error,omitempty"`
	// Server is what Postgres says of the slot where there is no relay; null where it does not answer either.
	Server      *relay.SlotStatus `json:"server,omitempty"`
	Slot        string            `json:"slot"`
	ServerError string            `json:"server_error,omitempty"`
}

func (p *program) statusCommand() *cobra.Command {
	var flags statusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show on one screen how the relay and its slot are",
		Long: `Show what the relay says of itself (state, how far behind, what waits, what was published) and what the server says of the
slot. The relay is asked at http.listen, or at --url. Where it does not answer, the server alone is asked, with the Postgres
settings.

Exit code 0 means that one of them has answered; whether the relay is ready is the member ready of --json.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.status(cmd, flags) },
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "as one JSON line")
	cmd.Flags().BoolVar(&flags.watch, "watch", false, "again every two seconds, until Ctrl-C")
	cmd.Flags().StringVar(&flags.url, "url", "", "`url` of the relay's pages (default http:// and http.listen)")
	return cmd
}

func (p *program) status(cmd *cobra.Command, flags statusFlags) error {
	c, err := p.load(cmd)
	var problems config.Problems
	if errors.As(err, &problems) {
		err = problems.Without("kafka.brokers")
	}
	if err != nil {
		return err
	}
	if flags.url == "" && c.HTTP.Listen == admin.Off {
		return &usageError{cmd.CommandPath(), errors.New("http.listen is off; say --url")}
	}
	settings, err := p.loadWithoutKafka(cmd)
	if err != nil {
		return err
	}
	if flags.url == "" {
		scheme := "http://"
		if c.HTTP.CertFile != "" {
			scheme = "https://"
		}
		flags.url = scheme + reachable(c.HTTP.Listen)
	}
	ctx, stop := p.untilSignal(cmd.Context(), nil)
	defer stop()
	return p.showStatus(ctx, c.Admin(), settings, flags)
}

// showStatus shows it once, or again and again.
func (p *program) showStatus(ctx context.Context, pages admin.Config, settings relay.Config, flags statusFlags) error {
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		s := lookAt(ctx, pages, settings, flags.url)
		if ctx.Err() != nil {
			return nil
		}
		if flags.watch && !flags.json {
			fmt.Fprint(p.out, "\x1b[H\x1b[2J") // home, clear
		}
		err := p.print(flags.json, s, func() error { return p.printStanding(s, time.Now()) })
		if err != nil || !flags.watch {
			return errors.Join(err, s.nobody())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// nobody is an error where neither side has answered.
func (s standing) nobody() error {
	if s.Relay == nil && s.Server == nil {
		return errors.New("neither the relay nor the server answers")
	}
	return nil
}

// reachable is the address to ask at for one that is listened on: of all interfaces, the loopback one.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return listen
}

func lookAt(ctx context.Context, pages admin.Config, settings relay.Config, url string) standing {
	s := standing{Address: url}
	var err error
	if s.Relay, err = askRelay(ctx, pages, url); err == nil {
		s.Slot = s.Relay.Slot
		if s.Relay.Server != nil {
			return s
		}
	} else {
		s.Error = oneLine(err)
	}
	if s.Server, s.Slot, err = askServer(ctx, settings); err != nil {
		s.ServerError = oneLine(err)
	}
	return s
}

// answerTimeout is how long either side may take.
const answerTimeout = 5 * time.Second

func askRelay(ctx context.Context, pages admin.Config, url string) (*relay.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	response, err := pages.Ask(ctx, url+"/status")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	var status relay.Status
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil {
		return nil, fmt.Errorf("%s is not walrelay: %w", url, err)
	}
	return &status, nil
}

func askServer(ctx context.Context, settings relay.Config) (*relay.SlotStatus, string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	address, err := settings.Postgres.SQL()
	if err != nil {
		return nil, "", err
	}
	slot, _ := settings.Postgres.Names(address.Database)
	conn, err := pgx.ConnectConfig(ctx, address)
	if err != nil {
		return nil, slot, err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the server notices either way
	status, err := relay.AskSlot(ctx, conn, settings, slot)
	return status, slot, err
}
