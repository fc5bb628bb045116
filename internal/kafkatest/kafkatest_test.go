package kafkatest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/walrelay/walrelay/internal/faultconn"
)

func TestMain(m *testing.M) { Main(m) }

func client(t *testing.T, bootstrap []string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func produce(t *testing.T, c *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := c.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func values(records []Record) []string {
	var list []string
	for _, r := range records {
		list = append(list, string(r.Value))
	}
	return list
}

// readsBackAll is the specification of Read, for any cluster.
func readsBackAll(t *testing.T, bootstrap []string) {
	for topic, partitions := range map[string]int{"reads": 3, "empty": 1} {
		if err := CreateTopic(t.Context(), bootstrap, topic, partitions, -1, nil); err != nil {
			t.Fatal(err)
		}
	}
	want, id := fill(t, bootstrap, "reads")
	log, err := Read(t.Context(), bootstrap, "reads", "empty")
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(log.Records, func(a, b Record) int { return int(a.Partition - b.Partition) })
	if diff := cmp.Diff(want, log.Records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if len(log.Controls) != 1 || log.Controls[0].Offset != 2 || log.Controls[0].ProducerID != id {
		t.Errorf("control records %+v, want one of producer %d at offset 2", log.Controls, id)
	}
	only, err := ReadAll(t.Context(), bootstrap, "reads")
	if err != nil || len(only) != len(want) {
		t.Errorf("ReadAll: %d records, error %v", len(only), err)
	}
	topics, err := Topics(t.Context(), bootstrap)
	if err != nil || !slices.Contains(topics, "reads") || slices.ContainsFunc(topics, internal) {
		t.Errorf("topics %v, error %v", topics, err)
	}
	if err := DeleteTopic(t.Context(), bootstrap, "reads"); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAll(t.Context(), bootstrap, "reads"); err == nil || !strings.Contains(err.Error(), "UNKNOWN_TOPIC_OR_PARTITION") {
		t.Errorf("read of a deleted topic: %v", err)
	}
}

// fill writes to partitions 1 and 2 of a topic, with nulls, empty values and an aborted transaction. It returns the
// records in order, and the id of the transactional producer.
func fill(t *testing.T, bootstrap []string, topic string) (want []Record, id int64) {
	plain := client(t, bootstrap, kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.LeaderAck()))
	tx := client(t, bootstrap, kgo.TransactionalID("t"))
	now := time.UnixMilli(1_700_000_000_123)
	produce(t, plain,
		&kgo.Record{Topic: topic, Partition: 1, Key: []byte("k"), Value: nil, Timestamp: now,
			Headers: []kgo.RecordHeader{{Key: "b", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "b", Value: []byte{}}}},
		&kgo.Record{Topic: topic, Partition: 2, Key: []byte{}, Value: []byte{}, Timestamp: now})
	if err := tx.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, tx, &kgo.Record{Topic: topic, Partition: 1, Value: []byte("aborted"), Timestamp: now})
	if err := tx.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	awaitControl(t, bootstrap, topic) // Kafka answers before the marker stands in the partition
	produce(t, plain, &kgo.Record{Topic: topic, Partition: 1, Value: []byte("last"), Timestamp: now})
	id, _, err := tx.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return []Record{
		{Topic: topic, Partition: 1, Offset: 0, Key: []byte("k"), Timestamp: now, ProducerID: -1, ProducerEpoch: -1,
			Headers: []Header{{"b", []byte("1")}, {"a", nil}, {"b", []byte{}}}},
		{Topic: topic, Partition: 1, Offset: 1, Value: []byte("aborted"), Timestamp: now, ProducerID: id},
		{Topic: topic, Partition: 1, Offset: 3, Value: []byte("last"), Timestamp: now, ProducerID: -1, ProducerEpoch: -1},
		{Topic: topic, Partition: 2, Offset: 0, Key: []byte{}, Value: []byte{}, Timestamp: now, ProducerID: -1, ProducerEpoch: -1},
	}, id
}

func awaitControl(t *testing.T, bootstrap []string, topic string) {
	t.Helper()
	err := await(t.Context(), func() error {
		log, err := Read(t.Context(), bootstrap, topic)
		if err == nil && len(log.Controls) == 0 {
			err = errors.New("no control record")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func internal(topic string) bool { return strings.HasPrefix(topic, "__") }

func TestFakeReadsBackAll(t *testing.T) {
	t.Parallel()
	readsBackAll(t, Fake(t).ListenAddrs())
}

func TestKafkaReadsBackAll(t *testing.T) {
	t.Parallel()
	readsBackAll(t, Shared(t, 1).Bootstrap())
}

func TestFakeKeepsItsRecordsInItsFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 2 {
		fake, err := LaunchFake(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := client(t, fake.ListenAddrs(), kgo.AllowAutoTopicCreation())
		produce(t, c, &kgo.Record{Topic: "kept", Value: fmt.Append(nil, i)})
		got, err := ReadAll(t.Context(), fake.ListenAddrs(), "kept")
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{"0", "1"}[:i+1]; !slices.Equal(values(got), want) {
			t.Errorf("start %d: read %v, want %v", i, values(got), want)
		}
		c.Close()
		fake.Close()
	}
}

func TestFakeTakesOptions(t *testing.T) {
	t.Parallel()
	fake := Fake(t, kfake.NumBrokers(3), kfake.SeedTopics(2, "seeded"))
	if n := len(fake.ListenAddrs()); n != 3 {
		t.Errorf("%d brokers, want 3", n)
	}
	reply, err := metadata(t.Context(), fake.ListenAddrs(), "seeded")
	if err != nil || len(reply.Topics[0].Partitions) != 2 {
		t.Errorf("metadata %+v, error %v; want 2 partitions", reply, err)
	}
}

func TestKilledNodeRestartsWithItsRecords(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{FastJVM: true})
	produce(t, client(t, c.Bootstrap(), kgo.AllowAutoTopicCreation()), &kgo.Record{Topic: "kept", Value: []byte("v")})
	pid := c.Pid(1)
	if err := c.Kill(1); err != nil {
		t.Fatal(err)
	}
	if c.Pid(1) != 0 {
		t.Errorf("pid %d after Kill", c.Pid(1))
	}
	if _, err := net.Dial("tcp", c.Bootstrap()[0]); err == nil {
		t.Error("the killed node takes connections")
	}
	if err := c.StartNode(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if now := c.Pid(1); now == pid || now == 0 {
		t.Errorf("pid %d, before %d: want a new process", now, pid)
	}
	if err := c.StopNode(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := c.StartNode(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAll(t.Context(), c.Bootstrap(), "kept")
	if err != nil || !slices.Equal(values(got), []string{"v"}) {
		t.Errorf("read %v, error %v; want [v]", values(got), err)
	}
}

func TestThreeNodesSurviveTheirLeaders(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{Nodes: 3, FastJVM: true})
	ctx := t.Context()
	if err := c.CreateTopic(ctx, "r", 1, 3, map[string]string{"retention.ms": "-1"}); err != nil {
		t.Fatal(err)
	}
	if err := c.MoveLeader(ctx, "r", 0, 2); err != nil {
		t.Fatal(err)
	}
	producer := client(t, c.Bootstrap(), kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second))
	produce(t, producer, &kgo.Record{Topic: "r", Value: []byte("before")})

	if err := c.Kill(2); err != nil {
		t.Fatal(err)
	}
	produce(t, producer, &kgo.Record{Topic: "r", Value: []byte("one dead")})
	leader, err := c.Leader(ctx, "r", 0)
	if err != nil || leader == 2 {
		t.Fatalf("leader %d, error %v; want another than the killed node 2", leader, err)
	}
	if err := c.StartNode(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitInSync(ctx, "r"); err != nil {
		t.Fatal(err)
	}

	if err := c.Pause(leader); err != nil {
		t.Fatal(err)
	}
	produce(t, producer, &kgo.Record{Topic: "r", Value: []byte("one frozen")})
	if now, err := c.Leader(ctx, "r", 0); err != nil || now == leader {
		t.Errorf("leader %d, error %v; want another than the frozen node", now, err)
	}
	if err := c.Continue(leader); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.AwaitInSync(ctx, "r"); err != nil {
		t.Fatal(err)
	}
	got, err := ReadAll(ctx, c.Bootstrap(), "r")
	if want := []string{"before", "one dead", "one frozen"}; err != nil || !slices.Equal(values(got), want) {
		t.Errorf("read %q, error %v; want %q", values(got), err, want)
	}
}

func TestSecureListeners(t *testing.T) {
	t.Parallel()
	c := Start(t, Options{FastJVM: true, Secure: true})
	if err := c.CreateTopic(t.Context(), "s", 1, 1, nil); err != nil {
		t.Fatal(err)
	}
	trusting := &tls.Config{RootCAs: c.CA()}
	ca, cert, key := c.CertificateFiles()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil || ca == "" {
		t.Fatal(err)
	}
	auth := scram.Auth{User: User, Pass: Password}
	for _, s := range []struct {
		listener string
		tls      *tls.Config
		sasl     sasl.Mechanism
		fails    bool
	}{
		{"SSL", trusting, nil, false},
		{"SSL", &tls.Config{RootCAs: c.CA(), Certificates: []tls.Certificate{c.ClientCertificate()}}, nil, false},
		{"SSL", &tls.Config{RootCAs: c.CA(), Certificates: []tls.Certificate{pair}}, nil, false},
		{"SSL", &tls.Config{}, nil, true},
		{"SASL_PLAINTEXT", nil, plain.Auth{User: User, Pass: Password}.AsMechanism(), false},
		{"SASL_PLAINTEXT", nil, auth.AsSha256Mechanism(), false},
		{"SASL_SSL", trusting, plain.Auth{User: User, Pass: Password}.AsMechanism(), false},
		{"SASL_SSL", trusting, auth.AsSha256Mechanism(), false},
		{"SASL_SSL", trusting, auth.AsSha512Mechanism(), false},
		{"SASL_SSL", trusting, plain.Auth{User: User, Pass: "wrong"}.AsMechanism(), true},
		{"SASL_SSL", trusting, scram.Auth{User: User, Pass: "wrong"}.AsSha512Mechanism(), true},
	} {
		var opts []kgo.Opt
		if s.tls != nil {
			opts = append(opts, kgo.DialTLSConfig(s.tls))
		}
		name := s.listener
		if s.sasl != nil {
			opts = append(opts, kgo.SASL(s.sasl))
			name += " " + s.sasl.Name()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client(t, c.Listener(s.listener), opts...))
		cancel()
		if (err != nil) != s.fails {
			t.Errorf("%s: error %v, want one: %v", name, err, s.fails)
		}
	}
}

func TestClientsGoThroughAdvertisedProxies(t *testing.T) {
	t.Parallel()
	var proxy *faultconn.Proxy
	c := Start(t, Options{FastJVM: true, Advertise: func(_ int32, address string) string {
		p, err := faultconn.NewProxy(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		proxy = p
		return p.Address()
	}})
	if err := c.CreateTopic(t.Context(), "p", 1, 1, nil); err != nil {
		t.Fatal(err)
	}
	before := proxy.Dials()
	producer := client(t, c.Bootstrap())
	produce(t, producer, &kgo.Record{Topic: "p", Value: []byte("1")})
	if proxy.Dials() == before {
		t.Error("the producer went past the proxy")
	}
	proxy.Cut()
	produce(t, producer, &kgo.Record{Topic: "p", Value: []byte("2")})
	got, err := ReadAll(t.Context(), c.Bootstrap(), "p")
	if err != nil || !slices.Equal(values(got), []string{"1", "2"}) {
		t.Errorf("read %v, error %v", values(got), err)
	}
}

func TestClusterInAFolderIsUsedAgain(t *testing.T) {
	t.Parallel()
	o := Options{FastJVM: true, Dir: t.TempDir()}
	for i := range 2 {
		c := Start(t, o)
		if i == 0 {
			if err := c.CreateTopic(t.Context(), "old", 1, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		if topics, err := Topics(t.Context(), c.Bootstrap()); err != nil || !slices.Contains(topics, "old") {
			t.Errorf("start %d: topics %v, error %v", i, topics, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBadOptions(t *testing.T) {
	Require(t)
	if _, err := Launch(t.Context(), Options{Nodes: 2}); err == nil || !strings.Contains(err.Error(), "must be 1 or 3") {
		t.Errorf("two nodes: %v", err)
	}
	_, err := Launch(t.Context(), Options{FastJVM: true, Properties: map[string]string{"num.partitions": "many"}})
	if err == nil || !strings.Contains(err.Error(), "num.partitions") {
		t.Errorf("bad property: %v, want what Kafka said", err)
	}
	c := Shared(t, 1)
	if err := c.Kill(4); err == nil {
		t.Error("an unknown node was killed")
	}
}
