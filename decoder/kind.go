package decoder

import "fmt"

// Kind is the type byte that every pgoutput message begins with.
type Kind byte

// The messages of protocol version 1.
const (
	KindBegin    Kind = 'B'
	KindCommit   Kind = 'C'
	KindRelation Kind = 'R'
	KindInsert   Kind = 'I'
	KindUpdate   Kind = 'U'
	KindDelete   Kind = 'D'
	KindTruncate Kind = 'T'
	KindMessage  Kind = 'M'
	KindType     Kind = 'Y'
	KindOrigin   Kind = 'O'
)

// String is the name that the Postgres manual gives to the message, in lower case.
func (k Kind) String() string {
	switch k {
	case KindBegin:
		return "begin"
	case KindCommit:
		return "commit"
	case KindRelation:
		return "relation"
	case KindInsert:
		return "insert"
	case KindUpdate:
		return "update"
	case KindDelete:
		return "delete"
	case KindTruncate:
		return "truncate"
	case KindMessage:
		return "message"
	case KindType:
		return "type"
	case KindOrigin:
		return "origin"
	}
	return fmt.Sprintf("%q", byte(k))
}
