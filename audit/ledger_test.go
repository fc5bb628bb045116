package audit

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

const ours = 0xabcd

// happening is an event in short: as a row, and as a record with a place in the log of Postgres.
type happening struct {
	topic, key, id, value string
	commit, time          int
	source                uint32 // 0: no position
}

func (h happening) message() *router.Message {
	m := &router.Message{Topic: h.topic, Key: bytesOf(h.key), Value: bytesOf(h.value)}
	m.Headers = []router.Header{{Name: "id", Value: bytesOf(h.id)}, {Name: router.HeaderPosition, Value: []byte("0")}}
	return m
}

func (h happening) record() *kafka.Record {
	r := &kafka.Record{Topic: h.topic, Key: bytesOf(h.key), Value: bytesOf(h.value), Time: int64(h.time) / 1000}
	r.Headers = []kafka.RecordHeader{{Name: []byte("id"), Value: bytesOf(h.id)}}
	if h.source != 0 {
		id := lsn.Identity{Source: h.source, Commit: lsn.Start(h.commit), Time: int64(h.time), Ordinal: 1}
		r.Headers = append(r.Headers, kafka.RecordHeader{Name: []byte(router.HeaderPosition), Value: id.Append(nil)})
	}
	return r
}

func headerOf(name, value string) kafka.RecordHeader {
	return kafka.RecordHeader{Name: []byte(name), Value: []byte(value)}
}

// bytesOf gives a field; null is the field that the text null stands for.
func bytesOf(s string) []byte {
	if s == "null" {
		return nil
	}
	return []byte(s)
}

// parse reads "topic/key/id=value@commit:time", where @ and what follows may be absent, and a ! is another source.
func parse(t *testing.T, text string) happening {
	t.Helper()
	var h happening
	h.source = ours
	var place string
	for i, part := range []*string{&h.topic, &h.key, &h.id, &h.value, &place} {
		end := slices.IndexFunc([]byte(text), func(b byte) bool { return b == "//=@ "[i] })
		if end < 0 {
			end = len(text)
		}
		*part, text = text[:end], text[min(end+1, len(text)):]
	}
	if place == "" {
		h.source = 0
		return h
	}
	if place[0] == '!' {
		h.source, place = 0x1234, place[1:]
	}
	if _, err := fmt.Sscanf(place, "%d:%d", &h.commit, &h.time); err != nil {
		t.Fatalf("%q: %v", place, err)
	}
	return h
}

func TestLedger(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		rows    []string
		records []string
		want    []verdict
		missing int64
	}{
		{"found", []string{"t/k/1=v"}, []string{"t/k/1=v@10:10"}, []verdict{found}, 0},
		{"found without a position", []string{"t/k/1=v"}, []string{"t/k/1=v"}, []verdict{found}, 0},
		{"missing", []string{"t/k/1=v", "t/k/2=v"}, []string{"t/k/1=v@10:10"}, []verdict{found}, 1},
		{"other value, id, key, topic", []string{"t/k/1=v"}, []string{"t/k/1=w@1:1", "t/k/2=v@2:2", "t/l/1=v@3:3", "u/k/1=v@4:4"},
			[]verdict{foreign, foreign, foreign, foreign}, 1},
		{"null is not empty", []string{"t/null/1=v", "t//2=v", "t/k/null=v", "t/k/4=null"},
			[]string{"t//1=v@1:1", "t/null/2=v@2:2", "t/k/=v@3:3", "t/k/4=@4:4"}, []verdict{foreign, foreign, foreign, foreign}, 4},
		{"parts do not run into each other", []string{"t/ab/c=d"}, []string{"t/a/bc=d@1:1"}, []verdict{foreign}, 1},
		{"twice", []string{"t/k/1=v"}, []string{"t/k/1=v@1:1", "t/k/1=v@1:1", "t/k/1=v@2:2"}, []verdict{found, duplicated, duplicated}, 0},
		{"two equal rows", []string{"t/k/1=v", "t/k/1=v"}, []string{"t/k/1=v@1:1", "t/k/1=v@2:2", "t/k/1=v@3:3"}, []verdict{found, found, duplicated}, 0},
		{"one of two equal rows", []string{"t/k/1=v", "t/k/1=v"}, []string{"t/k/1=v@1:1"}, []verdict{found}, 1},
		{"out of order", []string{"t/k/1=v", "t/k/2=v"}, []string{"t/k/2=v@20:20", "t/k/1=v@10:10"}, []verdict{found, disordered}, 0},
		{"order counts for a key alone", []string{"t/k/1=v", "t/l/2=v"}, []string{"t/l/2=v@20:20", "t/k/1=v@10:10"}, []verdict{found, found}, 0},
		{"and for a topic alone", []string{"t/k/1=v", "u/k/2=v"}, []string{"u/k/2=v@20:20", "t/k/1=v@10:10"}, []verdict{found, found}, 0},
		{"a duplicate is not out of order", []string{"t/k/1=v", "t/k/2=v"}, []string{"t/k/1=v@1:1", "t/k/2=v@2:2", "t/k/1=v@1:1"},
			[]verdict{found, found, duplicated}, 0},
		{"a restored database begins at lower positions", []string{"t/k/1=v", "t/k/2=v"}, []string{"t/k/2=v@20:20", "t/k/1=v@10:30"}, []verdict{found, found}, 0},
		{"nor have events without a key", []string{"t/null/1=v", "t/null/2=v"}, []string{"t/null/2=v@20:20", "t/null/1=v@10:10"}, []verdict{found, found}, 0},
		{"sources have no order among them", []string{"t/k/1=v", "t/k/2=v"}, []string{"t/k/2=v@!20:20", "t/k/1=v@10:10"}, []verdict{found, found}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(ours)
			for _, row := range test.rows {
				if err := l.add(parse(t, row).message(), 0, standing{order: unordered}); err != nil {
					t.Fatal(err)
				}
			}
			var got []verdict
			for _, record := range test.records {
				got = append(got, l.strike(parse(t, record).record()))
			}
			if diff := cmp.Diff(test.want, got); diff != "" || l.missing() != test.missing {
				t.Errorf("%d missing, want %d; verdicts (-want +got):\n%s", l.missing(), test.missing, diff)
			}
		})
	}
}

