package kafka

import (
	"slices"
	"time"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// Withdrawn is a record that was appended and that the brokers refuse.
type Withdrawn struct {
	// Message owns its bytes. It names the partition only where the key does not lead there.
	Message router.Message
	// Tx is the transaction it was appended for. Nothing of it is acknowledged: that is the caller's now.
	Tx uint64
}

// Withdraw takes the record back that halts a partition (KindRecordTooLarge, KindRecordRefused), so that the partition
// goes on behind it. It reports false when the partition is not halted, or an attempt with the record is under way at
// this moment; Notify tells when to ask again.
func (p *Producer) Withdraw(topic string, partition int32) (Withdrawn, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.topics[topic]
	if t == nil || partition < 0 || int(partition) >= len(t.partitions) {
		return Withdrawn{}, false
	}
	pt := t.partitions[partition]
	if pt.halt == nil || pt.place == flying || pt.head == nil || pt.head.records != 1 || pt.head.uncertain {
		return Withdrawn{}, false
	}
	b := pt.head
	taken := Withdrawn{Message: b.firstRecord(), Tx: b.runs[0].Tx}
	taken.Message.Topic = topic
	if key := taken.Message.Key; key == nil || partitionOf(key, len(t.partitions)) != partition {
		taken.Message.Partition = partition
	}
	p.unschedule(pt)
	pt.pop()
	t.records--
	p.records--
	p.bytes -= b.size()
	p.release(b)
	pt.halt = nil
	pt.failures, pt.failing, pt.pauseUntil = 0, failure{}, time.Time{}
	p.schedule(pt, time.Now())
	p.finishGrowth(t)
	p.notify()
	return taken, true
}

// WithdrawRefused withdraws the record that is the gravest trouble now, and tells why the brokers refuse it; nil where
// there is no such record, or it cannot be withdrawn yet.
func (p *Producer) WithdrawRefused() (Withdrawn, error) {
	trouble, ok := p.Trouble()
	if !ok || !trouble.OneRecord() {
		return Withdrawn{}, nil
	}
	taken, ok := p.Withdraw(trouble.Topic, trouble.Partition)
	if !ok {
		return Withdrawn{}, nil
	}
	return taken, trouble.Err
}

// firstRecord reads the first record of a batch, without topic and partition.
func (b *batch) firstRecord() router.Message {
	record := reader{b: slices.Concat(b.plain.parts...)[batchOverhead:]}
	record.varint() // length
	record.skip(1)  // attributes
	record.varint() // time: the batch's first
	record.varint() // offset
	m := router.Message{Partition: -1, Time: b.first}
	m.Key, m.Value = record.field(), record.field()
	for range record.varint() {
		m.Headers = append(m.Headers, router.Header{Name: string(record.field()), Value: record.field()})
	}
	m.Identity, _ = identityOf(m.Headers)
	return m
}

// identityOf reads the position header.
func identityOf(headers []router.Header) (lsn.Identity, bool) {
	for i := range headers {
		if headers[i].Name == router.HeaderPosition {
			id, err := lsn.ParseIdentity(string(headers[i].Value))
			return id, err == nil
		}
	}
	return lsn.Identity{}, false
}
