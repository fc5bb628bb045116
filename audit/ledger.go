package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"hash/maphash"
	"math"
	"strings"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// print is the fingerprint of an event: SHA-256 over topic, key, id and value, cut. 16 bytes make a chance meeting of
// two different events among 10^9 less likely than 10^-20.
type print [16]byte

// candidate is the rows of one fingerprint, nearly always one. 16 bytes.
type candidate struct {
	order int64  // see Order
	line  uint32 // index of its line, or keyless
	rows  uint16
	seen  uint16 // records, and what the slot is going to send
}

// keyless is the line of events without a key: nothing orders them, and they go to any partition.
const keyless = math.MaxUint32

// line is a key in a topic: where order counts. 32 bytes.
type line struct {
	newest int64 // highest order of an event of the key in the topic
	// The last event of the key in the log that came in its order.
	time    int64
	commit  lsn.Start
	ordinal uint32
	source  uint32
}

// ledger is the rows and what was found of them. It does no I/O.
type ledger struct {
	source uint32 // of our own records
	// An own record of a commit in [from, until) has its row among the candidates, unless the row is gone. Others are
	// younger than the rows when they have a time of at least untilTime (ms).
	from, until lsn.End
	untilTime   int64
	ranks       []rank // by table; nil: rows are not put into order
	replay      *Replay
	young       map[uint32]bool // rows that the slot may still send, where a replay asks
	picked      map[uint32]bool // rows that are replayed although they have a record, where that is of interest

	index map[print]uint32
	rows  []candidate
	lines map[uint64]uint32
	keys  []line

	topics  map[string]bool
	dead    map[print]bool // what is in the dead-letter topic, without its value
	hash    hasher
	earlier bool // the records now come from in front of those before, so order means nothing

	loaded   int64 // rows
	records  int64 // looked at
	vanished int64 // own records of the candidates' time whose row is not there
}

var errAlike = errors.New("more than 65,534 rows are equal in topic, key, id and value")

func newLedger(source uint32) *ledger {
	return &ledger{
		source: source,
		index:  make(map[print]uint32), lines: make(map[uint64]uint32),
		topics: make(map[string]bool), dead: make(map[print]bool),
		young: make(map[uint32]bool), picked: make(map[uint32]bool),
		hash: newHasher(),
	}
}

// add takes a row, as the message that it becomes.
func (l *ledger) add(m *router.Message, table int, is standing) error {
	l.loaded++
	key := l.hash.message(m)
	if i, ok := l.index[key]; ok {
		c := &l.rows[i]
		if is.young {
			l.young[i] = true
		}
		if c.rows == 1<<16-2 {
			return errAlike
		}
		c.rows++
		c.order = min(c.order, is.order)
		return nil
	}
	if !l.topics[m.Topic] {
		l.topics[strings.Clone(m.Topic)] = true
	}
	at := uint32(keyless)
	if m.Key != nil {
		at = l.lineOf(l.hash.line(table, m.Topic, m.Key))
	}
	i := uint32(len(l.rows))
	l.index[key] = i
	if is.young {
		l.young[i] = true
	}
	l.rows = append(l.rows, candidate{order: is.order, line: at, rows: 1})
	return nil
}

func (l *ledger) lineOf(where uint64) uint32 {
	at, ok := l.lines[where]
	if !ok {
		at = uint32(len(l.keys))
		l.lines[where] = at
		l.keys = append(l.keys, line{newest: unordered})
	}
	return at
}

// expect counts a message that is going to come as found, and tells whether its row was loaded.
func (l *ledger) expect(m *router.Message) bool {
	i, ok := l.index[l.hash.message(m)]
	if ok {
		l.rows[i].seen = min(l.rows[i].seen+1, l.rows[i].rows)
	}
	return ok
}

// strike takes a record. It tells what it is.
func (l *ledger) strike(r *kafka.Record) verdict {
	l.records++
	position, known := identity(r)
	i, ok := l.index[l.hash.record(r)]
	if !ok {
		return l.stranger(r, position, known && position.Source == l.source)
	}
	c := &l.rows[i]
	if l.replay == nil {
		l.overtaken(c)
	} else if place, ok := PlaceOf(r); ok && place.Source == l.source && l.replay.covers(place.Commit) {
		l.picked[i] = true
	}
	if c.seen >= c.rows {
		if _, again := header(r, HeaderReplayed); again {
			return replayed
		}
		return duplicated
	}
	c.seen++
	if !known || l.earlier || c.line == keyless || l.keys[c.line].follow(position) {
		return found
	}
	return disordered
}

// overtaken takes note that the topic has the event, and stays as it is.
func (l *ledger) overtaken(c *candidate) {
	if c.line != keyless {
		k := &l.keys[c.line]
		k.newest = max(k.newest, c.order, unordered+1)
	}
}

type verdict byte

const (
	found verdict = iota
	foreign
	younger // than the rows that were loaded
	duplicated
	replayed // once more, on purpose
	disordered
)

// follow tells whether the event may stand behind the last one of its key, and remembers it then. It may not when commit
// record and commit time both say that it is older: positions alone go back when a database is restored, times alone when
// a clock is set.
func (k *line) follow(id lsn.Identity) bool {
	if id.Source == k.source && id.Time <= k.time &&
		(id.Commit < k.commit || id.Commit == k.commit && id.Ordinal < k.ordinal) {
		return false
	}
	k.time, k.commit, k.ordinal, k.source = id.Time, id.Commit, id.Ordinal, id.Source
	return true
}