// Debezium's records have headers about itself in front of the id.
func TestLedgerKnowsDebezium(t *testing.T) {
	t.Parallel()
	l := newLedger(ours)
	h := parse(t, "t/k/1=v")
	if err := l.add(h.message(), 0, standing{order: unordered}); err != nil {
		t.Fatal(err)
	}
	record := h.record()
	record.Headers = append([]kafka.RecordHeader{headerOf("__debezium.context.connectorLogicalName", "shop"),
		headerOf("__debezium.context.taskId", "0")}, record.Headers...)
	if got := l.strike(record); got != found || l.missing() != 0 {
		t.Errorf("verdict %d, %d missing", got, l.missing())
	}
}

// What the slot is going to send is not missing, and stays one row when it is in Kafka as well.
func TestLedgerExpects(t *testing.T) {
	t.Parallel()
	l := newLedger(ours)
	for _, row := range []string{"t/k/1=v", "t/k/2=v", "t/k/2=v"} {
		if err := l.add(parse(t, row).message(), 0, standing{order: unordered}); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []string{"t/k/1=v", "t/k/1=v", "t/k/2=v", "t/k/3=v"} {
		l.expect(parse(t, row).message())
	}
	l.strike(parse(t, "t/k/1=v@1:1").record())
	if l.missing() != 1 {
		t.Errorf("%d missing, want one of the two equal rows", l.missing())
	}
}

// Records of deleted rows show by their position; what is younger than the rows is not judged.
func TestLedgerVanished(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		record   string
		want     verdict
		vanished int64
	}{
		{"t/k/9=v@99:99", foreign, 0}, // before the horizon
		{"t/k/9=v@100:100", foreign, 1},
		{"t/k/9=v@199:199", foreign, 1},
		{"t/k/9=v@200:200", younger, 0},
		{"t/k/9=v@!150:150", foreign, 0}, // somebody else's
		{"t/k/9=v@!150:300000", younger, 0},
	} {
		l := newLedger(ours)
		l.from, l.until, l.untilTime = 100, 200, 200
		if err := l.add(parse(t, "t/k/1=v").message(), 0, standing{order: unordered}); err != nil {
			t.Fatal(err)
		}
		if got := l.strike(parse(t, test.record).record()); got != test.want || l.vanished != test.vanished {
			t.Errorf("%s: verdict %d, %d vanished; want %d, %d", test.record, got, l.vanished, test.want, test.vanished)
		}
	}
}

