package kafka

import (
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// Resume tells what an earlier producer of the same source may have published: after an unclean stop nobody knows
// how far it got. Events of such a transaction are looked up in their topic before they are published again.
//
//	From <= commit record of an uncertain event < To
type Resume struct {
	// Source is whose events are looked for.
	Source uint32
	// From: everything of transactions below it is known to be in Kafka.
	From lsn.End
	// To: nobody can have read a transaction whose commit record starts at or behind it.
	To lsn.End
	// Since is not later than the record time of any uncertain event. Zero: read the topics from their beginning.
	Since time.Time
	// ProducerID is what the earlier producer was known by, -1 when that is not known. A new id does not fence it.
	ProducerID int64
	// ByID: somebody else has published up to here, without our positions. Their records are matched by the event's id
	// and the key, from a minute before the commit of a topic's first event on; a Since of zero is kept.
	ByID bool
	// DeadLetterTopics are where events of this source may stand instead of in their own topic.
	DeadLetterTopics []string
	// Branched: the server's history has left the one that the earlier producer has read, by a failover. What topics have of
	// it may belong to transactions that do not exist any more, so they are looked through whenever their first event comes.
	Branched bool
}

// scanMargin is how much earlier than Resume.Since a scan begins: commit times are not quite in the order of the log.
const scanMargin = 5 * time.Minute

// unfencedDelay is how long a scan waits where an earlier producer cannot be fenced and may still be sending.
const unfencedDelay = 5 * time.Second

// maxPast bounds the events remembered of one topic. Behind it a topic's uncertain events may be published twice.
const maxPast = 1_000_000

func (r *Resume) holds(id lsn.Identity) bool { return r.unsaved(id) && id.Commit.CoveredBy(r.To) }

// unsaved tells whether the event was published without being saved.
func (r *Resume) unsaved(id lsn.Identity) bool {
	return r != nil && id.Source == r.Source && !id.Commit.CoveredBy(r.From)
}

// phantoms are events in Kafka whose transactions do not exist: a failover has lost them, or the server was restored from a
// copy that is older than they are.
type phantoms struct {
	examples []lsn.Identity
	total    int
}

// maxPhantoms bounds the examples.
const maxPhantoms = 100

func (p *phantoms) add(id lsn.Identity) {
	p.total++
	if len(p.examples) < maxPhantoms {
		p.examples = append(p.examples, id)
	}
}

func (p *phantoms) plus(other phantoms) {
	p.total += other.total
	p.examples = append(p.examples, other.examples[:min(len(other.examples), maxPhantoms-len(p.examples))]...)
}

// past is what a topic already has of the uncertain events.
type past struct {
	found    map[lsn.Identity]uint64 // the hash of the event's id
	phantoms phantoms                // events that nobody can have read from this server
	// outsiders are the records of somebody else; nil unless Resume.ByID.
	outsiders map[outsider]struct{}
	// buried is the same for all topics.
	buried buried
	// closed tells that an uncertain event was published: everything behind it in its partition goes out too, or a
	// record that was removed from the log (compaction, retention) would end up behind its successor. The last one
	// is for records without key.
	closed []bool
}

var idSeed = maphash.MakeSeed()

// idHash hashes the header in front of the others, which is the event's id wherever there is one. An identity counts
// only together with it.
func idHash(value []byte) uint64 { return maphash.Bytes(idSeed, value) }

func messageHash(m *router.Message) uint64 {
	if len(m.Headers) < 2 { // the position alone
		return idHash(nil)
	}
	return idHash(m.Headers[0].Value)
}

// suppress tells whether the message is in the topic already.
func (t *topic) suppress(m *router.Message) bool {
	lane := len(t.partitions)
	switch {
	case m.Partition >= 0 && int(m.Partition) < lane:
		lane = int(m.Partition)
	case m.Key != nil:
		lane = int(partitionOf(m.Key, lane))
	}
	for len(t.past.closed) <= lane {
		t.past.closed = append(t.past.closed, false)
	}
	there := t.past.has(m) // also where it is published again: it is no phantom
	t.past.closed[lane] = t.past.closed[lane] || !there
	return !t.past.closed[lane]
}

// has tells whether the event is there, and forgets it: it comes once.
func (p *past) has(m *router.Message) bool {
	if hash, ok := p.found[m.Identity]; ok && hash == messageHash(m) {
		delete(p.found, m.Identity)
		return true
	}
	if p.buried.has(m) {
		return true
	}
	if len(p.outsiders) == 0 {
		return false
	}
	one, ok := outsiderOf(m)
	if ok {
		_, ok = p.outsiders[one]
		delete(p.outsiders, one)
	}
	return ok
}

// Resumed says that the stream has passed Resume.To. It forgets what was found, and returns up to the given number of
// events that are in Kafka and that the stream did not bring again: their transactions do not exist any more. total is
// their number. With Resume.Branched more may be found later, which the next call returns.
func (p *Producer) Resumed(examples int) (lost []lsn.Identity, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resumed = true
	for _, t := range p.topics {
		if t.past != nil {
			p.forget(t.past)
			t.past = nil
		}
	}
	if p.resume != nil && !p.resume.Branched {
		p.resume = nil
	}
	lost, total = p.phantoms.examples[:min(examples, len(p.phantoms.examples))], p.phantoms.total
	p.phantoms = phantoms{}
	return lost, total
}

// forget takes note of what the stream has not brought again.
func (p *Producer) forget(past *past) {
	p.phantoms.plus(past.phantoms)
	for id := range past.found {
		p.phantoms.add(id)
	}
}

// runResume fences and scans the topics that wait for it, one after the other.
func (p *Producer) runResume(ctx context.Context) error {
	control := &coordinator{cfg: &p.cfg}
	defer control.close()
	var dead buried // nil: not looked for yet
	for attempt := 0; ; {
		t := p.nextResuming()
		if t == nil {
			select {
			case <-ctx.Done():
				return nil
			case <-p.resuming:
			}
			continue
		}
		found, upTo, err := p.lookBack(ctx, control, t, &dead)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			p.lookedBack(t, found, upTo)
			attempt = 0
			continue
		case isSessionError(err):
			return err
		}
		p.mu.Lock()
		p.session.failing.note(time.Now(), err)
		p.mu.Unlock()
		p.notify()
		rest := backoff(attempt)
		var forbidden *ForbiddenError
		if errors.As(err, &forbidden) { // it waits for a person
			rest = p.cfg.HaltRetry
		}
		if !sleep(ctx, rest) {
			return nil
		}
		attempt++
	}
}

