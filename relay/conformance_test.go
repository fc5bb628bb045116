package relay

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/internal/pgtest"
	"github.com/walrelay/walrelay/router"
)

// vector is one line of vectors.jsonl: what Debezium made of a row, or how it failed. Vectors of one group shared a table
// and a run of the connector.
type vector struct {
	Case, Group, SQL, Publication string
	DDL                           []string
	Options                       map[string]string
	Records                       []recorded
	TaskState                     string `json:"task_state"`
}

type recorded struct {
	Topic       string
	Partition   int32
	Key         *[]byte `json:"key_b64"`
	Value       *[]byte `json:"value_b64"`
	Headers     []recordedHeader
	TimestampMs int64 `json:"timestamp_ms"`
}

type recordedHeader struct {
	K string
	V *[]byte `json:"v_b64"`
}

// outcome is what walrelay makes of a vector.
type outcome struct {
	records []delivered
	poison  error // of the first row that is poison
	refused error // at start, or when the shape of the table changed
}

// TestDebeziumConformance takes the rows of every vector the whole way, from an insert into a real Postgres to the record
// that is in the topic, and compares that with what Debezium published. A difference must be explained by a rule of the
// table deviations.
func TestDebeziumConformance(t *testing.T) {
	groups := readVectors(t)
	relayed := newPath(t, pgtest.Shared(t, ""))
	outcomes := make([][]outcome, len(groups))
	for i, group := range groups {
		outcomes[i] = relayed.run(group)
	}
	relayed.match(outcomes)
	var total, equal, deviating, unexplained int
	found := map[string]int{}
	for g, group := range groups {
		for i := range group {
			total++
			c := conformity{vector: &group[i], outcome: outcomes[g][i], group: group, index: i}
			diff := c.diff()
			if diff == "" {
				equal++
				continue
			}
			if what := c.explain(); what != "" {
				deviating++
				found[what]++
				continue
			}
			unexplained++
			t.Errorf("%s: refused: %v, poison: %v\n%s", group[i].Case, c.outcome.refused, c.outcome.poison, diff)
		}
	}
	for _, d := range deviations {
		t.Logf("%3d × %s", found[d.what], d.what)
	}
	result := fmt.Sprintf("conformance: %d vectors, %d equal, %d deviations, %d unexplained", total, equal, deviating, unexplained)
	if os.Getenv(otherVectors) == "" && !strings.Contains(debeziumPage(t), "\n"+result+"\n") {
		t.Errorf("docs/debezium.md does not say %q", result)
	}
	fmt.Println(result)
}

// otherVectors is the variable that names another file of the same format.
const otherVectors = "WALRELAY_VECTORS"

