package kafkatest

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// node finds a node; c.mu must be held.
func (c *Cluster) node(id int32) (*node, error) {
	if id < 1 || int(id) > len(c.nodes) {
		return nil, fmt.Errorf("Kafka node %d: the cluster has 1 to %d", id, len(c.nodes))
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
		if !n.up {
			return nil
		}
		n.up = false
		return n.process.Kill()
	})
}

// StopNode shuts a node down (SIGTERM: it hands its partitions over) and waits for its end, which takes 1 to 3 s.
func (c *Cluster) StopNode(ctx context.Context, id int32) error {
	return c.with(id, func(n *node) error {
		if !n.up {
			return nil
		}
		n.up = false
		return n.process.Stop(ctx, syscall.SIGTERM)
	})
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

// Pause freezes a node (SIGSTOP): its connections stay open and are silent.
func (c *Cluster) Pause(id int32) error { return c.freeze(id, syscall.SIGSTOP) }

// Continue ends a Pause.
func (c *Cluster) Continue(id int32) error { return c.freeze(id, syscall.SIGCONT) }

func (c *Cluster) freeze(id int32, signal syscall.Signal) error {
	return c.with(id, func(n *node) error {
		if !n.running() {
			return fmt.Errorf("send %v to Kafka node %d: it does not run", signal, id)
		}
		n.frozen = signal == syscall.SIGSTOP
		return n.process.Signal(signal)
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

// WaitReady waits until each node that was started and is not frozen knows all those nodes as members of the cluster. It
// fails when one of them has ended by itself.
func (c *Cluster) WaitReady(ctx context.Context) error {
	c.mu.Lock()
	var wanted []*node
	for _, n := range c.nodes {
		if n.answers() {
			wanted = append(wanted, n)
		}
	}
	c.mu.Unlock()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		err := members(ctx, wanted)
		if err == nil {
			return nil
		}
		for _, n := range wanted {
			if !n.process.Running() {
				return n.ended()
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until Kafka is ready: %w (last answer: %v)", context.Cause(ctx), err)
		}
	}
}

func members(ctx context.Context, wanted []*node) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, n := range wanted {
		reply, err := metadata(ctx, []string{n.address("PLAINTEXT")})
		if err != nil {
			return fmt.Errorf("ask node %d: %w", n.id, err)
		}
		for _, other := range wanted {
			if !lists(reply, other.id) {
				return fmt.Errorf("node %d does not know node %d", n.id, other.id)
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
