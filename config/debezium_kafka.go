package config

import (
	"maps"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/walrelay/walrelay/router"
)

// overridden begins the settings of Connect's producer.
const overridden = "producer.override."

// topics translates how Connect makes topics: topic.creation.default.*.
func (d *debezium) topics() {
	const standard = "topic.creation.default."
	for property, text := range d.options {
		setting, ok := strings.CutPrefix(property, standard)
		switch {
		case !strings.HasPrefix(property, "topic.creation."):
			continue
		case property == "topic.creation.enable":
			d.find(property, router.NotNeeded, "kafka.topics.create tells")
			continue
		case !ok:
			d.ask(property, router.NotSupported, "topics that walrelay makes all have the settings of the default group: kafka.topics")
			continue
		case setting == "partitions":
			d.number(property, "kafka.topics.partitions", 32, func(n int64) { d.c.Kafka.Topics.Partitions = int32(n) })
		case setting == "replication.factor":
			d.number(property, "kafka.topics.replication_factor", 16, func(n int64) { d.c.Kafka.Topics.ReplicationFactor = int16(n) })
		case setting == "include" || setting == "exclude":
			d.find(property, router.NotNeeded, "topics that walrelay makes all have these settings")
			continue
		default:
			config := maps.Clone(d.c.Kafka.Topics.Config)
			if config == nil {
				config = map[string]string{}
			}
			config[setting] = text
			d.c.Kafka.Topics.Config = config
			d.translated(property, "kafka.topics.config")
			d.c.from["kafka.topics.config"] = standard + "*"
		}
		d.c.Kafka.Topics.Create = true
		d.c.from["kafka.topics.create"] = standard + "*"
	}
}

// number translates a property that is a whole number.
func (d *debezium) number(property, key string, bits int, set func(int64)) {
	n, err := strconv.ParseInt(strings.TrimSpace(d.options[property]), 10, bits)
	if err != nil {
		d.find(property, router.Invalid, "want a whole number; %s keeps its default", key)
		return
	}
	set(n)
	d.translated(property, key)
}

// millis translates a property in milliseconds, within the bounds of the key.
func (d *debezium) millis(key string, low, high time.Duration, set func(time.Duration)) func(string) {
	return func(property string) {
		d.number(property, key, 64, func(n int64) { set(min(max(time.Duration(n)*time.Millisecond, low), high)) })
		if f := d.found[property]; f.Answer == router.Translated {
			d.find(property, f.Answer, "%s, which is %s to %s", key, short(low), short(high))
		}
	}
}

// producer translates the settings of Connect's producer.
func (d *debezium) producer(brokers []string) {
	k := &d.c.Kafka
	known := map[string]func(property string){
		"bootstrap.servers": func(property string) {
			k.Brokers = commaList(d.value(property, ""))
			d.translated(property, "kafka.brokers")
		},
		"client.id": func(property string) {
			k.ClientID = d.value(property, k.ClientID)
			d.translated(property, "kafka.client_id")
		},
		"compression.type": func(property string) {
			k.Compression = strings.ToLower(d.value(property, k.Compression))
			d.translated(property, "kafka.compression")
		},
		"request.timeout.ms":  d.millis("kafka.request_timeout", time.Second, 5*time.Minute, func(t time.Duration) { k.RequestTimeout = t }),
		"metadata.max.age.ms": d.millis("kafka.metadata_max_age", 100*time.Millisecond, time.Hour, func(t time.Duration) { k.MetadataMaxAge = t }),
		"security.protocol":   d.protocol,
		"sasl.mechanism":      d.mechanism,
		"sasl.jaas.config":    d.login,
		"acks":                d.acks,
		"partitioner.class": func(property string) {
			d.ask(property, router.NotSupported, "keys go to partitions by their murmur2 hash, as with Kafka's own default")
		},
		"ssl.endpoint.identification.algorithm": func(property string) {
			if strings.EqualFold(d.options[property], "https") {
				d.find(property, router.NotNeeded, "always so")
				return
			}
			d.ask(property, router.NotSupported, "the name in a broker's certificate is verified; another one can be named in kafka.tls.server_name")
		},
	}
	for property := range d.options {
		setting, ok := strings.CutPrefix(property, overridden)
		if !ok {
			continue
		}
		if translate := known[setting]; translate != nil {
			translate(property)
		} else {
			d.otherProducer(property, setting)
		}
	}
	if len(brokers) > 0 {
		k.Brokers = brokers
		d.c.from["kafka.brokers"] = "--kafka-brokers"
	}
	if len(k.Brokers) == 0 {
		k.Brokers = []string{unknownBroker}
		d.c.from["kafka.brokers"] = "to be decided"
		d.ask(overridden+"bootstrap.servers", router.NotSupported, "not in these options, Connect takes it from the worker: name Kafka's addresses in kafka.brokers")
	}
}

