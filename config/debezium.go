package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/walrelay/walrelay/router"
)

// Import is what a connector of Debezium becomes.
type Import struct {
	// Config is the configuration. It holds no secret.
	Config Config
	// Findings are the answers to the properties, one for each, and to some that are absent; in the order of their names.
	Findings []ImportFinding
	// Secrets are the properties with secrets, none of which is copied, and how walrelay gets them.
	Secrets []ImportFinding
}

// ImportFinding is the answer to one property.
type ImportFinding struct {
	router.Finding
	// Decide: a person must look at it before the configuration is used.
	Decide bool
}

// Decisions are the findings that wait for a person.
func (i Import) Decisions() []ImportFinding {
	return slices.DeleteFunc(slices.Clone(i.Findings), func(f ImportFinding) bool { return !f.Decide })
}

// Hosts that stand where the connector does not tell: by RFC 2606 there is nothing of that name, anywhere.
const (
	unknownHost   = "postgres.invalid"
	unknownBroker = "kafka.invalid:9092"
)

// FromDebezium translates the options of a Debezium Postgres connector with the EventRouter. worker are the properties of
// its Connect worker, which has defaults for some; nil: not known. brokers are Kafka's addresses; none: as the options
// tell. It connects to nothing and reads no files.
func FromDebezium(options, worker map[string]string, brokers []string) Import {
	d := &debezium{options: maps.Clone(options), found: map[string]ImportFinding{}, c: Default()}
	if d.options == nil {
		d.options = map[string]string{}
	}
	d.c.from = map[string]string{}
	d.worker(worker)
	route, findings := router.FromDebezium(d.options)
	for _, f := range findings {
		d.found[f.Property] = ImportFinding{Finding: f, Decide: f.Answer == router.NotSupported && shapesRecords(f.Property)}
	}
	d.connector()
	d.postgres()
	d.slot()
	d.tables(route, findings)
	d.messages(route)
	d.topics()
	d.producer(brokers)
	d.unresolved()
	d.check()
	for property, f := range d.found {
		if f.Answer == router.Elsewhere { // no part of the above knows it
			d.find(property, router.NotSupported, "it has no counterpart")
		}
		if f.Answer == router.Invalid || f.Answer == router.Unknown {
			d.decide(property)
		}
	}
	byName := func(a, b ImportFinding) int { return cmp.Compare(a.Property, b.Property) }
	slices.SortFunc(d.secrets, byName)
	return Import{Config: d.c, Findings: slices.SortedFunc(maps.Values(d.found), byName), Secrets: d.secrets}
}

// debezium is the translation of one connector.
type debezium struct {
	options map[string]string
	c       Config
	found   map[string]ImportFinding
	secrets []ImportFinding
}

func (d *debezium) find(property string, answer router.Answer, format string, args ...any) {
	d.found[property] = ImportFinding{Finding: router.Finding{Property: property, Answer: answer, Note: fmt.Sprintf(format, args...)}}
}

// decide leaves the finding to a person.
func (d *debezium) decide(property string) {
	f := d.found[property]
	f.Decide = true
	d.found[property] = f
}

// ask is a finding that is left to a person.
func (d *debezium) ask(property string, answer router.Answer, format string, args ...any) {
	d.find(property, answer, format, args...)
	d.decide(property)
}

// translated says that a key has the value of a property.
func (d *debezium) translated(property, key string) {
	d.c.from[key] = property
	d.find(property, router.Translated, "%s", key)
}

// secret leaves out the value of a property.
func (d *debezium) secret(property, instead string) {
	d.find(property, router.NotSupported, "secrets are not copied: %s", instead)
	d.secrets = append(d.secrets, ImportFinding{Finding: router.Finding{Property: property, Note: instead}})
}

// shapesRecords tells whether a property that is not supported makes other records, or none.
func shapesRecords(property string) bool {
	for _, begin := range []string{"transforms", "key.converter", "value.converter", "header.converter", "converters", "column.", "post.processors"} {
		if strings.HasPrefix(property, begin) {
			return true
		}
	}
	return false
}

// ofWorker are what connectors take from the worker where they do not say otherwise.
var ofWorker = []string{"key.converter", "value.converter", "header.converter"}

