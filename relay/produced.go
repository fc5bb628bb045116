package relay

import (
	"sync"

	"github.com/walrelay/walrelay/kafka"
)

// produced adds up the figures of one producer after the other: each run has its own.
type produced struct {
	mu       sync.Mutex
	ended    kafka.Stats
	current  *kafka.Producer
	sessions uint64
}

// producerStats are figures of all producers of this process.
type producerStats struct {
	kafka.Stats
	// Sessions counts the producers.
	Sessions uint64
}

// begin makes a producer the current one.
func (p *produced) begin(producer *kafka.Producer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current != nil {
		p.ended = p.ended.Plus(p.current.Stats())
	}
	p.current = producer
	p.sessions++
}

// stats is the sum.
func (p *produced) stats() producerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := producerStats{Stats: p.ended, Sessions: p.sessions}
	if p.current != nil {
		sum.Stats = p.ended.Plus(p.current.Stats())
	}
	return sum
}
