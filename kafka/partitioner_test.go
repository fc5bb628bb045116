package kafka

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// testdata/java-partitions.txt was printed by Kafka's own Utils.murmur2.
func TestPartitionsAreJavas(t *testing.T) {
	text, err := os.ReadFile("testdata/java-partitions.txt")
	if err != nil {
		t.Fatal(err)
	}
	counts := []int{1, 2, 3, 6, 12, 100, 1000}
	checked := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		key, err := hex.DecodeString(strings.TrimPrefix(fields[0], "-"))
		if err != nil || len(fields) != 1+len(counts) {
			t.Fatalf("line %q: %v", line, err)
		}
		for i, count := range counts {
			if got := partitionOf(key, count); strconv.Itoa(int(got)) != fields[1+i] {
				t.Errorf("key %x of %d partitions: %d, Java says %s", key, count, got, fields[1+i])
			}
			checked++
		}
	}
	if checked < 400 {
		t.Errorf("only %d partitions checked", checked)
	}
}

func TestPartitionsAreFranzGos(t *testing.T) {
	franz := kgo.StickyKeyPartitioner(nil).ForTopic("orders")
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "key")
		count := rapid.IntRange(1, 10_000).Draw(t, "count")
		if key == nil {
			key = []byte{}
		}
		if got, want := partitionOf(key, count), franz.Partition(&kgo.Record{Key: key}, count); int(got) != want {
			t.Errorf("key %x of %d partitions: %d, franz-go says %d", key, count, got, want)
		}
	})
}
