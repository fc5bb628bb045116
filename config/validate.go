package config

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/walrelay/walrelay/admin"
	"github.com/walrelay/walrelay/kafka"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// validation collects the problems of a configuration's values.
type validation struct {
	config   Config
	problems Problems
}

// wrong says what is wanted for a key; its value and source are added.
func (v *validation) wrong(key, want string) {
	p := Problem{Key: key, From: v.config.from[key], Want: want}
	for _, s := range v.config.settings() {
		if s.key == key {
			p.Value = s.shown()
		}
	}
	v.problems = append(v.problems, p)
}

// values checks what no other package knows.
func (v *validation) values() {
	v.postgres()
	v.tables()
	v.messages()
	v.http()
	v.oneOf("on_stop", v.config.OnStop, "exit", "wait")
	if w := v.config.SlotWatch; w.WarnBytes < 1<<20 || w.UnreadyBytes < w.WarnBytes {
		v.wrong("slot_watch.warn_bytes", "want 1MiB to slot_watch.unready_bytes")
	}
	v.oneOf("on_poison", v.config.OnPoison, "halt", "dead_letter")
	v.oneOf("kafka.resume", v.config.Kafka.Resume, string(kafka.ResumePrefer), string(kafka.ResumeRequire), string(kafka.ResumeOff))
	if !kafka.LegalTopicName(v.config.DeadLetterTopic) {
		v.wrong("dead_letter_topic", "want 1 to 249 letters, digits, dots, underscores and hyphens")
	}
	v.oneOf("log.level", v.config.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", v.config.Log.Format, "auto", "json", "console")
	v.duration("checkpoint.save_interval", v.config.Checkpoint.SaveInterval, 100*time.Millisecond, time.Minute)
	v.duration("drain_timeout", v.config.DrainTimeout, time.Second, 10*time.Minute)
}

func (v *validation) oneOf(key, value string, allowed ...string) {
	for _, word := range allowed {
		if value == word {
			return
		}
	}
	last := len(allowed) - 1
	v.wrong(key, "want "+strings.Join(allowed[:last], ", ")+" or "+allowed[last])
}

func (v *validation) duration(key string, value, low, high time.Duration) {
	if value < low || value > high {
		v.wrong(key, fmt.Sprintf("want %s to %s", short(low), short(high)))
	}
}

var workMem = regexp.MustCompile(`^[1-9][0-9]*(kB|MB|GB|TB)?$`)

func (v *validation) postgres() {
	p := v.config.Postgres
	if p.URL.Reveal() != "" || p.URLFile == "" { // a file that gave nothing was reported when it was read
		v.url(p.URL)
	}
	if p.Slot != "" && replication.CheckSlotName(p.Slot) != nil {
		v.wrong("postgres.slot", "want 1 to 63 characters out of a-z, 0-9 and _")
	}
	if len(p.Publication) > 63 || strings.ContainsRune(p.Publication, 0) {
		v.wrong("postgres.publication", "want at most 63 bytes")
	}
	v.duration("postgres.wal_sender_timeout", p.WALSenderTimeout, 5*time.Second, time.Hour)
	if p.LogicalDecodingWorkMem != "" && !workMem.MatchString(p.LogicalDecodingWorkMem) {
		v.wrong("postgres.logical_decoding_work_mem", "want a number with kB, MB or GB, such as 256MB")
	}
	if p.MaxEventBytes < 64<<10 || p.MaxEventBytes > 1<<30 {
		v.wrong("postgres.max_event_bytes", "want 64KiB to 1GiB")
	}
}

const urlExample = "postgres://user:password@host:5432/database"

// url gives the driver's answer only where that cannot hold a part of the password.
func (v *validation) url(url ConnString) {
	const key = "postgres.url"
	if url.Reveal() == "" {
		v.wrong(key, "not set; want "+urlExample+howToSet(key, "--postgres-url"))
		return
	}
	_, err := pgconn.ParseConfig(url.Reveal())
	if err == nil {
		return
	}
	want := "cannot be read; want " + urlExample + ", with special characters of the password encoded (%2F for /, %40 for @)"
	if strings.Contains(err.Error(), "failed to configure TLS") && errors.Unwrap(err) != nil {
		want = "its TLS settings are wrong: " + errors.Unwrap(err).Error()
	}
	v.wrong(key, want)
}

func howToSet(key, flag string) string {
	variable := variablePrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	return fmt.Sprintf("; set %s, %s or %s in the file", variable, flag, key)
}

func (v *validation) tables() {
	if len(v.config.Tables) == 0 && !v.config.Messages.Enabled {
		v.wrong("tables", "want at least one, such as public.outbox; or messages.enabled")
	}
	seen := make(map[string]bool)
	for i, table := range v.config.Tables {
		switch {
		case !qualified(table.Name):
			v.entry("tables", i, table.Name, "want schema.table, such as public.outbox")
		case seen[table.Name]:
			v.entry("tables", i, table.Name, "the same table twice; want it once")
		}
		seen[table.Name] = true
		for _, err := range errorsOf(table.Route.Validate()) {
			v.entry("tables", i, table.Name, err.Error())
		}
	}
	for i, name := range v.config.Ignore {
		switch {
		case !qualified(name):
			v.entry("ignore", i, name, "want schema.table")
		case seen[name]:
			v.entry("ignore", i, name, "is in tables too; want it in one of the two")
		}
	}
}

// messages checks the section where it is in use.
func (v *validation) messages() {
	m := v.config.Messages
	v.oneOf("messages.on_poison", m.OnPoison, "dead_letter", "halt")
	if !m.Enabled {
		return
	}
	if m.Prefix == "" || len(m.Prefix) > 63 {
		v.wrong("messages.prefix", "want 1 to 63 bytes")
	}
	if len(m.Topics) == 0 {
		v.wrong("messages.topics", "not set; want the topics that messages may go to, such as outbox.event.*, since any role can write messages")
	}
	for i, topic := range m.Topics {
		if name := strings.TrimSuffix(topic, "*"); name != "" && !kafka.LegalTopicName(name) || topic == "" {
			v.entry("messages.topics", i, topic, "want a topic, or the beginning of one with a * behind it")
		}
	}
	problems := errorsOf(m.Route.Validate())
	if len(problems) == 0 {
		_, err := router.BindEnvelope(m.Route, []string{"*"})
		problems = errorsOf(err)
	}
	for _, err := range problems {
		v.problems = append(v.problems, Problem{Key: "messages", Want: strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
}

// entry is a problem with one item of a list.
func (v *validation) entry(list string, index int, value, want string) {
	key := fmt.Sprintf("%s[%d]", list, index)
	from := v.config.from[key]
	if from == "" {
		from = v.config.from[list]
	}
	v.problems = append(v.problems, Problem{Key: key, Value: value, From: from, Want: want})
}

func qualified(name string) bool {
	schema, table, ok := strings.Cut(name, ".")
	return ok && schema != "" && table != "" && len(schema) < 64 && len(table) < 64 && !strings.Contains(name, `"`)
}

func (v *validation) http() {
	v.keyPair("http", v.config.HTTP.CertFile, v.config.HTTP.KeyFile)
	if token := v.config.HTTP.Token.Reveal(); token != "" && len(token) < 16 {
		v.wrong("http.token", "want at least 16 characters")
	}
	listen := v.config.HTTP.Listen
	if listen == admin.Off {
		return
	}
	if _, _, err := net.SplitHostPort(listen); err != nil {
		v.wrong("http.listen", fmt.Sprintf("want host:port, such as %s or :9187 for all addresses, or %s", admin.DefaultListen, admin.Off))
	}
}

// producerKeys are the names in the messages of kafka.Config.Validate, and our keys for them.
var producerKeys = map[string]string{
	"kafka brokers":                  "kafka.brokers",
	"kafka broker":                   "kafka.brokers",
	"kafka topic partitions":         "kafka.topics.partitions",
	"kafka topic replication factor": "kafka.topics.replication_factor",
	"kafka batch bytes":              "kafka.batch_bytes",
	"kafka in-flight bytes":          "kafka.max_in_flight_bytes",
	"kafka in-flight records":        "kafka.max_in_flight_records",
	"kafka record bytes":             "kafka.max_record_bytes",
	"kafka linger":                   "kafka.linger",
	"kafka topic wait":               "kafka.topics.wait",
	"kafka halt retry":               "kafka.halt_retry",
	"kafka dial timeout":             "kafka.dial_timeout",
	"kafka request timeout":          "kafka.request_timeout",
	"kafka metadata age":             "kafka.metadata_max_age",
}

// producer asks package kafka, which knows the bounds of its own settings.
func (v *validation) producer(k kafka.Config) {
	if len(k.Brokers) == 0 {
		v.wrong("kafka.brokers", "not set; want host:port, more of them separated by commas"+howToSet("kafka.brokers", "--kafka-brokers"))
		k.Brokers = []string{"unset:0"}
	}
	for _, err := range errorsOf(k.Validate()) {
		text := err.Error()
		key := ""
		for name, candidate := range producerKeys {
			if strings.HasPrefix(text, name+" ") && len(candidate) > len(key) {
				key = candidate
			}
		}
		_, want, found := strings.Cut(text, ": ")
		if key == "" || !found {
			v.problems = append(v.problems, Problem{Key: "kafka", Want: text})
			continue
		}
		v.wrong(key, want)
	}
	v.zeros()
}

// zeros refuses 0 where the packages would take it as their default: a person who writes request_timeout: 0 means
// something else.
func (v *validation) zeros() {
	standard := Default()
	defaults := standard.settings()
	for i, s := range v.config.settings() {
		switch s.value.Kind() {
		case reflect.Int, reflect.Int16, reflect.Int32, reflect.Int64:
			if strings.HasPrefix(s.key, "kafka.") && s.value.IsZero() && !defaults[i].value.IsZero() {
				v.wrong(s.key, "0 is no value of it; leave it out for "+defaults[i].shown())
			}
		}
	}
}

// errorsOf are the parts of a joined error.
func errorsOf(err error) []error {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, part := range joined.Unwrap() {
			all = append(all, errorsOf(part)...)
		}
		return all
	}
	return []error{err}
}
