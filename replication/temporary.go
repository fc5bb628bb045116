package replication

import (
	"context"
	"fmt"

	"github.com/jackc/pglogrepl"
)

// CreateTemporarySlot makes a logical slot that starts now and ends with this connection, for somebody who only looks. It
// waits for the write transactions that run.
func (c *Conn) CreateTemporarySlot(ctx context.Context, name string) error {
	_, err := pglogrepl.CreateReplicationSlot(ctx, c.pg, quote(name), "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Mode: pglogrepl.LogicalReplication, Temporary: true, SnapshotAction: "NOEXPORT_SNAPSHOT"})
	if err != nil {
		return fmt.Errorf("create temporary slot %s: %w", name, err)
	}
	return nil
}
