package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/relay"
)

// brokers looks who answers at Kafka, and how the topics are set that events go to.
func (e *examination) brokers(ctx context.Context) error {
	settings := e.cfg.Kafka
	if e.server != nil {
		settings.TransactionalID = relay.TransactionalID(e.source, e.slot)
	}
	found, err := kafka.Inspect(ctx, settings, e.cfg.MayGoTo)
	if err != nil {
		e.fail("kafka", err, "check kafka.brokers, kafka.tls and kafka.sasl against the listener of the brokers, and that this machine reaches every "+
			"address that they advertise (advertised.listeners)")
		return errEnough
	}
	e.ok("kafka", fmt.Sprintf("cluster %s, %d brokers: %s", found.ClusterID, len(found.Brokers), strings.Join(found.Brokers, ", ")))
	if found.Transactional != nil {
		e.say(Warn, "transactional id", fmt.Sprintf("no right to %s: after a crash events may come twice (%v)", settings.TransactionalID, found.Transactional),
			e.tool("kafka-acls.sh", fmt.Sprintf("--add --allow-principal User:<user> --operation Write --operation Describe --transactional-id '%s'", settings.TransactionalID)))
	}
	for _, topic := range found.Topics {
		e.topic(topic, len(found.Brokers))
	}
	if len(found.Topics) == 0 {
		e.say(Info, "topics", "none of the topics that events go to exists yet: "+strings.Join(e.cfg.TopicPatterns(), ", "),
			"they are made by the brokers (auto.create.topics.enable) or by walrelay (kafka.topics.create: true); otherwise "+
				e.tool("kafka-topics.sh", "--create --topic ..."))
	}
	return nil
}

// topic looks at one topic.
func (e *examination) topic(t kafka.InspectedTopic, brokers int) {
	check := "topic " + t.Name
	if t.Forbidden {
		e.say(Fail, check, "no right to it", e.tool("kafka-acls.sh",
			"--add --allow-principal User:<user> --operation Describe --operation Write --operation Read --topic "+t.Name))
		return
	}
	text := fmt.Sprintf("%d partitions, %d replicas, %d of them in sync", t.Partitions, t.Replicas, t.InSync)
	setting := func(name string) int {
		n, _ := strconv.Atoi(t.Settings[name])
		return n
	}
	alter := func(name string, value int) string {
		return e.tool("kafka-configs.sh", fmt.Sprintf("--alter --entity-type topics --entity-name %s --add-config %s=%d", t.Name, name, value))
	}
	needed, largest := setting("min.insync.replicas"), setting("max.message.bytes")
	switch {
	case t.Settings == nil:
		e.say(Info, check, text+"; no right to see its settings", e.tool("kafka-acls.sh", "--add --allow-principal User:<user> --operation DescribeConfigs --topic "+t.Name))
	case needed > t.InSync:
		e.say(Fail, check, fmt.Sprintf("%s, min.insync.replicas is %d: nothing can be published", text, needed), "bring the missing brokers back")
	case needed > t.Replicas:
		e.say(Fail, check, fmt.Sprintf("%s, min.insync.replicas is %d: nothing can ever be published", text, needed), alter("min.insync.replicas", max(1, t.Replicas-1)))
	case t.Replicas > 2 && needed < 2:
		e.say(Warn, check, fmt.Sprintf("%s, min.insync.replicas is %d: an acknowledged event may be on one broker only", text, needed), alter("min.insync.replicas", 2))
	case t.Replicas < 2 && brokers > 1:
		e.say(Warn, check, text+": an acknowledged event is gone with its broker", "kafka-reassign-partitions.sh, with three replicas")
	default:
		e.ok(check, text+", records up to "+relay.Bytes(int64(largest)))
	}
}

// tool is a command line of Kafka's own tools.
func (e *examination) tool(name, arguments string) string {
	return fmt.Sprintf("%s --bootstrap-server %s %s", name, strings.Join(e.cfg.Kafka.Brokers, ","), arguments)
}
