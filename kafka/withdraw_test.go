package kafka

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/walrelay/walrelay/internal/kafkatest"
	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// A record that the topic refuses is taken back whole; what waits behind it goes out in order.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	cluster := kafkatest.Fake(t, kfake.DefaultNumPartitions(1))
	addrs := cluster.ListenAddrs()
	if err := kafkatest.CreateTopic(t.Context(), addrs, "orders", 1, 1, map[string]string{"max.message.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	p := begin(t, addrs, Config{})
	large := event("orders", 2)
	large.Headers = append([]router.Header{{Name: "pad", Value: make([]byte, 3000)}}, large.Headers...)
	for _, m := range []*router.Message{event("orders", 0), event("orders", 1), large, event("orders", 3), event("orders", 4)} {
		p.offer(m)
	}
	var trouble Trouble
	p.await("the partition halts", func() bool {
		var ok bool
		trouble, ok = p.Trouble()
		return ok && trouble.Kind == KindRecordTooLarge
	})
	if trouble.Event != large.Identity {
		t.Errorf("halted by %v, want %v", trouble.Event, large.Identity)
	}
	var got Withdrawn
	p.await("the record can be withdrawn", func() bool {
		var ok bool
		got, ok = p.Withdraw("orders", 0)
		return ok
	})
	want := *large
	want.Partition = -1 // the key leads there
	if diff := cmp.Diff(want, got.Message, cmp.AllowUnexported(router.Message{}), cmp.Comparer(func(a, b lsn.Identity) bool { return a == b })); diff != "" {
		t.Errorf("withdrawn (-appended +withdrawn):\n%s", diff)
	}
	p.flush()
	if _, ok := p.Trouble(); ok {
		t.Error("trouble goes on")
	}
	if n := len(p.Acked(nil)); n == 0 {
		t.Error("nothing acknowledged")
	}
	if got := values(t, read(t, addrs, "orders")); !slices.Equal(got, []int{0, 1, 3, 4}) {
		t.Errorf("in the topic: %v", got)
	}
	if _, ok := p.Withdraw("orders", 0); ok {
		t.Error("a record that is not halted was withdrawn")
	}
}