// stranger takes a record without a row. It may still be a newer event of a key whose row is missing.
func (l *ledger) stranger(r *kafka.Record, position lsn.Identity, own bool) verdict {
	if own && l.until != 0 && !position.Commit.CoveredBy(l.from) && position.Commit.CoveredBy(l.until) {
		l.vanished++
	}
	for table, rank := range l.ranks {
		if r.Key == nil {
			break
		}
		if at, ok := l.lines[l.hash.line(table, r.Topic, r.Key)]; ok {
			l.keys[at].newest = max(l.keys[at].newest, rank.ofRecord(r, position), unordered+1)
		}
	}
	if l.until != 0 && (own && !position.Commit.CoveredBy(l.until) || !own && r.Time >= l.untilTime) {
		return younger
	}
	return foreign
}

// identity reads the identity of a record that stands in its place.
func identity(r *kafka.Record) (lsn.Identity, bool) { return identityIn(r, router.HeaderPosition) }

// PlaceOf is the identity of a record's event, also of one that was replayed.
func PlaceOf(r *kafka.Record) (lsn.Identity, bool) {
	id, ok := identity(r)
	if !ok {
		id, ok = identityIn(r, HeaderReplayed)
	}
	return id, ok
}

func identityIn(r *kafka.Record, name string) (lsn.Identity, bool) {
	text, ok := header(r, name)
	if !ok {
		return lsn.Identity{}, false
	}
	id, err := lsn.ParseIdentity(string(text))
	return id, err == nil
}

// missing is the number of rows without a record.
func (l *ledger) missing() int64 {
	var n int64
	for i := range l.rows {
		n += int64(l.rows[i].rows) - int64(min(l.rows[i].seen, l.rows[i].rows))
	}
	return n
}

// take takes a row that is missing out, and tells whether it is one. newer tells that its key has an event of a higher
// order in the topic.
func (l *ledger) take(m *router.Message) (missing, newer bool) {
	i, ok := l.index[l.hash.message(m)]
	if !ok || l.rows[i].seen >= l.rows[i].rows {
		return false, false
	}
	c := &l.rows[i]
	c.seen++
	return true, c.line != keyless && l.keys[c.line].newest > c.order
}

// bury takes a record of the dead-letter topic.
func (l *ledger) bury(r *kafka.Record) {
	l.records++
	topic, _ := header(r, HeaderTopic)
	l.dead[l.hash.sum(append([]byte{}, topic...), r.Key, eventID(r), part{})] = true
}

// buried tells whether the message is in the dead-letter topic, and is not known to have come back from there.
func (l *ledger) buried(m *router.Message) bool {
	if len(l.dead) == 0 || !l.dead[l.hash.sum([]byte(m.Topic), m.Key, messageID(m), part{})] {
		return false
	}
	i, ok := l.index[l.hash.message(m)]
	return !ok || !l.picked[i]
}

// HeaderTopic is the header of a dead letter with the topic in which it should have been.
const HeaderTopic = "walrelay.topic"

// header is the last header of that name.
func header(r *kafka.Record, name string) ([]byte, bool) {
	for i := len(r.Headers) - 1; i >= 0; i-- {
		if string(r.Headers[i].Name) == name {
			return r.Headers[i].Value, true
		}
	}
	return nil, false
}

// The event's id is the header in front of the others, whatever its name, wherever there is one. Debezium puts headers about
// itself in front of that (extended.headers.enabled, as shipped).
func eventID(r *kafka.Record) []byte {
	for _, h := range r.Headers {
		switch name := string(h.Name); {
		case strings.HasPrefix(name, "__debezium.context."):
		case name == router.HeaderPosition:
			return nil
		default:
			return h.Value
		}
	}
	return nil
}

func messageID(m *router.Message) []byte {
	if len(m.Headers) == 0 || m.Headers[0].Name == router.HeaderPosition {
		return nil
	}
	return m.Headers[0].Value
}

// hasher makes fingerprints.
type hasher struct {
	digest hash.Hash
	seed   maphash.Seed
	buf    []byte
	byID   bool // the value counts only where there is no id
}

func newHasher() hasher { return hasher{digest: sha256.New(), seed: maphash.MakeSeed()} }

func (h *hasher) message(m *router.Message) print {
	id := messageID(m)
	return h.sum([]byte(m.Topic), m.Key, id, part{m.Value, id == nil || !h.byID})
}

func (h *hasher) record(r *kafka.Record) print {
	id := eventID(r)
	return h.sum([]byte(r.Topic), r.Key, id, part{r.Value, id == nil || !h.byID})
}

// part is a part of an event that counts or not.
type part struct {
	bytes  []byte
	counts bool
}

// sum hashes each part behind its length, null different from empty.
func (h *hasher) sum(topic, key, id []byte, value part) print {
	h.digest.Reset()
	h.write(topic)
	h.write(key)
	h.write(id)
	if value.counts {
		h.write(value.bytes)
	}
	h.buf = h.digest.Sum(h.buf[:0])
	return print(h.buf[:len(print{})])
}

func (h *hasher) write(b []byte) {
	n := uint64(len(b)) + 1
	if b == nil {
		n = 0
	}
	h.buf = binary.BigEndian.AppendUint64(h.buf[:0], n)
	h.digest.Write(h.buf)
	h.digest.Write(b)
}

// line hashes a key of a topic, as the rows of one table have it.
func (h *hasher) line(table int, topic string, key []byte) uint64 {
	h.buf = append(append(h.buf[:0], topic...), 0, byte(table))
	h.buf = append(h.buf, key...)
	return maphash.Bytes(h.seed, h.buf)
}
