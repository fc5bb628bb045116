package relay

import (
	"fmt"
	"time"
)

// A connection may be silent because there is nothing to say: a server whose clients talk to it has no reason to. It may be
// because the server decodes a huge transaction of others, for minutes. Or it is dead, behind a router that forgot it, and
// nothing would ever come again. So a silent server is asked, and a connection that stays silent is given up,
// unless Postgres says over another one that its walsender is at work: cutting that would make it begin anew, for ever.

const (
	// leastSilence and longestSilence bound how long a connection may stay silent though it was asked. Within them it is
	// twice the walsender's own patience, and doubles while nothing but silence comes.
	leastSilence   = 2 * time.Minute
	longestSilence = time.Hour
	// seenWithin is how long ago the monitor must have seen the walsender: it looks three times as often.
	seenWithin = 3 * monitorInterval
	// longestPatience bounds wal_sender_timeout.
	longestPatience = time.Hour
)

// silence judges how long a connection may say nothing; the zero value, for ever. It belongs to the reader.
type silence struct {
	least, limit time.Duration
	since        time.Time // nobody has listened before
}

func newSilence(walSenderTimeout time.Duration) silence {
	least := max(leastSilence, 2*walSenderTimeout)
	return silence{least: least, limit: least}
}

// ends says that the server is heard.
func (s *silence) ends() { s.limit = s.least }

// listening says that from now on somebody listens.
func (s *silence) listening(now time.Time) { s.since = now }

// lasts is how long nothing was heard; received is when the last bytes came.
func (s *silence) lasts(now, received time.Time) time.Duration {
	if received.Before(s.since) {
		received = s.since
	}
	return now.Sub(received)
}

// asks tells whether the server is to be asked for a word.
func (s *silence) asks(now, received time.Time) bool {
	return s.limit > 0 && s.lasts(now, received) > s.limit/4
}

// over is the error for a connection that is dead. seen is when its walsender was last seen at work.
func (s *silence) over(now, received, seen time.Time) error {
	lasted := s.lasts(now, received)
	if s.limit == 0 || lasted <= s.limit || now.Sub(seen) <= seenWithin {
		return nil
	}
	s.limit = min(2*s.limit, longestSilence)
	return fmt.Errorf("nothing was heard from Postgres for %v, although it was asked", lasted.Round(time.Second))
}

// patience is the wal_sender_timeout of our sessions. Older servers do not look at what we send while they decode a huge
// transaction, and end the connection for it; the next one would come no further.
type patience struct {
	timeout time.Duration
	ends    int // connections in a row that were ended by it
}

// ended takes note of the end of a connection, how long it lasted, and whether anything was read on it.
func (p *patience) ended(lasted time.Duration, progress bool) {
	if progress || lasted < p.timeout*9/10 {
		p.ends = 0
		return
	}
	if p.ends++; p.ends >= 2 {
		p.timeout, p.ends = min(4*p.timeout, longestPatience), 0
	}
}