// producerAnswers are the settings of the producer that have no key; a pattern that ends in * stands for any rest.
var producerAnswers = []struct {
	pattern, note string
	answer        router.Answer
	decide        bool
}{
	{"batch.size", "batches grow by themselves while a request is under way, up to kafka.batch_bytes", router.NotNeeded, false},
	{"linger.ms", "batches grow by themselves while a request is under way; see kafka.linger", router.NotNeeded, false},
	{"buffer.memory", "memory is bounded by kafka.max_in_flight_bytes", router.NotNeeded, false},
	{"max.request.size", "a record may have kafka.max_record_bytes; the topic's max.message.bytes decides", router.NotNeeded, false},
	{"max.in.flight.requests.per.connection", "always in order, with any number", router.NotNeeded, false},
	{"enable.idempotence", "always on", router.NotNeeded, false},
	{"retries", "without limit", router.NotNeeded, false},
	{"retry.backoff*", "without limit, with back-off", router.NotNeeded, false},
	{"delivery.timeout.ms", "without limit", router.NotNeeded, false},
	{"max.block.ms", "nothing blocks", router.NotNeeded, false},
	{"transaction*", "every event stands in the log once without transactions", router.NotNeeded, false},
	{"partitioner.*", "keys go to partitions by their murmur2 hash", router.NotNeeded, false},
	{"connections.max.idle.ms", "connections are kept", router.NotNeeded, false},
	{"reconnect.*", "without limit, with back-off", router.NotNeeded, false},
	{"socket.*", "up to Go's library", router.NotNeeded, false},
	{"send.buffer.bytes", "up to the system", router.NotNeeded, false},
	{"receive.buffer.bytes", "up to the system", router.NotNeeded, false},
	{"client.dns.lookup", "up to Go's library", router.NotNeeded, false},
	{"metric*", "see /metrics", router.NotNeeded, false},
	{"auto.include.jmx.reporter", "see /metrics", router.NotNeeded, false},
	{"enable.metrics.push", "see /metrics", router.NotNeeded, false},
	{"key.serializer", "the bytes are those of key.converter", router.NotNeeded, false},
	{"value.serializer", "the bytes are those of value.converter", router.NotNeeded, false},
	{"compression.*", "the codec's own default", router.NotNeeded, false},
	{"interceptor.classes", "a Java class", router.NotSupported, true},
	{"ssl.truststore.type", "certificates are PEM, see ssl.truststore.location", router.NotNeeded, false},
	{"ssl.keystore.type", "certificates are PEM, see ssl.keystore.location", router.NotNeeded, false},
	{"ssl.protocol", "TLS 1.2 or newer", router.NotNeeded, false},
	{"ssl.enabled.protocols", "TLS 1.2 or newer", router.NotNeeded, false},
	{"ssl.truststore.location", "a file of the Connect worker: bring the certificates here as PEM and name the file in kafka.tls.ca_file", router.NotSupported, true},
	{"ssl.truststore.certificates", "put these PEM certificates into a file and name it in kafka.tls.ca_file", router.NotSupported, true},
	{"ssl.keystore.location", "a file of the Connect worker: bring certificate and key here as PEM and name the files in kafka.tls.cert_file and kafka.tls.key_file", router.NotSupported, true},
	{"ssl.keystore.certificate.chain", "put this PEM certificate into a file and name it in kafka.tls.cert_file", router.NotSupported, true},
	{"ssl.*", "a setting of Java's TLS", router.NotSupported, true},
	{"sasl.*", "a setting of Java's SASL; there is PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", router.NotSupported, true},
}