func readVectors(t *testing.T) (groups [][]vector) {
	path := "testdata/vectors.jsonl"
	if other := os.Getenv(otherVectors); other != "" {
		path = other
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if n := len(groups); n > 0 && groups[n-1][0].Group == v.Group {
			groups[n-1] = append(groups[n-1], v)
		} else {
			groups = append(groups, []vector{v})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return groups
}

// routeOf adds the options that all vectors have in common and translates them as import-debezium does.
func (v vector) routeOf() (router.Config, error) {
	all := map[string]string{
		"transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
		"key.converter": stringConverter, "value.converter": stringConverter, "topic.prefix": "dbz",
	}
	for name, value := range v.Options {
		all[name] = value
	}
	config, findings := router.FromDebezium(all)
	for _, f := range findings {
		if f.Answer == router.Invalid || f.Answer == router.Unknown {
			return config, fmt.Errorf("%s: %s", f.Property, f.Note)
		}
	}
	config.Headers.Position = "off"
	return config, config.Validate()
}

const stringConverter = "org.apache.kafka.connect.storage.StringConverter"

// tableList reads table.include.list; the common options name the one table of the group.
func (v vector) tableList() *regexp.Regexp {
	list := v.Options["table.include.list"]
	if list == "" {
		list = "public.outbox"
	}
	return regexp.MustCompile(`(?i)^(?:` + strings.ReplaceAll(list, ",", "|") + `)$`)
}

func (v vector) option(name string) string { return v.Options["transforms.outbox."+name] }

// conformity is one vector beside what walrelay makes of it.
type conformity struct {
	*vector
	outcome outcome
	group   []vector
	index   int
}

// wire is a record as both sides are compared.
type wire struct {
	Topic, Key, Value, Headers, Partition, Time string
}

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return fmt.Sprintf("%q", b)
}

// bytesOf keeps null and empty apart.
func bytesOf(b *[]byte) []byte {
	switch {
	case b == nil:
		return nil
	case *b == nil:
		return []byte{}
	}
	return *b
}

// runNames are the names that change from run to run in the name of an envelope's schema.
var runNames = regexp.MustCompile(`dbz\d+\.public\.ob\d+`)

func (c *conformity) expected() (wires []wire) {
	for i, r := range c.Records {
		if !hasID(r.Headers) {
			continue // made by the connector, not by the EventRouter: heartbeats, logical messages
		}
		w := wire{Topic: r.Topic, Key: show(bytesOf(r.Key)), Value: show(bytesOf(r.Value)), Partition: fmt.Sprint(r.Partition)}
		if r.Value != nil {
			w.Value = show(bytesOf(new(runNames.ReplaceAll(*r.Value, []byte("dbz.public.outbox")))))
		}
		for _, h := range r.Headers {
			w.Headers += h.K + "=" + c.maskID(show(bytesOf(h.V))) + " "
		}
		if i < len(c.outcome.records) {
			if d := c.outcome.records[i]; d.Key == nil && !d.explicit {
				w.Partition = anyPartition
			}
			if c.timed(i) {
				w.Time = fmt.Sprint(r.TimestampMs)
			}
		}
		wires = append(wires, w)
	}
	return wires
}

const anyPartition = "any" // without a key it is the producer's choice

func (c *conformity) actual() (wires []wire) {
	for i, d := range c.outcome.records {
		w := wire{Topic: d.Topic, Key: show(d.Key), Value: show(d.Value), Partition: fmt.Sprint(d.partition)}
		if d.Key == nil && !d.explicit {
			w.Partition = anyPartition
		}
		for _, h := range d.Headers {
			w.Headers += h.Name + "=" + c.maskID(show(h.Value)) + " "
		}
		if c.timed(i) {
			w.Time = fmt.Sprint(d.Time)
		}
		wires = append(wires, w)
	}
	return wires
}

func hasID(headers []recordedHeader) bool {
	for _, h := range headers {
		if h.K == "id" {
			return true
		}
	}
	return false
}

// maskID hides ids that Postgres drew at random.
func (c *conformity) maskID(value string) string {
	if strings.Contains(c.SQL, "gen_random_uuid()") && !strings.Contains(c.SQL, strings.Trim(value, `"`)) {
		return "random"
	}
	return value
}

// timed tells whether the record's timestamp is the column's, so that it can be compared.
func (c *conformity) timed(i int) bool {
	d := c.outcome.records[i]
	return c.option("table.field.event.timestamp") != "" && d.Time != d.Identity.Time/1000
}

// diff is empty where both sides published the same and neither failed.
func (c *conformity) diff() string {
	if diff := cmp.Diff(c.expected(), c.actual()); diff != "" {
		return diff
	}
	if c.outcome.refused != nil || c.outcome.poison != nil {
		return "nothing is published on both sides, here by a failure"
	}
	return ""
}

// match finds the record of every message that was handed to the producer, in the order of both, and takes from it what the
// producer and the broker have made of it.
func (p *path) match(outcomes [][]outcome) {
	p.t.Helper()
	topics, err := kafkatest.Topics(p.t.Context(), p.brokers)
	if err != nil {
		p.t.Fatal(err)
	}
	log, err := kafkatest.ReadAll(p.t.Context(), p.brokers, topics...)
	if err != nil {
		p.t.Fatal(err)
	}
	left := map[string][]kafkatest.Record{} // by what a record is
	for _, r := range log {
		left[recordText(r)] = append(left[recordText(r)], r)
	}
	for _, group := range outcomes {
		for _, o := range group {
			for i := range o.records {
				d := &o.records[i]
				text := messageText(&d.Message)
				if len(left[text]) == 0 {
					p.t.Errorf("no record of %s", text)
					continue
				}
				d.partition, left[text] = left[text][0].Partition, left[text][1:]
			}
		}
	}
	for text, records := range left {
		if len(records) > 0 && records[0].Topic != deadLetters {
			p.t.Errorf("%d records too many of %s", len(records), text)
		}
	}
}

func recordText(r kafkatest.Record) string {
	text := fmt.Sprintf("%s at %d: %s, %s", r.Topic, r.Timestamp.UnixMilli(), show(r.Key), show(r.Value))
	for _, h := range r.Headers {
		text += " " + h.Name + "=" + show(h.Value)
	}
	return text
}

func messageText(m *router.Message) string {
	text := fmt.Sprintf("%s at %d: %s, %s", m.Topic, m.Time, show(m.Key), show(m.Value))
	for _, h := range m.Headers {
		text += " " + h.Name + "=" + show(h.Value)
	}
	return text
}