// nextResuming is a topic that waits for its past, nil if there is none.
func (p *Producer) nextResuming() *topic {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.topics {
		if t.looking {
			return t
		}
	}
	return nil
}

// lookBack finds what of the uncertain events the topic has: it puts a marker of our own into each partition, behind
// which nothing of an earlier producer can come, and reads up to it. Partitions below t.looked were done before; upTo is
// the end of those that are now. What is in the dead-letter topics is looked up once, into dead.
func (p *Producer) lookBack(ctx context.Context, control *coordinator, t *topic, dead *buried) (found *past, upTo int, err error) {
	p.mu.Lock()
	who, resume := p.session.identity, p.resume
	upTo = len(t.partitions)
	partitions := make([]int32, 0, upTo-t.looked)
	for i := t.looked; i < upTo; i++ {
		partitions = append(partitions, int32(i))
	}
	p.mu.Unlock()
	if resume == nil || len(partitions) == 0 { // the stream has passed the uncertain events meanwhile
		return nil, upTo, nil
	}
	began := time.Now()
	if *dead == nil && len(resume.DeadLetterTopics) > 0 {
		exhumed, err := p.exhume(ctx, control, who, resume)
		if err != nil {
			return nil, 0, err
		}
		*dead = exhumed
	}
	if err := control.fence(ctx, p.addresses(), who, t.name, partitions); err != nil {
		return nil, 0, err
	}
	s := scan{p: p, topic: t, who: who, resume: resume, found: map[lsn.Identity]uint64{}}
	s.outsiders.limit = max(2, maxPast/len(partitions))
	defer s.close()
	for _, id := range partitions {
		err := s.partition(ctx, id, func() error {
			return control.fence(ctx, p.addresses(), who, t.name, []int32{id})
		})
		if s.forbidden && p.cfg.ResumePolicy == ResumeRequire {
			return nil, 0, &ForbiddenError{t.name}
		}
		if s.forbidden {
			p.log.Warn("no right to read the topic: events of the last unclean stop may be published twice",
				zap.String("topic", t.name))
			return nil, upTo, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
	p.log.Info("topic looked through after an unclean stop", zap.String("topic", t.name),
		zap.Int("found", len(s.found)), zap.Int("of_others", len(s.outsiders.found)), zap.Int("dead_letters", len(*dead)), zap.Int64("records", s.records),
		zap.Duration("took", time.Since(began)))
	return &past{found: s.found, phantoms: s.phantoms, outsiders: s.outsiders.found, buried: *dead}, upTo, nil
}

// lookedBack opens the topic, whose partitions up to a number are looked through.
func (p *Producer) lookedBack(t *topic, found *past, upTo int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.looked = upTo
	p.session.failing = failure{}
	switch {
	case p.resume == nil || found == nil:
	case p.resumed:
		p.forget(found)
	case t.past == nil:
		t.past = found
	default: // new partitions
		maps.Copy(t.past.found, found.found)
		maps.Copy(t.past.outsiders, found.outsiders)
		t.past.phantoms.plus(found.phantoms)
	}
	t.looking = t.looked < len(t.partitions) // it has got more meanwhile
	t.admitted = !t.looking
	p.reopen(t)
	p.notify()
}

// wantPast queues a topic for runResume.
func (p *Producer) wantPast(t *topic) {
	t.looking = true
	select {
	case p.resuming <- struct{}{}:
	default:
	}
}