// producerSecrets are never written out.
var producerSecrets = map[string]string{
	"ssl.truststore.password": "PEM certificates need none",
	"ssl.keystore.password":   "the key in kafka.tls.key_file must be stored without a password",
	"ssl.key.password":        "the key in kafka.tls.key_file must be stored without a password",
	"ssl.keystore.key":        "put this PEM key into a file and name it in kafka.tls.key_file",
}

func (d *debezium) otherProducer(property, setting string) {
	if instead, ok := producerSecrets[setting]; ok {
		d.secret(property, instead)
		return
	}
	for _, known := range producerAnswers {
		prefix, any := strings.CutSuffix(known.pattern, "*")
		if setting == known.pattern || any && strings.HasPrefix(setting, prefix) {
			d.find(property, known.answer, "%s", known.note)
			if known.decide {
				d.decide(property)
			}
			return
		}
	}
	d.find(property, router.Unknown, "walrelay does not know this setting of the producer; nothing happens")
}

func (d *debezium) acks(property string) {
	if acks := strings.TrimSpace(d.options[property]); acks == "all" || acks == "-1" {
		d.find(property, router.NotNeeded, "always all")
		return
	}
	d.find(property, router.NotSupported, "every record waits for all replicas in sync; less can lose events")
}

func (d *debezium) protocol(property string) {
	switch protocol := strings.ToUpper(d.value(property, "")); protocol {
	case "SSL", "SASL_SSL":
		d.c.Kafka.TLS.Enabled = true
		d.translated(property, "kafka.tls.enabled")
	case "PLAINTEXT", "SASL_PLAINTEXT":
		d.find(property, router.Translated, "kafka.tls.enabled is off")
	default:
		d.find(property, router.Invalid, "want PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL")
	}
}

func (d *debezium) mechanism(property string) {
	switch mechanism := strings.ToUpper(d.value(property, "")); mechanism {
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
		d.c.Kafka.SASL.Mechanism = mechanism
		d.translated(property, "kafka.sasl.mechanism")
	default:
		d.ask(property, router.NotSupported, "there is %s", saslMechanisms)
	}
}

// jaasUser is the user in a login module's options: username="app" password="…";
var jaasUser = regexp.MustCompile(`(?:^|\s)username\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))`)

// login takes the user of the login module. Its password is the secret.
func (d *debezium) login(property string) {
	const password = "set WALRELAY_KAFKA_SASL_PASSWORD, or put it into a file and name that in kafka.sasl.password_file"
	match := jaasUser.FindStringSubmatch(d.options[property])
	user := ""
	if match != nil {
		user = unescaped.ReplaceAllString(match[1]+match[2]+match[3], "$1")
	}
	if user == "" || provided.MatchString(user) {
		d.secret(property, "set WALRELAY_KAFKA_SASL_USERNAME; and for the password: "+password)
		d.decide(property)
		d.c.Kafka.SASL.Username = "unknown"
		d.c.from["kafka.sasl.username"] = "to be decided"
		return
	}
	d.secret(property, "kafka.sasl.username has the user; for the password: "+password)
	d.c.Kafka.SASL.Username = user
	d.c.from["kafka.sasl.username"] = property
}

var unescaped = regexp.MustCompile(`\\(.)`)
