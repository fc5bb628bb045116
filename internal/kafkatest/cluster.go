package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/walrelay/walrelay/internal/certificates"
	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// Options says what cluster to launch. The zero value is one node in a temporary folder.
type Options struct {
	// Version is the release: "" is the latest, or Older.
	Version string
	// Nodes is 1 (also when 0) or 3. With three, topics have three replicas and min.insync.replicas is 2.
	Nodes int
	// Dir holds the data, configuration and log of each node. "" is a temporary folder, deleted by Close. A folder that
	// holds a cluster already (with as many nodes) is used as it is.
	Dir string
	// Properties are added to each node's server.properties and go before the harness's own. Of those, one differs from
	// Kafka's default in a way that tests feel: a dead or frozen node is noticed after 2 s instead of 9.
	Properties map[string]string
	// JVM are flags of each JVM, beside the harness's own.
	JVM []string
	// HeapMB is the size of each JVM's heap in MiB; 0 is 256, or 512 with three nodes.
	HeapMB int
	// FastJVM starts a node twice as fast and lets it run slower: for tests, not for measuring.
	FastJVM bool
	// Secure adds the listeners SSL, SASL_PLAINTEXT and SASL_SSL.
	Secure bool
	// Advertise, when not nil, is told each node's client address before the start and returns the one that the node
	// hands to clients, such as that of a faultconn.Proxy before it. The nodes talk to each other past it, and Bootstrap
	// keeps the real addresses. It may be called more often than there are nodes.
	Advertise func(node int32, address string) string
	// Progress is told, in lines for a person, what takes long: the first download. May be nil.
	Progress func(line string)
}

// Cluster is a real Kafka cluster in KRaft mode on loopback. Nodes have the ids 1 to 3.
type Cluster struct {
	dir     string
	ours    bool // dir is deleted by Close
	install install
	tls     *certificates.Authority // nil when not Secure

	mu    sync.Mutex // held while nodes start or end
	nodes []*node
}

// Launch starts a cluster and waits until it is ready. The caller must Close it.
func Launch(ctx context.Context, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = latest
	}
	in, err := prepare(ctx, o.Version, o.FastJVM, o.Progress)
	if err != nil {
		return nil, err
	}
	return launch(ctx, o, in)
}

// launch tries other ports when one that was free is taken by others before Kafka has it.
func launch(ctx context.Context, o Options, in install, jvm ...string) (*Cluster, error) {
	if o.Nodes == 0 {
		o.Nodes = 1
	}
	if o.Nodes != 1 && o.Nodes != 3 {
		return nil, fmt.Errorf("launch Kafka: %d nodes: must be 1 or 3", o.Nodes)
	}
	for try := 1; ; try++ {
		c := &Cluster{dir: o.Dir, install: in}
		err := c.launch(ctx, o, jvm)
		if err == nil {
			return c, nil
		}
		err = errors.Join(fmt.Errorf("launch Kafka: %w", err), c.Close())
		if !errors.Is(err, errPortTaken) || try == 5 {
			return nil, err
		}
	}
}

func (c *Cluster) launch(ctx context.Context, o Options, jvm []string) error {
	if c.dir == "" {
		dir, err := os.MkdirTemp("", "walrelay-kafka-")
		if err != nil {
			return err
		}
		c.dir, c.ours = dir, true
	}
	dir, err := filepath.Abs(c.dir)
	if err != nil {
		return err
	}
	c.dir = dir
	if o.Secure {
		if c.tls, err = newCertificates(c.dir); err != nil {
			return err
		}
	}
	if err := c.layOut(o, jvm); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.start(c.install.classPath); err != nil {
			return err
		}
	}
	if err := c.WaitReady(ctx); err != nil {
		return err
	}
	if o.Secure {
		return c.SetPassword(ctx, Password)
	}
	return nil
}

