package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// network is a network whose connections of the producer can be cut, delayed and refused. The virtual one is for
// synctest.
type network struct {
	Listen func(network, address string) (net.Listener, error)
	dial   func(ctx context.Context, network, address string) (net.Conn, error) // without faults

	mu       sync.Mutex
	conns    []*faultyConn
	cutAfter int             // so many answers to Produce requests are lost: the connection dies once the broker has answered
	delay    time.Duration   // so late the next Produce request reaches the broker, even if the client has gone by then
	lateOnes int             // such requests that have reached it
	refuse   map[string]bool // by port
}

func virtualNetwork() *network {
	v := &kfake.VirtualNetwork{}
	return &network{Listen: v.Listen, dial: v.DialContext}
}

func realNetwork() *network {
	return &network{Listen: net.Listen, dial: (&net.Dialer{}).DialContext}
}

func (n *network) DialContext(ctx context.Context, kind, address string) (net.Conn, error) {
	n.mu.Lock()
	refused := n.refuse[portOf(address)]
	n.mu.Unlock()
	if refused {
		return nil, errors.New("connection refused")
	}
	inner, err := n.dial(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	c := &faultyConn{Conn: inner, network: n, address: address}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, c)
	return c, nil
}

// cut closes every connection that pick accepts.
func (n *network) cut(pick func(address string) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var kept []*faultyConn
	for _, c := range n.conns {
		if pick(c.address) {
			_ = c.Conn.Close()
		} else {
			kept = append(kept, c)
		}
	}
	n.conns = kept
}

// cutSome closes each connection with a probability.
func (n *network) cutSome(random *rand.Rand, probability float64) {
	n.cut(func(string) bool { return random.Float64() < probability })
}

// portOf tells brokers apart, which go by more than one name.
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

func (n *network) setRefused(port string, refused bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse == nil {
		n.refuse = map[string]bool{}
	}
	n.refuse[port] = refused
}

// loseAnswers makes the connection die count times after the broker has answered a Produce request.
func (n *network) loseAnswers(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cutAfter = count
}

// delayNext holds the next Produce request back for d.
func (n *network) delayNext(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delay = d
}

func (n *network) arrived() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lateOnes++
}

func (n *network) late() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lateOnes
}

// faultyConn is the client's end of a connection.
type faultyConn struct {
	net.Conn
	network *network
	address string
	left    int  // bytes of the request that have not been written
	produce bool // it is a Produce request
	late    bool // it is held back, and this connection is nobody's any more
}

func (c *faultyConn) Write(b []byte) (int, error) {
	if c.left == 0 {
		c.left = 4 + int(binary.BigEndian.Uint32(b))
		c.produce = binary.BigEndian.Uint16(b[4:]) == 0
		if delay := c.takeDelay(); delay > 0 {
			c.late = true
			go c.writeLate(append([]byte(nil), b...), delay)
			return len(b), nil
		}
	}
	n, err := c.Conn.Write(b)
	c.left -= n
	return n, err
}

func (c *faultyConn) takeDelay() time.Duration {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if !c.produce {
		return 0
	}
	delay := c.network.delay
	c.network.delay = 0
	return delay
}

func (c *faultyConn) writeLate(request []byte, delay time.Duration) {
	time.Sleep(delay)
	_ = c.Conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = c.Conn.Write(request)
	_, _ = io.ReadFull(c.Conn, make([]byte, 4)) // the broker has worked on it
	_ = c.Conn.Close()
	c.network.arrived()
}

func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil || !c.produce {
		return n, err
	}
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	if c.network.cutAfter == 0 {
		return n, nil
	}
	c.network.cutAfter--
	_ = c.Conn.Close()
	return 0, io.ErrUnexpectedEOF
}

// Close leaves a connection alone whose request is still on its way.
func (c *faultyConn) Close() error {
	if c.late {
		return nil
	}
	return c.Conn.Close()
}
