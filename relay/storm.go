package relay

import "time"

// A Postgres that shuts down asks for a status again and again, thousands of times a second, until everything
// it has written is confirmed. We confirm no more than what is saved, and a server that shuts down takes no
// save any more; so the only way to let it go is to end the stream.
const (
	stormSize = 20
	stormSpan = time.Second
)

type storm struct {
	since time.Time
	asked int
}

// add counts one wish for a status and tells whether the server is shutting down.
func (s *storm) add(now time.Time) bool {
	if now.Sub(s.since) > stormSpan {
		s.since, s.asked = now, 0
	}
	s.asked++
	return s.asked > stormSize
}