// layOut chooses ports, writes the configuration of the nodes and formats their data folders.
func (c *Cluster) layOut(o Options, jvm []string) error {
	names := []string{"PLAINTEXT", "CONTROLLER"}
	if o.Secure {
		names = append(names, secureListeners...)
	}
	if o.Advertise != nil {
		names = append(names, "REPLICATION")
	}
	ports, err := process.FreePorts(o.Nodes * len(names))
	if err != nil {
		return err
	}
	var voters []string
	for id := int32(1); int(id) <= o.Nodes; id++ {
		n := &node{id: id, dir: filepath.Join(c.dir, strconv.Itoa(int(id))), listeners: map[string]int{}}
		n.jvm = slices.Concat(jvmFlags(o, c.install.archive), o.JVM, jvm)
		for _, name := range names {
			n.listeners[name], ports = ports[0], ports[1:]
		}
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", id, n.listeners["CONTROLLER"]))
		c.nodes = append(c.nodes, n)
	}
	id := newID()
	for _, n := range c.nodes {
		n.properties = properties(o.Nodes, strings.Join(voters, ","), n.listeners)
		if o.Secure {
			maps.Copy(n.properties, secureProperties(c.tls))
		}
		if o.Advertise != nil {
			n.advertise(o.Advertise(n.id, n.address("PLAINTEXT")))
		}
		maps.Copy(n.properties, o.Properties)
		if err := c.install.format(*n, id); err != nil {
			return err
		}
		if err := n.writeProperties(); err != nil {
			return err
		}
	}
	return nil
}

func jvmFlags(o Options, archive string) []string {
	heap := o.HeapMB
	if heap == 0 && o.Nodes == 1 {
		heap = 256
	} else if heap == 0 {
		heap = 512
	}
	flags := []string{fmt.Sprintf("-Xmx%dm", heap)}
	if o.FastJVM {
		flags = append(flags, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	}
	if archive != "" {
		flags = append(flags, "-Xshare:auto", "-XX:SharedArchiveFile="+archive)
	}
	return flags
}

// properties are those of one node. Both internal topics have one partition, which makes their first use fast.
func properties(nodes int, voters string, ports map[string]int) map[string]string {
	var listeners, protocols []string
	for name, port := range ports {
		protocol := name
		if name == "CONTROLLER" || name == "REPLICATION" {
			protocol = "PLAINTEXT"
		}
		listeners = append(listeners, fmt.Sprintf("%s://127.0.0.1:%d", name, port))
		protocols = append(protocols, name+":"+protocol)
	}
	p := map[string]string{
		"process.roles":                            "broker,controller",
		"controller.quorum.voters":                 voters,
		"controller.listener.names":                "CONTROLLER",
		"listeners":                                strings.Join(listeners, ","),
		"listener.security.protocol.map":           strings.Join(protocols, ","),
		"inter.broker.listener.name":               "PLAINTEXT",
		"num.partitions":                           strconv.Itoa(Partitions),
		"offsets.topic.num.partitions":             "1",
		"offsets.topic.replication.factor":         strconv.Itoa(nodes),
		"transaction.state.log.num.partitions":     "1",
		"transaction.state.log.replication.factor": strconv.Itoa(nodes),
		"transaction.state.log.min.isr":            strconv.Itoa((nodes + 1) / 2),
		"group.initial.rebalance.delay.ms":         "0",
		"broker.session.timeout.ms":                "2000", // a killed node is not let in again before
		"broker.heartbeat.interval.ms":             "400",
		"replica.fetch.backoff.ms":                 "100",
		"log.cleaner.dedupe.buffer.size":           "4194304", // the default, 128 MiB, is half the heap
	}
	if nodes > 1 {
		p["default.replication.factor"], p["min.insync.replicas"] = strconv.Itoa(nodes), "2"
	}
	return p
}

// Bootstrap is the addresses of all nodes' listeners without security.
func (c *Cluster) Bootstrap() []string { return c.Listener("PLAINTEXT") }

// Listener is the addresses of all nodes' listeners of a name: PLAINTEXT, and on a Secure cluster SSL, SASL_PLAINTEXT and
// SASL_SSL.
func (c *Cluster) Listener(name string) []string {
	var addresses []string
	for _, n := range c.nodes {
		if address := n.address(name); address != "" {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// Dir is the folder of the cluster; each node's log is in <id>/log below it.
func (c *Cluster) Dir() string { return c.dir }

// Close ends all nodes with SIGKILL and deletes the folder if it was a temporary one.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, n := range c.nodes {
		n.answers = false
		if n.running() {
			errs = append(errs, n.process.Kill())
		}
	}
	if c.ours {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}
