package replication

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/lsn"
)

// Frame is one message of the stream.
type Frame struct {
	// Keepalive tells a keepalive from WAL data.
	Keepalive bool
	// Data is the WAL data: one pgoutput message, a slice of the receive buffer that is valid until the next
	// call of Next. It holds only the first bytes when Size is larger.
	Data []byte
	// Size is the length of the WAL data on the wire.
	Size int
	// End is how far the server has read the WAL; of a keepalive only (in logical mode WAL data carries its
	// own position there).
	End lsn.End
	// Reply tells that the server wants a status at once; of a keepalive only.
	Reply bool
}

// Stream is a replication connection in copy mode. One goroutine uses it; Wake and Received are for others.
type Stream struct {
	wire     *wire
	pid      uint32
	status   [statusBytes]byte
	received atomic.Int64 // unix nanoseconds of the last bytes
}

// Start turns the connection into a stream that begins at the slot's own position: a position kept anywhere
// else must never decide (a restored copy of the server would skip events in silence). On an error the
// connection is closed.
func (c *Conn) Start(ctx context.Context, slot, publication string) (*Stream, error) {
	hijacked, err := c.pg.Hijack()
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("start replication: %w", err)
	}
	s := &Stream{wire: newWire(hijacked.Conn, c.cfg.maxEvent()+walHeader), pid: hijacked.PID}
	stop := context.AfterFunc(ctx, s.Wake)
	defer stop()
	if err := s.start(ctx, c.startCommand(slot, publication)); err != nil {
		_ = s.wire.conn.Close() // the first error is the one that counts
		return nil, fmt.Errorf("start replication on slot %q: %w", slot, err)
	}
	return s, nil
}

func (c *Conn) startCommand(slot, publication string) string {
	options := []string{
		"proto_version '1'",
		"publication_names '" + strings.ReplaceAll(quote(publication), "'", "''") + "'",
	}
	if c.cfg.Messages {
		options = append(options, "messages 'true'")
	}
	return fmt.Sprintf("START_REPLICATION SLOT %s LOGICAL 0/0 (%s)", quote(slot), strings.Join(options, ", "))
}

// start sends the command and waits until the server is in copy mode.
func (s *Stream) start(ctx context.Context, command string) error {
	query, err := (&pgproto3.Query{String: command}).Encode(nil)
	if err != nil {
		return err
	}
	if err := s.write(query); err != nil {
		return err
	}
	deadline := time.Now().Add(time.Minute)
	for {
		m, ok, err := s.message(deadline)
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !ok:
			return errors.New("the server does not answer")
		}
		switch m.kind {
		case 'W': // CopyBothResponse
			return nil
		case 'd', 'c', 'C', 'Z':
			return &WireError{Type: m.kind, Reason: "not expected before the stream"}
		}
	}
}

// Next returns the next frame. It waits for one until the given time at the latest (zero: no limit) and then
// reports false, as it does after a Wake.
func (s *Stream) Next(until time.Time) (Frame, bool, error) {
	for {
		m, ok, err := s.message(until)
		if err != nil || !ok {
			return Frame{}, false, err
		}
		switch m.kind {
		case 'd': // CopyData
			return frame(m)
		case 'c', 'C': // CopyDone; CommandComplete without it, of a server that stops and has nothing left to be confirmed
			return Frame{}, false, errClosedByServer
		default:
			return Frame{}, false, &WireError{Type: m.kind, Reason: "not expected in the stream"}
		}
	}
}

// Buffered tells whether Next will answer without reading from the socket.
func (s *Stream) Buffered() bool { return s.wire.buffered() }

// message returns the next message that is not an error, a notice or a parameter.
func (s *Stream) message(until time.Time) (message, bool, error) {
	for {
		m, ok, err := s.wire.next()
		if err != nil {
			return message{}, false, err
		}
		if !ok {
			if err := s.wire.fill(until); errors.Is(err, errNothing) {
				return message{}, false, nil
			} else if err != nil {
				return message{}, false, fmt.Errorf("read from Postgres: %w", err)
			}
			s.received.Store(time.Now().UnixNano())
			continue
		}
		switch m.kind {
		case 'E': // ErrorResponse
			return message{}, false, serverError(m.body)
		case 'N': // NoticeResponse
			if err := judgeNotice(m.body); err != nil {
				return message{}, false, err
			}
		case 'S': // ParameterStatus
		default:
			return m, true, nil
		}
	}
}

// Layout of the messages inside CopyData, manual section "Streaming Replication Protocol".
const (
	walHeader       = 1 + 8 + 8 + 8 // XLogData: 'w', start, end, clock
	keepaliveLength = 1 + 8 + 8 + 1 // primary keepalive: 'k', end, clock, reply requested
)

