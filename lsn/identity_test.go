package lsn_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/lsn"
)

var identities = []struct {
	identity lsn.Identity
	text     string
}{
	{lsn.Identity{}, "00000000:0/0:0:0"},
	{
		lsn.Identity{Source: 0x0a1b2c3d, Commit: 0x16_B374D848, Time: 1_764_000_000_123_456, Ordinal: 7},
		"0a1b2c3d:16/B374D848:1764000000123456:7",
	},
	{ // a commit time before 1970 can be set by a replication origin
		lsn.Identity{Source: 1<<32 - 1, Commit: 1<<64 - 1, Time: -1 << 63, Ordinal: 1<<32 - 1},
		"ffffffff:FFFFFFFF/FFFFFFFF:-9223372036854775808:4294967295",
	},
}

func TestIdentityText(t *testing.T) {
	t.Parallel()
	for _, test := range identities {
		if got := test.identity.String(); got != test.text {
			t.Errorf("%+v is %s, want %s", test.identity, got, test.text)
		}
		if got := string(test.identity.Append([]byte("before "))); got != "before "+test.text {
			t.Errorf("appended: %s", got)
		}
		if got, err := lsn.ParseIdentity(test.text); err != nil || got != test.identity {
			t.Errorf("%s is %+v, %v", test.text, got, err)
		}
	}
}

// Only what Append writes is an identity: nothing else may suppress an event.
func TestParseIdentityRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ":::", "0a1b2c3d", "0a1b2c3d:0/1:1", "0a1b2c3d:0/1:1:1:1", "0a1b2c3d:0/1:1:1 ", "a1b2c3d:0/1:1:1",
		"00a1b2c3d:0/1:1:1", "0a1b2c3g:0/1:1:1", "+a1b2c3d:0/1:1:1", "0a1b2c3d:1:1:1", "0a1b2c3d:0/1:x:1",
		"0a1b2c3d:0/1:9223372036854775808:1", "0a1b2c3d:0/1:1:-1", "0a1b2c3d:0/1:1:4294967296",
		// readable, but not as Append writes them
		"0A1B2C3D:0/1:1:1", "0a1b2c3d:0/a:1:1", "0a1b2c3d:00/1:1:1", "0a1b2c3d:0/1:+1:1", "0a1b2c3d:0/1:1:01",
		"0a1b2c3d:0/1:-0:1", "0a1b2c3d:0/1:1:" + strings.Repeat("1", 1<<20),
	} {
		if got, err := lsn.ParseIdentity(text); err == nil || got != (lsn.Identity{}) || len(err.Error()) > 200 {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
}

// The hash stands in every header in Kafka: another function would make all old events foreign. It is FNV-1a, 32 bits,
// of "systemID/database/publication".
func TestSourceOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		systemID    string
		database    uint32
		publication string
		want        uint32
	}{
		{"7391645732190445063", 16384, "walrelay_shop", 0xBD507E24},
		{"7391645732190445063", 16384, "walrelay_half", 0xB0596B41},
		{"7391645732190445063", 16385, "walrelay_shop", 0xEF460EEB},
		{"7391645732190445064", 16384, "walrelay_shop", 0xEBE767A9},
		{"", 0, "", 0x9D304DDF},
	} {
		if got := lsn.SourceOf(test.systemID, test.database, test.publication); got != test.want {
			t.Errorf("%q, %d, %q: %08x, want %08x", test.systemID, test.database, test.publication, got, test.want)
		}
	}
}

func TestIdentityComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := lsn.Identity{
			Source: rapid.Uint32().Draw(t, "source"), Commit: lsn.Start(rapid.Uint64().Draw(t, "commit")),
			Time: rapid.Int64().Draw(t, "time"), Ordinal: rapid.Uint32().Draw(t, "ordinal"),
		}
		if got, err := lsn.ParseIdentity(id.String()); err != nil || got != id {
			t.Fatalf("%+v is %s is %+v, %v", id, id, got, err)
		}
	})
}

// The header goes on every event.
func TestAppendDoesNotAllocate(t *testing.T) {
	b := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(100, func() { b = identities[2].identity.Append(b[:0]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// What is accepted is exactly what Append writes.
func FuzzParseIdentity(f *testing.F) {
	for _, test := range identities {
		f.Add(test.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := lsn.ParseIdentity(text); err == nil && id.String() != text {
			t.Fatalf("%q is %+v, which is %s", text, id, id)
		}
	})
}

func BenchmarkIdentityAppend(b *testing.B) {
	b.ReportAllocs()
	text := make([]byte, 0, 64)
	for b.Loop() {
		text = identities[1].identity.Append(text[:0])
	}
}

func BenchmarkParseIdentity(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lsn.ParseIdentity(identities[1].text); err != nil {
			b.Fatal(err)
		}
	}
}
