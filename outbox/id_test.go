package outbox_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/walrelay/walrelay/outbox"
)

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

func TestNewID(t *testing.T) {
	before := time.Now().UnixMilli()
	ids := make([][]string, 4)
	var made sync.WaitGroup
	for i := range ids {
		made.Go(func() {
			for range 5000 {
				ids[i] = append(ids[i], outbox.NewID())
			}
		})
	}
	made.Wait()
	all := slices.Concat(ids...)
	for _, list := range ids {
		if !slices.IsSorted(list) {
			t.Error("ids of one goroutine do not sort in their order")
		}
	}
	slices.Sort(all)
	for i, id := range all {
		if !uuid7.MatchString(id) || i > 0 && all[i-1] == id {
			t.Fatalf("%s (after %s)", id, all[max(0, i-1)])
		}
	}
	ms, err := strconv.ParseInt(strings.ReplaceAll(all[0], "-", "")[:12], 16, 64)
	if after := time.Now().UnixMilli(); err != nil || ms < before || ms > after {
		t.Errorf("time %d, want %d to %d, %v", ms, before, after, err)
	}
}
