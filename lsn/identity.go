package lsn

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Identity is the whole identity of one event. An id column is unique only inside one table and one
// history, and a position only inside one server's history; all four parts together are equal only for
// the same event.
type Identity struct {
	// Source is the short hash of the database that wrote the event and of the publication that carried it, see SourceOf.
	Source uint32
	// Commit is the start of the transaction's commit record.
	Commit Start
	// Time is the commit time in microseconds since 1970.
	Time int64
	// Ordinal counts, from 1, every row and message that Postgres sends of the transaction through the publication, before
	// any filter of ours.
	Ordinal uint32
}

// SourceOf hashes a system identifier (IDENTIFY_SYSTEM), a database's oid and the name of a publication. Two publications
// may carry different rows of one transaction, as those of relays that share an outbox do, and each counts its own.
func SourceOf(systemID string, database uint32, publication string) uint32 {
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%d/%s", systemID, database, publication) // never fails
	return h.Sum32()
}

// Append appends the text of the identity as the header walrelay.lsn carries it:
// source in hexadecimal, commit record, commit time, ordinal, joined by colons.
func (id Identity) Append(b []byte) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, digits[id.Source>>shift&15])
	}
	b = append(b, ':')
	b = appendText(b, uint64(id.Commit))
	b = append(b, ':')
	b = strconv.AppendInt(b, id.Time, 10)
	b = append(b, ':')
	return strconv.AppendUint(b, uint64(id.Ordinal), 10)
}

// String is the text of Append.
func (id Identity) String() string { return string(id.Append(nil)) }

const longestIdentity = len("ffffffff:FFFFFFFF/FFFFFFFF:-9223372036854775808:4294967295")

// ParseIdentity reads the text of Append, and refuses every other spelling of the same: a header that was not
// written by Append must not count as an event of ours.
func ParseIdentity(text string) (Identity, error) {
	if len(text) > longestIdentity {
		return Identity{}, fmt.Errorf("event identity of %d bytes: it has at most %d", len(text), longestIdentity)
	}
	parts := strings.Split(text, ":")
	if len(parts) != 4 {
		return Identity{}, fmt.Errorf("event identity %q: want source:commit:time:ordinal", text)
	}
	source, errS := strconv.ParseUint(parts[0], 16, 32)
	commit, errC := parse(parts[1])
	micros, errT := strconv.ParseInt(parts[2], 10, 64)
	ordinal, errO := strconv.ParseUint(parts[3], 10, 32)
	for _, err := range []error{errS, errC, errT, errO} {
		if err != nil {
			return Identity{}, fmt.Errorf("event identity %q: %w", text, err)
		}
	}
	id := Identity{Source: uint32(source), Commit: Start(commit), Time: micros, Ordinal: uint32(ordinal)}
	if id.String() != text {
		return Identity{}, fmt.Errorf("event identity %q: it is written %v", text, id)
	}
	return id, nil
}
