package relay

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/walrelay/walrelay/decoder"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// oversize meets a frame that is longer than max_event_bytes. Only its beginning is here.
func (f *flow) oversize(ctx context.Context, frame replication.Frame) error {
	var source *route
	var err error
	switch decoder.Kind(frame.Data[0]) {
	case decoder.KindInsert:
		f.identity.Ordinal++
		source, err = f.oversizeRow(ctx, frame)
	case decoder.KindMessage:
		source = f.oversizeMessage(frame)
	default:
		f.identity.Ordinal++
	}
	if err != nil || source == nil || f.resume.has(f.identity.Ordinal) {
		return err
	}
	f.message.Reset()
	f.message.Time = f.identity.Time / 1000
	err = f.poisoned(ctx, source, &router.PoisonError{Reason: fmt.Sprintf(
		"it has %d bytes on the wire, more than postgres.max_event_bytes", frame.Size)})
	if err == nil {
		f.resume.done = f.identity.Ordinal
	}
	return err
}

// oversizeRow is nil for the row of an ignored table.
func (f *flow) oversizeRow(ctx context.Context, frame replication.Frame) (*route, error) {
	relation := f.decoder.Described(binary.BigEndian.Uint32(frame.Data[1:]))
	if relation == nil {
		return nil, &StopError{Code: fault.Log, Reason: "the log cannot be decoded", Err: errors.New("an oversize row of a table that was not described")}
	}
	return f.routeOf(ctx, relation)
}

// oversizeMessage is nil for one that is no event of ours.
func (f *flow) oversizeMessage(frame replication.Frame) *route {
	m := decoder.MessageHead(frame.Data)
	if m.Transactional {
		f.identity.Ordinal++
	}
	switch {
	case f.messages == nil || string(m.Prefix) != f.messages.prefix:
		return nil
	case !m.Transactional:
		f.ignore(&m)
		return nil
	}
	return &f.messages.route
}