// A missing row is stale when its key has something newer in the topic: a row, or a record of a row that is gone.
func TestLedgerStale(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		by      rankBy
		records []string
		want    bool // of the row with id 5, created at 5
	}{
		{"nothing there", byNumber, nil, false},
		{"an older row", byNumber, []string{"t/k/3=v@3:3"}, false},
		{"a newer row", byNumber, []string{"t/k/7=v@7:7"}, true},
		{"a newer row of another key", byNumber, []string{"t/l/8=v@8:8"}, false},
		{"an older one whose row is gone", byNumber, []string{"t/k/2=v@9:9"}, false},
		{"a newer one whose row is gone", byNumber, []string{"t/k/9=v@1:1"}, true},
		{"a newer one by time", byCreated, []string{"t/k/x=v@9:9"}, true},
		{"an older one by time", byCreated, []string{"t/k/x=v@4:4"}, false},
		{"no order: whatever is there may be newer", byNothing, []string{"t/k/3=v@3:3"}, true},
		{"no order: a stranger too", byNothing, []string{"t/k/x=v"}, true},
		{"no order, nothing there", byNothing, nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(ours)
			l.ranks = []rank{{by: test.by}}
			for _, row := range []string{"t/k/3=v", "t/k/5=v", "t/k/7=v", "t/l/8=v"} {
				h := parse(t, row)
				order, err := strconv.ParseInt(h.id, 10, 64)
				if test.by == byNothing {
					order = unordered
				}
				if err != nil || l.add(h.message(), 0, standing{order: order}) != nil {
					t.Fatal(err)
				}
			}
			for _, record := range test.records {
				l.strike(parse(t, record).record())
			}
			missing, stale := l.take(parse(t, "t/k/5=v").message())
			if !missing || stale != test.want {
				t.Errorf("missing %v, stale %v; want true, %v", missing, stale, test.want)
			}
			if again, _ := l.take(parse(t, "t/k/5=v").message()); again {
				t.Error("it is missing still")
			}
		})
	}
}

// The ledger against the plainest model: lists of everything.
func TestLedgerModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.Custom(func(t *rapid.T) happening {
			pick := func(name string, words ...string) string { return rapid.SampledFrom(words).Draw(t, name) }
			h := happening{topic: pick("topic", "a", "b"), key: pick("key", "", "k", "l", "null"), id: pick("id", "1", "2", "null"),
				value: pick("value", "", "v", "null"), commit: rapid.IntRange(1, 9).Draw(t, "commit"), source: ours}
			h.time = h.commit
			return h
		})
		rows := rapid.SliceOfN(draw, 0, 12).Draw(t, "rows")
		records := rapid.SliceOfN(draw, 0, 20).Draw(t, "records")
		l := newLedger(ours)
		waiting := map[happening]int{}
		for _, h := range rows {
			if err := l.add(h.message(), 0, standing{order: unordered}); err != nil {
				t.Fatal(err)
			}
			waiting[content(h)]++
		}
		known := map[happening]bool{}
		for h := range waiting {
			known[h] = true
		}
		newest := map[[2]string]int{}
		for _, h := range records {
			want := foreign
			line := [2]string{h.topic, h.key}
			switch c := content(h); {
			case waiting[c] > 0:
				waiting[c]--
				want = found
				if h.key != "null" && h.commit < newest[line] {
					want = disordered
				} else {
					newest[line] = h.commit
				}
			case known[c]:
				want = duplicated
			}
			if got := l.strike(h.record()); got != want {
				t.Fatalf("%+v: verdict %d, want %d", h, got, want)
			}
		}
		left := int64(0)
		for _, n := range waiting {
			left += int64(n)
		}
		if l.missing() != left {
			t.Fatalf("%d missing, want %d", l.missing(), left)
		}
	})
}

// content is what rows and records have in common.
func content(h happening) happening {
	h.commit, h.time, h.source = 0, 0, 0
	return h
}

// The figure of the package's documentation: bytes of memory a row, every row with a key of its own, and the time to add
// and to strike one off.
func BenchmarkLedger(b *testing.B) {
	for _, keys := range []int{1_000_000, 10_000} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			const rows = 1_000_000
			for b.Loop() {
				before := heap()
				l := newLedger(ours)
				m := happening{topic: "outbox.event.order", key: "k", id: "1", value: "v"}.message()
				m.Value = make([]byte, 300)
				for i := range rows {
					m.Key = strconv.AppendInt(m.Key[:0], int64(i%keys), 10)
					m.Headers[0].Value = strconv.AppendInt(m.Headers[0].Value[:0], int64(i), 10)
					if err := l.add(m, 0, standing{order: int64(i)}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(heap()-before)/rows, "B/row")
				runtime.KeepAlive(l)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}
