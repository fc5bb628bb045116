package relay

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/replication"
)

// VerifyOptions says what Verify compares.
type VerifyOptions struct {
	// Select chooses rows; its Horizon is not used.
	Select audit.Selection
	// Wait is how long rows that are missing may still come, while a relay runs.
	Wait time.Duration
	// Progress is told how far it has come. May be nil.
	Progress func(audit.Progress)
}

// verifyPoll is how often the topics are read for what has come since.
const verifyPoll = 500 * time.Millisecond

// Verify compares the outbox tables with the topics and changes nothing. It needs the right to read both.
func Verify(ctx context.Context, cfg Config, o VerifyOptions, log *zap.Logger) (audit.Report, error) {
	chosen := o.Select
	chosen.Horizon = audit.Horizon{}
	c, err := cfg.compare(ctx, log, audit.Config{Progress: o.Progress}, func(*replication.Survey) audit.Selection { return chosen })
	if err != nil {
		return audit.Report{}, err
	}
	defer c.close()
	if _, err := c.sameCluster(ctx); err != nil {
		return audit.Report{}, err
	}
	if _, err := c.load(ctx, ""); err != nil {
		return audit.Report{}, err
	}
	for deadline := time.Now().Add(o.Wait); ; {
		if err := c.Compare(ctx); err != nil {
			return audit.Report{}, err
		}
		if c.Left() == 0 || !time.Now().Before(deadline) {
			break
		}
		if pause(ctx, verifyPoll); ctx.Err() != nil {
			return audit.Report{}, context.Cause(ctx)
		}
	}
	err = c.list(ctx, nil)
	return c.Report(), err
}
