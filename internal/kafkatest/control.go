package kafkatest

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// node finds a node; c.mu must be held.
func (c *Cluster) node(id int32) (*node, error) {
	if id < 1 || int(id) > len(c.nodes) {
		return nil, fmt.Errorf("kafka node %d: the cluster has 1 to %d", id, len(c.nodes))
	}
	return c.nodes[id-1], nil
}

// with calls f with a node while no other call starts or ends nodes.
func (c *Cluster) with(id int32, f func(*node) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.node(id)
	if err != nil {
		return err
	}
	return f(n)
}

// Kill ends a node with SIGKILL and waits until it is gone. It can be started again.
func (c *Cluster) Kill(id int32) error {
	return c.with(id, func(n *node) error {
		n.answers = false
		if !n.running() {
			return nil
		}
		return n.process.Kill()
	})
}

// StopNode shuts a node down (SIGTERM: it hands its partitions over) and waits for its end, which takes 1 to 3 s. When ctx
// ends first, the shutdown goes on; Kill ends it.
func (c *Cluster) StopNode(ctx context.Context, id int32) error {
	var p *process.Process
	err := c.with(id, func(n *node) error {
		n.answers = false
		if n.running() {
			p = n.process
		}
		return nil
	})
	if err != nil || p == nil {
		return err
	}
	return p.Stop(ctx, syscall.SIGTERM)
}

// StartNode starts a node that was stopped or killed, on the same ports and data, and waits until the cluster is ready.
func (c *Cluster) StartNode(ctx context.Context, id int32) error {
	err := c.with(id, func(n *node) error {
		if n.running() {
			return nil
		}
		return n.start(c.install.classPath)
	})
	if err != nil {
		return err
	}
	return c.WaitReady(ctx)
}

// Pause freezes a node (SIGSTOP): its connections stay open and are silent. When it returns, the node does not run.
func (c *Cluster) Pause(id int32) error { return c.freeze(id, true) }

// Continue ends a Pause.
func (c *Cluster) Continue(id int32) error { return c.freeze(id, false) }

func (c *Cluster) freeze(id int32, frozen bool) error {
	return c.with(id, func(n *node) error {
		if !n.running() {
			return fmt.Errorf("pause or continue Kafka node %d: it does not run", id)
		}
		n.answers = !frozen
		if frozen {
			return process.Freeze(n.process.Pid())
		}
		return process.Thaw(n.process.Pid())
	})
}

// Pid is the process id of a node, 0 when it does not run.
func (c *Cluster) Pid(id int32) int {
	pid := 0
	_ = c.with(id, func(n *node) error { // an unknown node does not run
		if n.running() {
			pid = n.process.Pid()
		}
		return nil
	})
	return pid
}

// WaitReady waits until each node that ought to answer (it was started, and not killed, stopped or paused) knows all those
// nodes as members of the cluster. It fails when one of them has ended by itself.
func (c *Cluster) WaitReady(ctx context.Context) error {
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		nodes, err := c.expected()
		if err != nil {
			return err
		}
		err = members(ctx, nodes)
		if err == nil {
			return nil
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until Kafka is ready: %w (last answer: %v)", context.Cause(ctx), err)
		}
	}
}

// expected lists the nodes that ought to answer, by address. It fails when one of them has ended.
func (c *Cluster) expected() (map[int32]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := map[int32]string{}
	for _, n := range c.nodes {
		if !n.answers {
			continue
		}
		if !n.running() {
			return nil, n.ended()
		}
		nodes[n.id] = n.address("PLAINTEXT")
	}
	return nodes, nil
}

// members fails unless each of the nodes knows all of them.
func members(ctx context.Context, nodes map[int32]string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for id, address := range nodes {
		reply, err := metadata(ctx, []string{address})
		if err != nil {
			return fmt.Errorf("ask node %d: %w", id, err)
		}
		for other := range nodes {
			if !lists(reply, other) {
				return fmt.Errorf("node %d does not know node %d", id, other)
			}
		}
	}
	return nil
}

// lists tells whether node id is among the members of the cluster.
func lists(reply *kmsg.MetadataResponse, id int32) bool {
	for _, b := range reply.Brokers {
		if b.NodeID == id {
			return true
		}
	}
	return false
}