// worker fills in what the connector takes from its worker, and answers the rest.
func (d *debezium) worker(properties map[string]string) {
	taken := map[string]bool{}
	take := func(name, as string) {
		if _, set := d.options[as]; !set {
			d.options[as] = properties[name]
		}
		taken[name] = true
	}
	for _, converter := range ofWorker {
		_, own := d.options[converter]
		for name := range properties {
			if !own && (name == converter || strings.HasPrefix(name, converter+".")) {
				take(name, name)
			}
		}
	}
	for name := range properties {
		if setting, ok := strings.CutPrefix(name, "producer."); ok {
			take(name, overridden+setting)
		}
	}
	if _, ok := properties["bootstrap.servers"]; ok {
		take("bootstrap.servers", overridden+"bootstrap.servers")
	}
	for name := range properties {
		if !taken[name] {
			d.find("worker: "+name, router.NotNeeded, "a setting of the Connect worker")
		}
	}
}

func (d *debezium) connector() {
	const property, want = "connector.class", "io.debezium.connector.postgresql.PostgresConnector"
	if class := d.options[property]; class != want && class != "PostgresConnector" && class != "PostgresSQLConnector" {
		d.ask(property, router.Invalid, "walrelay takes over from %s only", want)
	}
}

// provided is a value that Connect takes from a config provider, such as ${file:/etc/secrets:password}.
var provided = regexp.MustCompile(`\$\{[^}:]+:[^}]*\}`)

// value is the text of an option, or the given one where there is none or Connect takes it from elsewhere.
func (d *debezium) value(property, otherwise string) string {
	text := strings.TrimSpace(d.options[property])
	if text == "" || provided.MatchString(text) {
		return otherwise
	}
	return text
}

// unresolved asks about values that Connect would have taken from elsewhere.
func (d *debezium) unresolved() {
	for property, text := range d.options {
		if f := d.found[property]; f.Answer == router.Translated && provided.MatchString(text) {
			d.ask(property, router.Translated, "%s; Connect takes the value from a config provider: write it into the file", f.Note)
		}
	}
}

func (d *debezium) postgres() {
	const host, port, user, database, mode = "database.hostname", "database.port", "database.user", "database.dbname", "database.sslmode"
	for _, property := range []string{host, port, user, database, mode} {
		if _, ok := d.options[property]; ok {
			d.translated(property, "postgres.url")
		}
	}
	number := d.value(port, "5432")
	if _, err := strconv.ParseUint(number, 10, 16); err != nil {
		d.find(port, router.Invalid, "want a number; 5432 is taken")
		number = "5432"
	}
	address := url.URL{Scheme: "postgres", Host: net.JoinHostPort(d.value(host, unknownHost), number), Path: "/" + d.value(database, "postgres")}
	if name := d.value(user, ""); name != "" {
		address.User = url.User(name)
	}
	switch word := strings.ToLower(d.value(mode, "")); word {
	case "":
	case "disable", "allow", "prefer", "require", "verify-ca", "verify-full":
		address.RawQuery = url.Values{"sslmode": {word}}.Encode()
	default:
		d.find(mode, router.Invalid, "want disable, allow, prefer, require, verify-ca or verify-full")
	}
	d.c.Postgres.URL = NewConnString(address.String())
	d.c.from["postgres.url"] = "database.*"
	for _, property := range []string{host, database} {
		if d.options[property] == "" {
			d.ask(property, router.NotSupported, "not in these options; name it in postgres.url")
		}
	}
	if _, ok := d.options["database.password"]; ok {
		d.secret("database.password", "set PGPASSWORD, or put the whole URL into a file and name that in postgres.url_file")
	}
	for _, name := range []string{"sslrootcert", "sslcert", "sslkey"} {
		if _, ok := d.options["database."+name]; ok {
			d.ask("database."+name, router.NotSupported, "a file of the Connect worker: bring it here and add %s=<path> to postgres.url", name)
		}
	}
	if _, ok := d.options["database.sslpassword"]; ok {
		d.secret("database.sslpassword", "keys must be stored without a password")
	}
	if _, ok := d.options["database.sslfactory"]; ok {
		d.ask("database.sslfactory", router.NotSupported, "a Java class; certificates are verified by Go's library")
	}
}

