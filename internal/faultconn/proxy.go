package faultconn

import (
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy is a TCP proxy on loopback: what connects to its address reaches the target, with faults.
type Proxy struct {
	Faults
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	clients map[net.Conn]struct{}
}

// NewProxy starts a proxy before the target address. The caller must Close it.
func NewProxy(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start proxy before %s: %w", target, err)
	}
	p := &Proxy{target: target, listener: l, clients: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	return p, nil
}

// Address is where clients connect, such as "127.0.0.1:40000".
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Close ends the proxy and all connections through it.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for c := range p.clients {
		c.Close()
	}
	p.mu.Unlock()
	err := p.listener.Close()
	p.Cut()
	p.running.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		if !p.dialing() || !p.remember(client) {
			client.Close()
			continue
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// remember makes Close close the client's connection. It fails when the proxy is closed.
func (p *Proxy) remember(client net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.clients[client] = struct{}{}
	return true
}

// serve passes bytes on in both directions until both have ended. An orderly end of one direction is passed on too; an
// error, such as a cut, ends both.
func (p *Proxy) serve(client net.Conn) {
	defer func() {
		client.Close()
		p.mu.Lock()
		delete(p.clients, client)
		p.mu.Unlock()
	}()
	inner, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	server := newConn(inner, &p.Faults)
	defer server.Close()
	var up sync.WaitGroup
	up.Go(func() { pass(server, client) })
	pass(client, server)
	up.Wait()
}

// pass copies until the end of from.
func pass(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.(interface{ CloseWrite() error }).CloseWrite()
	}
	if err != nil {
		from.Close()
		to.Close()
	}
}