func frame(m message) (Frame, bool, error) {
	switch {
	case len(m.body) >= walHeader && m.body[0] == 'w':
		return Frame{Data: m.body[walHeader:], Size: m.size - walHeader}, true, nil
	case len(m.body) == keepaliveLength && m.body[0] == 'k':
		end := lsn.End(binary.BigEndian.Uint64(m.body[1:]))
		return Frame{Keepalive: true, End: end, Reply: m.body[17] == 1}, true, nil
	}
	return Frame{}, false, &WireError{Type: 'd', Reason: "neither WAL data nor a keepalive"}
}

func serverError(body []byte) error {
	var response pgproto3.ErrorResponse
	if err := response.Decode(body); err != nil {
		return &WireError{Type: 'E', Reason: err.Error()}
	}
	pg := pgconn.ErrorResponseToPgError(&response)
	if pg.Code == codeUndefinedObject && pg.Routine == "get_publication_oid" {
		return publicationGone(pg)
	}
	return pg
}

// publicationGone is for a publication that the log does not have at the place where the stream is, whatever there is now.
func publicationGone(err error) error {
	return &SetupError{
		Code:    fault.PublicationMissing,
		Problem: "the publication is missing at this position of the log, so that rows are not in the stream",
		Remedy:  "see which and restore them: walrelay repair",
		Err:     err,
	}
}

// judgeNotice stops the stream when rows are being left out: on 18 and later a missing publication is only a
// warning, and the rows behind it are gone for good once the slot has moved on. The routine's name is asked
// because the text is translated.
func judgeNotice(body []byte) error {
	var notice pgproto3.NoticeResponse
	if err := notice.Decode(body); err != nil {
		return &WireError{Type: 'N', Reason: err.Error()}
	}
	if notice.Code == codeNotInPrerequisite && notice.Routine == "LoadPublications" {
		return publicationGone(errors.New(notice.Message))
	}
	return nil
}

// statusBytes is CopyData with a standby status update in it.
const statusBytes = headerBytes + 1 + 8 + 8 + 8 + 8 + 1

// microsecond of 2000-01-01 on the Unix clock, where Postgres starts to count.
const postgresEpoch = 946684800_000000

// SendStatus confirms everything before end, or only says that we live when end is zero. All three
// positions are the same: with a flush of zero pglogrepl and the server take the written one for it, which
// would confirm what is not acknowledged. ask makes the server answer with a keepalive at once.
func (s *Stream) SendStatus(end lsn.End, ask bool) error {
	b := s.status[:0]
	b = append(b, 'd')
	b = binary.BigEndian.AppendUint32(b, statusBytes-1)
	b = append(b, 'r')
	for range 3 {
		b = binary.BigEndian.AppendUint64(b, uint64(end))
	}
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMicro()-postgresEpoch))
	if ask {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	return s.write(b)
}

// write sends bytes under a deadline of its own: a server that takes nothing for that long is gone.
func (s *Stream) write(b []byte) error {
	if err := s.wire.conn.SetWriteDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return fmt.Errorf("write to Postgres: %w", err)
	}
	if _, err := s.wire.conn.Write(b); err != nil {
		return fmt.Errorf("write to Postgres: %w", err)
	}
	return nil
}

// Wake makes a Next that waits, or the next one, return at once. Any goroutine may call it.
func (s *Stream) Wake() { s.wire.wake() }

// Received is when the last bytes came. Any goroutine may call it.
func (s *Stream) Received() time.Time { return time.Unix(0, s.received.Load()) }

// PID is the process of the walsender. Any goroutine may call it.
func (s *Stream) PID() uint32 { return s.pid }

// Close ends the stream in order, so that the server has taken our last status when it returns: CopyDone,
// then everything the server still sends is read and dropped, for at most the given time.
func (s *Stream) Close(patience time.Duration) error {
	defer s.wire.conn.Close()
	if err := s.write([]byte{'c', 0, 0, 0, 4}); err != nil {
		return err
	}
	deadline := time.Now().Add(patience)
	for {
		m, ok, err := s.message(deadline)
		if err != nil {
			return err
		}
		if ok && m.kind == 'Z' { // ReadyForQuery
			return s.write([]byte{'X', 0, 0, 0, 4})
		}
		if time.Now().After(deadline) { // also in the middle of a transaction, which the server sends to its end
			return nil
		}
	}
}

// Abort drops the connection without a word to the server.
func (s *Stream) Abort() { _ = s.wire.conn.Close() }

// quote writes an identifier as the replication grammar and publication_names read it.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
