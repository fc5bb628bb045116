package faultconn

import (
	"context"
	"net"
	"syscall"
)

// Dialer makes connections with faults. The zero value is ready for use.
type Dialer struct {
	Faults
	// Dial makes the real connection; nil is net.Dialer's DialContext.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// DialContext has the signature that pgconn, kafka-go, franz-go and net/http take.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if !d.dialing() {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	dial := d.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	inner, err := dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return newConn(inner, &d.Faults), nil
}
