package house

import (
	"slices"
	"strings"
)

const module = "github.com/walrelay/walrelay"

// layer is what the files of a package that are linked into the binary may import.
type layer struct {
	ours  []string // folders of this module
	third []string // import paths of other modules, with all below them
	pure  bool     // see impure
}

const (
	pgx     = "github.com/jackc/pgx/v5"
	zap     = "go.uber.org/zap"
	metrics = "github.com/prometheus/client_golang/prometheus"
	group   = "golang.org/x/sync/errgroup"
)

// layers is the import table of the design: imports only point to packages above in this list.
var layers = map[string]layer{
	"lsn":     {pure: true},
	"fault":   {pure: true},
	"socket":  {},
	"decoder": {pure: true, ours: []string{"lsn"}},
	"router":  {pure: true, ours: []string{"decoder", "lsn"}},
	"checkpoint": {ours: []string{"fault", "lsn"},
		third: []string{pgx}},
	"replication": {ours: []string{"fault", "migrations", "checkpoint", "decoder", "socket", "lsn"}, // the first start makes all of it
		third: []string{pgx, "github.com/jackc/pglogrepl", zap}},
	"kafka": {ours: []string{"fault", "router", "socket", "lsn"},
		third: []string{"github.com/segmentio/kafka-go/protocol", "github.com/segmentio/kafka-go/compress", "github.com/segmentio/kafka-go/sasl", zap, group}},
	"kafka/oauth": {
		third: []string{"github.com/segmentio/kafka-go/sasl"}},
	"audit": {ours: []string{"fault", "kafka", "router", "decoder", "lsn"},
		third: []string{pgx}},
	"relay": {ours: []string{"fault", "audit", "kafka", "replication", "checkpoint", "router", "decoder", "lsn"},
		third: []string{pgx, zap, metrics, group}},
	"doctor": {ours: []string{"fault", "relay", "kafka", "replication", "lsn"},
		third: []string{pgx}},
	"admin": {
		third: []string{metrics, zap}},
	"migrations": {
		third: []string{pgx, "github.com/pressly/goose/v3"}},
	"outbox": {
		third: []string{pgx}},
	"inbox": {ours: []string{"outbox", "lsn"},
		third: []string{pgx}},
	"inbox/consumer": {ours: []string{"inbox", "outbox"},
		third: []string{pgx, "github.com/segmentio/kafka-go", metrics, group}},
	"prune": {ours: []string{"fault"},
		third: []string{pgx}},
	"config": {ours: []string{"fault", "admin", "relay", "audit", "kafka", "kafka/oauth", "replication", "checkpoint", "router", "decoder", "lsn"},
		third: []string{"go.yaml.in/yaml/v3", "github.com/caarlos0/env/v11", pgx + "/pgconn", "github.com/segmentio/kafka-go/compress", "github.com/segmentio/kafka-go/sasl"}},
	"cmd/walrelay": {ours: []string{"fault", "config", "doctor", "relay", "audit", "kafka", "replication", "checkpoint", "router", "decoder", "lsn", "admin", "migrations", "prune"},
		third: []string{pgx, zap, metrics, group, "github.com/spf13/cobra"}},
}

// unlinked are the folders that never reach the binary and that nobody above may import. They may import everything.
var unlinked = []string{"demo", "e2e", "bench", "deploy", "examples", "internal"}

// Imports reports files that import what their package's layer does not list. Test files may import what they like but
// the programs.
func Imports(t *Tree) []Violation {
	var found []Violation
	for _, f := range t.Go {
		for _, spec := range f.AST.Imports {
			if why := forbidden(f, strings.Trim(spec.Path.Value, `"`)); why != "" {
				found = append(found, f.At(spec, "imports %s: %s", spec.Path.Value, why))
			}
		}
	}
	return append(found, unknownPackages(t)...)
}

func unknownPackages(t *Tree) []Violation {
	var found []Violation
	seen := map[string]bool{}
	for _, f := range t.Go {
		if seen[f.Dir()] {
			continue
		}
		seen[f.Dir()] = true
		if _, known := layers[f.Dir()]; !known && !below(f.Dir(), unlinked) {
			found = append(found, Violation{f.Dir(), "package is not in the import table of the design: add it there and to layers"})
		}
	}
	return found
}

func forbidden(f *File, imported string) string {
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	program := isOurs && below(ours, []string{"cmd", "demo", "e2e", "examples"}) && !below(ours, []string{f.Dir()})
	switch {
	case program:
		return "a program is imported by nobody"
	case below(f.Dir(), unlinked) || f.Test:
		return ""
	case isOurs && !slices.Contains(layers[f.Dir()].ours, ours):
		return "not below this package in the import table"
	case !isOurs && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") && !below(imported, layers[f.Dir()].third):
		return "this module is not listed for this package"
	}
	return ""
}

// below tells whether path is one of roots or lies below one.
func below(path string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}