// slot takes the slot over, with a publication of its own: Debezium's has updates and deletes, and often other tables.
func (d *debezium) slot() {
	const plugin, slot, publication = "plugin.name", "slot.name", "publication.name"
	d.c.Postgres.Slot = d.value(slot, "debezium")
	d.translated(slot, "postgres.slot")
	if d.options[slot] == "" {
		d.find(slot, router.Translated, "postgres.slot; not in these options, Debezium's default is debezium")
	}
	name := "walrelay_" + d.c.Postgres.Slot
	d.c.Postgres.Publication = name[:min(len(name), 63)]
	d.c.from["postgres.publication"] = "a new one, not publication.name"
	d.find(publication, router.NotNeeded, "walrelay slot adopt makes a publication for inserts into the outbox alone: postgres.publication")
	if name := d.value(plugin, "decoderbufs"); name != "pgoutput" {
		d.ask(plugin, router.NotSupported, "%s, and walrelay reads pgoutput only: the slot cannot be taken over; "+
			"name a new one in postgres.slot, which walrelay init makes", name)
	}
	if _, ok := d.options["slot.failover"]; ok {
		d.find("slot.failover", router.NotNeeded, "the slot keeps this property; a new one gets it by walrelay slot create --failover")
	}
}

// literal is a pattern that matches one name only, as Debezium's lists mostly are.
var literal = regexp.MustCompile(`^[\p{L}\p{N}_$]+(?:\\?\.|\[\.\])[\p{L}\p{N}_$]+$`)

func (d *debezium) tables(route router.Config, findings []router.Finding) {
	const include = "table.include.list"
	var names []string
	strange := ""
	for pattern := range strings.SplitSeq(d.value(include, ""), ",") {
		switch pattern = strings.TrimSpace(pattern); {
		case pattern == "":
		case literal.MatchString(pattern):
			names = append(names, strings.NewReplacer(`\.`, ".", "[.]", ".").Replace(pattern))
		default:
			strange = pattern
		}
	}
	switch {
	case strange != "":
		d.ask(include, router.NotSupported, "%s is a pattern, and walrelay takes names: list the tables in tables", strange)
	case len(names) > 0:
		d.translated(include, "tables")
	case d.options["publication.autocreate.mode"] != "no_tables":
		d.ask(include, router.NotSupported, "not in these options; name the outbox table in tables")
		names = []string{"public.outbox"}
	}
	for _, property := range []string{"table.exclude.list", "schema.include.list", "schema.exclude.list", "database.include.list"} {
		if _, ok := d.options[property]; ok {
			d.find(property, router.NotNeeded, "the outbox tables are listed in tables")
		}
	}
	d.c.from["tables"] = include
	d.c.Tables = []Table{}
	for i, name := range names {
		d.c.Tables = append(d.c.Tables, Table{Name: name, Route: route})
		d.sources(fmt.Sprintf("tables[%d].", i), findings)
	}
	for property, f := range d.found {
		if strings.HasPrefix(property, "transforms.") && strings.HasSuffix(property, ".predicate") && f.Answer == router.NotNeeded {
			d.ask(property, f.Answer, "every row of tables goes through the router: list outbox tables only")
		}
	}
}

// sources notes which property a key of a table comes from, which its finding names first.
func (d *debezium) sources(prefix string, findings []router.Finding) {
	for _, f := range findings {
		key, _, _ := strings.Cut(f.Note, ":")
		key, _, _ = strings.Cut(key, ";")
		if _, set := d.options[f.Property]; set && f.Answer == router.Translated && !strings.Contains(key, " ") {
			d.c.from[prefix+key] = f.Property
		}
	}
}

// messages takes over an outbox without a table: the connector's DecodeLogicalDecodingMessageContent.
func (d *debezium) messages(route router.Config) {
	const include, exclude = "message.prefix.include.list", "message.prefix.exclude.list"
	if _, ok := d.options[exclude]; ok {
		d.find(exclude, router.NotNeeded, "messages.prefix is the only one that is read")
	}
	prefix := d.options[include]
	if prefix == "" {
		return
	}
	replacement := cmp.Or(route.Route.Replacement, "outbox.event.")
	topic, _, _ := strings.Cut(replacement, "$")
	if topic == "" || strings.ContainsAny(prefix, `,\^$.|?*+()[]{}`) {
		d.ask(include, router.NotSupported, "messages are off; name their one prefix in messages.prefix and the topics that they may go to in messages.topics")
		return
	}
	d.c.Messages.Enabled, d.c.Messages.Prefix, d.c.Messages.Topics, d.c.Messages.Route = true, prefix, []string{topic + "*"}, route
	d.translated(include, "messages.prefix")
	for _, key := range []string{"messages.enabled", "messages.topics"} {
		d.c.from[key] = include
	}
}

// check asks about everything that the configuration would be refused for, but secrets that are not there yet.
func (d *debezium) check() {
	_, err := d.c.Relay()
	problems, _ := err.(Problems)
	for _, p := range problems {
		if p.Key == "kafka.sasl.password" {
			continue
		}
		d.ask(p.Key, router.Invalid, "%s", p.String())
	}
}
