package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// controlTimeout bounds requests that a healthy broker answers at once, so that a sick one is left soon.
const controlTimeout = 2 * time.Second

// client sends requests that any broker can answer, over one connection of its own. It goes from broker to broker until
// one answers. It is for one goroutine.
type client struct {
	cfg  *Config
	conn *conn
	next int
}

// call tries every address once, besides the connection that is there already.
func (c *client) call(ctx context.Context, addrs []string, request protocol.Message) (protocol.Message, error) {
	tries := len(addrs)
	if c.conn != nil {
		tries++
	}
	var failures []error
	for range tries {
		answer, err := c.try(ctx, addrs, request)
		if err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

func (c *client) try(ctx context.Context, addrs []string, request protocol.Message) (protocol.Message, error) {
	if c.conn != nil && c.conn.stale(time.Now()) {
		c.close()
	}
	if c.conn == nil {
		addr := addrs[c.next%len(addrs)]
		conn, err := dial(ctx, c.cfg, addr, min(controlTimeout, c.cfg.DialTimeout))
		if err != nil {
			c.next++
			return nil, err
		}
		c.conn = conn
	}
	answer, err := c.conn.call(request, controlTimeout)
	if err != nil {
		c.close()
		c.next++
	}
	return answer, err
}

// leave makes the next request go to a broker other than the one at addr.
func (c *client) leave(addr string) {
	if c.conn != nil && c.conn.addr == addr {
		c.close()
		c.next++
	}
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}

// callBroker sends one request to one broker over a connection that is closed behind it.
func callBroker(ctx context.Context, cfg *Config, addr string, request protocol.Message, timeout time.Duration) (protocol.Message, error) {
	conn, err := dial(ctx, cfg, addr, cfg.DialTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.close()
	return conn.call(request, timeout)
}
