package kafka

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
)

// coordinator talks to the broker that keeps the transactional id. It is for one goroutine.
type coordinator struct {
	cfg  *Config
	conn *conn
}

const (
	// transactionTimeout is how long the coordinator lets a fence stay open, should we die inside it.
	transactionTimeout = time.Minute
	// coordinatorPause is between two attempts while the coordinator loads, moves or still writes markers.
	coordinatorPause = 50 * time.Millisecond
	coordinatorTries = 200
	transactionKey   = 1 // FindCoordinator's type of key
)

// find connects to the coordinator.
func (c *coordinator) find(ctx context.Context, addrs []string) error {
	if c.conn != nil && !c.conn.stale(time.Now()) {
		return nil
	}
	c.close()
	asking := client{cfg: c.cfg}
	defer asking.close()
	answer, err := asking.call(ctx, addrs, &findcoordinator.Request{Key: c.cfg.TransactionalID, KeyType: transactionKey})
	if err != nil {
		return err
	}
	found := answer.(*findcoordinator.Response)
	if found.ErrorCode != codeNone {
		return brokerError{found.ErrorCode, found.ErrorMessage}
	}
	addr := net.JoinHostPort(found.Host, strconv.Itoa(int(found.Port)))
	c.conn, err = dial(ctx, c.cfg, addr, c.cfg.DialTimeout)
	return err
}

// call sends a request to the coordinator. code takes the error code out of the answer; what heals by itself is tried
// again.
func (c *coordinator) call(ctx context.Context, addrs []string, request protocol.Message, code func(protocol.Message) int16) (protocol.Message, error) {
	var last error
	for range coordinatorTries {
		answer, err := c.try(ctx, addrs, request)
		if err == nil {
			err = codeError(code(answer))
		}
		if err == nil {
			return answer, nil
		}
		broker, told := err.(brokerError)
		if told && !coordinatorHeals(broker.code) {
			return nil, err
		}
		if !told || broker.code != codeConcurrentTransactions {
			c.close()
		}
		last = err
		if !sleep(ctx, coordinatorPause) {
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("transaction coordinator: %w", last)
}

func (c *coordinator) try(ctx context.Context, addrs []string, request protocol.Message) (protocol.Message, error) {
	if err := c.find(ctx, addrs); err != nil {
		return nil, err
	}
	return c.conn.call(request, c.cfg.RequestTimeout)
}

// coordinatorHeals tells whether an error of the coordinator goes away: it loads, it has moved, or it still writes the
// markers of the last transaction.
func coordinatorHeals(code int16) bool {
	return code == codeCoordinatorLoading || code == codeCoordinatorNotAvailable || code == codeNotCoordinator ||
		code == codeConcurrentTransactions
}

func codeError(code int16) error {
	if code == codeNone {
		return nil
	}
	return brokerError{code: code}
}

// initProducerID takes the transactional id over: the epoch rises, and an earlier producer with the id is refused
// wherever our marker stands.
func (c *coordinator) initProducerID(ctx context.Context, addrs []string) (identity, error) {
	answer, err := c.call(ctx, addrs, &initproducerid.Request{
		TransactionalID:      c.cfg.TransactionalID,
		TransactionTimeoutMs: int32(transactionTimeout.Milliseconds()),
		ProducerID:           -1,
		ProducerEpoch:        -1,
	}, func(m protocol.Message) int16 { return m.(*initproducerid.Response).ErrorCode })
	if err != nil {
		return identity{}, err
	}
	given := answer.(*initproducerid.Response)
	return identity{id: given.ProducerID, epoch: given.ProducerEpoch}, nil
}

// fence puts a marker of who into each partition: an empty transaction over them that is aborted. From the marker on
// the leader refuses what an earlier epoch still sends. The coordinator answers before the markers are written, and
// leaves out a partition without leader, so only seeing the own marker proves it. The fence can be repeated.
func (c *coordinator) fence(ctx context.Context, addrs []string, who identity, topic string, partitions []int32) error {
	_, err := c.call(ctx, addrs, &addpartitionstotxn.Request{
		TransactionalID: c.cfg.TransactionalID, ProducerID: who.id, ProducerEpoch: who.epoch,
		Topics: []addpartitionstotxn.RequestTopic{{Name: topic, Partitions: partitions}},
	}, addPartitionsCode)
	if err == nil {
		_, err = c.call(ctx, addrs, &endtxn.Request{
			TransactionalID: c.cfg.TransactionalID, ProducerID: who.id, ProducerEpoch: who.epoch, Committed: false,
		}, func(m protocol.Message) int16 { return m.(*endtxn.Response).ErrorCode })
	}
	broker, told := err.(brokerError)
	switch {
	case err == nil:
		return nil
	case told && (broker.code == codeInvalidProducerEpoch || broker.code == codeProducerFenced || broker.code == codeInvalidMapping):
		return &SessionError{Topic: topic, Partition: -1, Code: broker.code, Reason: broker.message}
	}
	return fmt.Errorf("fence topic %s: %w", topic, err)
}

// addPartitionsCode is the first error of the answer that tells something: one bad partition makes the others say
// OPERATION_NOT_ATTEMPTED.
func addPartitionsCode(m protocol.Message) int16 {
	code := int16(codeNone)
	for _, topic := range m.(*addpartitionstotxn.Response).Results {
		for _, partition := range topic.Results {
			if partition.ErrorCode != codeNone && (code == codeNone || code == codeNotAttempted) {
				code = partition.ErrorCode
			}
		}
	}
	return code
}

func (c *coordinator) close() {
	if c.conn != nil {
		c.conn.close()
		c.conn = nil
	}
}
