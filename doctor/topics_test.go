package doctor

import "github.com/walrelay/walrelay/kafka"

// topics are states of a topic in a cluster of three brokers, and what is to be said of them.
var topics = []struct {
	topic        kafka.InspectedTopic
	level        Level
	text, remedy string
}{
	{topic(3, 3, "2"), OK, "3 replicas, 3 of them in sync, records up to 1.0 MiB", ""},
	{topic(3, 1, "2"), Fail, "min.insync.replicas is 2: nothing can be published", "bring the missing brokers back"},
	{topic(1, 1, "2"), Fail, "nothing can be published", ""},
	{topic(3, 3, "1"), Warn, "may be on one broker only", "kafka-configs.sh --bootstrap-server b:9092 --alter --entity-type topics --entity-name t --add-config min.insync.replicas=2"},
	{topic(1, 1, "1"), Warn, "is gone with its broker", "kafka-reassign-partitions.sh"},
	{kafka.InspectedTopic{Name: "t", Forbidden: true}, Fail, "no right", "kafka-acls.sh --bootstrap-server b:9092 --add"},
	{kafka.InspectedTopic{Name: "t", Partitions: 1, Replicas: 3, InSync: 3}, Info, "no right to see its settings", "DescribeConfigs"},
}

func topic(replicas, inSync int, needed string) kafka.InspectedTopic {
	return kafka.InspectedTopic{Name: "t", Partitions: 6, Replicas: replicas, InSync: inSync,
		Settings: map[string]string{"min.insync.replicas": needed, "max.message.bytes": "1048576"}}
}
