package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/walrelay/walrelay/config"
)

// settingFlags are the global flags: the file, and the keys that are set most often.
type settingFlags struct {
	file   string
	values map[string]*[]string // by key of the configuration, in the order given
}

// flagOfKey says which key a flag sets. A list may be given in several flags or with commas.
var flagOfKey = []struct {
	name, key, usage string
	list             bool
}{
	{name: "postgres-url", key: "postgres.url", usage: "`url` of the database, as postgres://user@host:5432/database"},
	{name: "kafka-brokers", key: "kafka.brokers", usage: "`host:port` of brokers to ask first, separated by commas", list: true},
	{name: "slot", key: "postgres.slot", usage: "`name` of the replication slot (default walrelay_<database>)"},
	{name: "publication", key: "postgres.publication", usage: "`name` of the publication (default that of the slot)"},
	{name: "table", key: "tables", usage: "`schema.table` of an outbox table, repeatable (default public.outbox)", list: true},
	{name: "http-listen", key: "http.listen", usage: "`host:port` of health, metrics and status, or off (default 127.0.0.1:9187)"},
	{name: "log-level", key: "log.level", usage: "least `level` to log: debug, info, warn or error (default info)"},
	{name: "log-format", key: "log.format", usage: "log `format`: json, console or auto (default auto)"},
}

func (f *settingFlags) add(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&f.file, "config", "", "configuration `file` in YAML, see walrelay.example.yaml")
	f.values = make(map[string]*[]string)
	for _, flag := range flagOfKey {
		if flag.list {
			f.values[flag.key] = flags.StringArray(flag.name, nil, flag.usage)
			continue
		}
		value := make([]string, 1)
		f.values[flag.key] = &value
		flags.StringVar(&value[0], flag.name, "", flag.usage)
	}
}

// load is the configuration of a command, checked.
func (p *program) load(cmd *cobra.Command) (config.Config, error) {
	sources := config.Sources{File: p.flags.file, Environ: p.environ}
	for _, flag := range flagOfKey {
		if cmd.Flags().Changed(flag.name) {
			value := strings.Join(*p.flags.values[flag.key], ",")
			sources.Flags = append(sources.Flags, config.Flag{Name: "--" + flag.name, Key: flag.key, Value: value})
		}
	}
	return config.Load(sources)
}
