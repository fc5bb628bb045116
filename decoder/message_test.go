package decoder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is known of a message that is too long to be kept.
func TestMessageHead(t *testing.T) {
	t.Parallel()
	const lsn = "\x00\x00\x00\x00\x00\x00\x01\x02"
	for head, want := range map[string]Message{
		"M\x01" + lsn + "prefix\x00\x00\x10\x00\x00content": {Transactional: true, LSN: 0x102, Prefix: []byte("prefix")},
		"M\x00" + lsn + "prefix\x00":                        {LSN: 0x102, Prefix: []byte("prefix")},
		"M\x00" + lsn + "pre":                               {LSN: 0x102, Prefix: []byte("pre")},
		"M\x00" + lsn:                                       {LSN: 0x102, Prefix: []byte{}},
		"M\x00" + lsn[:7]:                                   {},
		"I\x00" + lsn + "prefix\x00":                        {},
		"":                                                  {},
	} {
		if diff := cmp.Diff(want, MessageHead([]byte(head))); diff != "" {
			t.Errorf("%q: %s", head, diff)
		}
	}
}
