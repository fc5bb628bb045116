package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/walrelay/walrelay/internal/pgtest/process"
)

var errPortTaken = errors.New("another process took the port")

// node is one JVM, broker and controller in one.
type node struct {
	id         int32
	dir        string
	listeners  map[string]int // port by listener, with CONTROLLER
	properties map[string]string
	jvm        []string // flags
	process    *process.Process
	answers    bool // it ought to: it was started, and not killed, stopped or frozen by us
}

func (n *node) data() string           { return filepath.Join(n.dir, "data") }
func (n *node) propertiesFile() string { return filepath.Join(n.dir, "server.properties") }
func (n *node) log() string            { return filepath.Join(n.dir, "log") }
func (n *node) running() bool          { return n.process != nil && n.process.Running() }

// address is that of a listener, "" when there is none of that name.
func (n *node) address(listener string) string {
	port, ok := n.listeners[listener]
	if !ok {
		return ""
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// advertise makes the node hand address to the clients of its listener without security, and keep a listener of its own
// for the other nodes.
func (n *node) advertise(address string) {
	var addresses []string
	for name := range n.listeners {
		switch name {
		case "CONTROLLER": // not for clients
		case "PLAINTEXT":
			addresses = append(addresses, name+"://"+address)
		default:
			addresses = append(addresses, name+"://"+n.address(name))
		}
	}
	n.properties["advertised.listeners"] = strings.Join(addresses, ",")
	n.properties["inter.broker.listener.name"] = "REPLICATION"
}

// writeProperties writes the configuration file; a new line in a value is escaped.
func (n *node) writeProperties() error {
	lines := []string{fmt.Sprintf("node.id=%d\n", n.id), "log.dirs=" + n.data() + "\n"}
	for name, value := range n.properties {
		lines = append(lines, name+"="+strings.ReplaceAll(value, "\n", "\\n")+"\n")
	}
	slices.Sort(lines)
	return os.WriteFile(n.propertiesFile(), []byte(strings.Join(lines, "")), 0o600)
}

// start starts the JVM; it does not wait until the node answers.
func (n *node) start(classPath string) error {
	log, err := os.OpenFile(n.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start Kafka node %d: %w", n.id, err)
	}
	defer log.Close() // the child has its own
	args := append(slices.Clone(n.jvm), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "kafka.Kafka", n.propertiesFile())
	cmd := exec.Command("java", args...)
	cmd.Env = append(os.Environ(), "CLASSPATH="+classPath) // as an argument it would fill the list of processes
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.dir, log, log
	started, err := process.Start(cmd)
	if err != nil {
		return fmt.Errorf("start Kafka node %d: %w", n.id, err)
	}
	n.process, n.answers = started, true
	return nil
}

// ended explains why a node is not running any more.
func (n *node) ended() error {
	log, err := os.ReadFile(n.log())
	if err != nil {
		return fmt.Errorf("kafka node %d ended: %v", n.id, n.process.Err())
	}
	if strings.Contains(string(log), "Address already in use") {
		return fmt.Errorf("kafka node %d: %w", n.id, errPortTaken)
	}
	log = log[max(0, len(log)-4096):]
	return fmt.Errorf("kafka node %d ended: %v; its log:\n%s", n.id, n.process.Err(), log)
}
