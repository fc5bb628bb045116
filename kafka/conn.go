package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"

	"github.com/walrelay/walrelay/socket"
)

// minProduceVersion is the first that takes record batches of format 2 (Kafka 0.11).
const minProduceVersion = 3

// conn is one authenticated connection to one broker, used by one goroutine at a time.
type conn struct {
	addr           string
	clientID       string
	socket         *watchedSocket
	wire           *protocol.Conn
	forget         func() bool // ends the closing at the context's end
	produceVersion int16
	correlation    int32
	expires        time.Time // when the broker ends the SASL session; zero: never
}

// dial connects, negotiates versions and authenticates, all before one deadline: a broker that swallows a SASL message
// must not hold anybody up. The connection is closed when ctx ends.
func dial(ctx context.Context, cfg *Config, addr string, timeout time.Duration) (*conn, error) {
	var security *tls.Config
	if cfg.TLS != nil {
		var err error
		if security, err = cfg.TLS(); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", addr, err)
		}
	}
	deadline := time.Now().Add(timeout)
	dialing, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	raw, err := cfg.Dial(dialing, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	socket := &watchedSocket{Conn: socket.Quiet(raw), deadline: deadline}
	c := &conn{addr: addr, clientID: cfg.ClientID, socket: socket}
	c.forget = context.AfterFunc(ctx, func() { _ = raw.Close() })
	var secured net.Conn = socket
	if security != nil {
		secured = tls.Client(socket, tlsFor(security, addr))
	}
	c.wire = protocol.NewConn(secured, cfg.ClientID)
	if err := c.shakeHands(dialing, cfg.SASL); err != nil {
		c.close()
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	return c, nil
}

func tlsFor(cfg *tls.Config, addr string) *tls.Config {
	if cfg.ServerName != "" {
		return cfg
	}
	cfg = cfg.Clone()
	cfg.ServerName, _, _ = net.SplitHostPort(addr)
	return cfg
}

func (c *conn) close() {
	c.forget()
	_ = c.socket.Close()
}

func (c *conn) shakeHands(ctx context.Context, mechanism sasl.Mechanism) error {
	answer, err := c.wire.RoundTrip(&apiversions.Request{})
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("ask for API versions: %w; does this port want TLS, or no TLS?", err)
	}
	if err != nil {
		return fmt.Errorf("ask for API versions: %w", err)
	}
	if err := c.chooseVersions(answer.(*apiversions.Response)); err != nil {
		return err
	}
	if mechanism == nil {
		return nil
	}
	return c.authenticate(ctx, mechanism)
}

// chooseVersions takes the highest version of each API that both sides know.
func (c *conn) chooseVersions(offer *apiversions.Response) error {
	if offer.ErrorCode != codeNone {
		return fmt.Errorf("ask for API versions: %w", brokerError{code: offer.ErrorCode})
	}
	versions := map[protocol.ApiKey]int16{}
	for _, api := range offer.ApiKeys {
		if api.ApiKey > int16(protocol.AlterUserScramCredentials) {
			continue // not known to the codecs
		}
		key := protocol.ApiKey(api.ApiKey)
		if v := key.SelectVersion(api.MinVersion, api.MaxVersion); v >= api.MinVersion && v <= api.MaxVersion {
			versions[key] = v
		}
	}
	c.produceVersion = versions[protocol.Produce]
	if c.produceVersion < minProduceVersion {
		return errors.New("no common version of the Produce API; want Kafka 0.11 or newer")
	}
	c.wire.SetVersions(versions)
	return nil
}

func (c *conn) authenticate(ctx context.Context, mechanism sasl.Mechanism) error {
	host, portText, _ := net.SplitHostPort(c.addr)
	port, _ := strconv.Atoi(portText)
	ctx = sasl.WithMetadata(ctx, &sasl.Metadata{Host: host, Port: port})
	answer, err := c.wire.RoundTrip(&saslhandshake.Request{Mechanism: mechanism.Name()})
	if err != nil {
		return fmt.Errorf("sasl handshake: %w", err)
	}
	if shake := answer.(*saslhandshake.Response); shake.ErrorCode != codeNone {
		return fmt.Errorf("sasl handshake: %w; the broker offers %v", brokerError{code: shake.ErrorCode}, shake.Mechanisms)
	}
	dialogue, out, err := mechanism.Start(ctx)
	for finished := false; !finished; {
		if err != nil {
			return fmt.Errorf("sasl %s: %w", mechanism.Name(), err)
		}
		answer, err := c.wire.RoundTrip(&saslauthenticate.Request{AuthBytes: out})
		if err != nil {
			return fmt.Errorf("sasl %s: %w", mechanism.Name(), err)
		}
		reply := answer.(*saslauthenticate.Response)
		if reply.ErrorCode != codeNone {
			return fmt.Errorf("sasl %s: %w", mechanism.Name(), brokerError{reply.ErrorCode, reply.ErrorMessage})
		}
		c.setExpiry(reply.SessionLifetimeMs)
		finished, out, err = dialogue.Next(ctx, reply.AuthBytes)
		if finished && err != nil {
			return fmt.Errorf("sasl %s: %w", mechanism.Name(), err)
		}
	}
	return nil
}

// setExpiry remembers when the broker ends the session (KIP-368). A new connection is opened a little before.
func (c *conn) setExpiry(lifetimeMillis int64) {
	if lifetimeMillis > 0 {
		c.expires = time.Now().Add(time.Duration(lifetimeMillis) * time.Millisecond * 9 / 10)
	}
}

// stale tells whether the connection should be replaced before its next use.
func (c *conn) stale(now time.Time) bool { return !c.expires.IsZero() && now.After(c.expires) }

// call sends a request and waits for its answer.
func (c *conn) call(request protocol.Message, timeout time.Duration) (protocol.Message, error) {
	c.socket.deadline = time.Now().Add(timeout)
	answer, err := c.wire.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("%s request to %s: %w", request.ApiKey(), c.addr, err)
	}
	return answer, nil
}

// produce sends batches and waits for the answer. overdue is asked now and then while it takes long, see watchedSocket.
func (c *conn) produce(request *rawproduce.Request, timeout time.Duration, overdue func() bool) (*produce.Response, error) {
	c.socket.deadline, c.socket.overdue = time.Now().Add(timeout), overdue
	defer func() { c.socket.overdue = nil }()
	c.correlation++
	if err := protocol.WriteRequest(c.wire, c.produceVersion, c.correlation, c.clientID, request); err != nil {
		return nil, fmt.Errorf("send batches to %s: %w", c.addr, err)
	}
	correlation, answer, err := protocol.ReadResponse(c.wire, protocol.Produce, c.produceVersion)
	if err != nil {
		return nil, fmt.Errorf("wait for %s to acknowledge: %w", c.addr, err)
	}
	if correlation != c.correlation {
		return nil, fmt.Errorf("wait for %s to acknowledge: answer %d to request %d", c.addr, correlation, c.correlation)
	}
	return answer.(*produce.Response), nil
}
