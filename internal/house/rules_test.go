package house

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestLicences(t *testing.T) {
	const mit, gpl = "Permission is hereby granted, free of charge, to any person\n obtaining a copy", "GNU GENERAL PUBLIC LICENSE"
	const mpl, bsd = "Mozilla Public License Version 2.0, not the GNU Affero General Public License", "Redistributions in binary form must reproduce\nthe above copyright notice"
	for text, want := range map[string]string{mit: "MIT", gpl: "GPL", mpl: "MPL-2.0", bsd: "BSD-2-Clause", bsd + " may be used to endorse or promote products derived": "BSD-3-Clause", "mine": ""} {
		if got := Licence(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	found := Licences([]Module{
		{Path: "a", Linked: true, Licences: map[string]string{"LICENSE": mit}}, {Path: "b", Linked: true, Licences: map[string]string{"LICENSE": mpl}},
		{Path: "c", Licences: map[string]string{"LICENSE": mpl}}, {Path: "d", Licences: map[string]string{"LICENSE": gpl}}, {Path: "e"},
	})
	var where []string
	for _, v := range found {
		where = append(where, strings.TrimSpace(v.Where))
	}
	if diff := cmp.Diff([]string{"b", "d", "e"}, where); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
	if !IsLicence("x/LICENCE.md") || IsLicence("x/main.go") {
		t.Error("licence files are not known by their names")
	}
	missing := Dependencies("require a.b/c v1\nrequire (\n\td.e/f v1\n\tg.h/i v1 // indirect\n\td.e/f/sub v2\n)\n",
		"| `d.e/f`, `sub` | a reason of some length |\n| `x.y/z` | a reason of some length |\n")
	if len(missing) != 2 || !strings.Contains(missing[0].What, "a.b/c") || !strings.Contains(missing[1].What, "x.y/z") {
		t.Errorf("%v", missing)
	}
}

// cases are, for each rule, code that breaks it beside code that does not, and what the rule says of it.
var cases = []struct {
	name  string
	rule  func(*Tree) []Violation
	files map[string]string
	want  []string
}{
	{"imports point down the table", Imports, map[string]string{
		"decoder/a.go":         "package decoder\nimport \"github.com/walrelay/walrelay/router\"\n",
		"router/a.go":          "package router\nimport \"github.com/walrelay/walrelay/decoder\"\n",
		"kafka/a.go":           "package kafka\nimport _ \"github.com/segmentio/kafka-go\"\n",
		"kafka/b.go":           "package kafka\nimport _ \"github.com/segmentio/kafka-go/protocol/produce\"\n",
		"relay/a_test.go":      "package relay\nimport _ \"github.com/twmb/franz-go/pkg/kgo\"\n",
		"relay/a.go":           "package relay\nimport _ \"github.com/walrelay/walrelay/internal/pgtest\"\n",
		"internal/pgtest/a.go": "package pgtest\nimport _ \"github.com/walrelay/walrelay/e2e\"\n",
		"demo/a.go":            "package main\nimport _ \"github.com/walrelay/walrelay/relay\"\n",
		"gadgets/a.go":         "package gadgets\n",
	}, []string{
		`decoder/a.go:2: imports "github.com/walrelay/walrelay/router": not below this package in the import table`,
		`gadgets: package is not in the import table of the design: add it there and to layers`,
		`internal/pgtest/a.go:2: imports "github.com/walrelay/walrelay/e2e": a program is imported by nobody`,
		`kafka/a.go:2: imports "github.com/segmentio/kafka-go": this module is not listed for this package`,
		`relay/a.go:2: imports "github.com/walrelay/walrelay/internal/pgtest": not below this package in the import table`,
	}},
	{"links lead somewhere", Links, map[string]string{
		"a.md":      "[b](docs/b.md) [c](docs/b.md#the-first-one) [d](docs/) [e](https://nowhere.example) [f](#here)\n# Here\n```\n[x](x)\n```\n[g](docs/none.md) [h](docs/b.md#none)\n",
		"docs/b.md": "## The first, `one`!\n[a](../a.md) [z](../z.md)\n",
	}, []string{"a.md: link to docs/b.md#none: no such heading", "a.md: link to docs/none.md: no such file", "docs/b.md: link to ../z.md: no such file"}},
	{"named tests exist", Proofs, map[string]string{
		guarantees:    "| a | TestA, TestB*, TestNone; scenarios `one`, `tw*`, scenario `three` |\n",
		"a/a_test.go": "package a\nfunc TestA() {}\nfunc TestBoth() {}\n", "a/a.go": "package a\nfunc TestNone() {}\n",
		"relay/testdata/scenarios/one.txt": "x", "relay/testdata/scenarios/two.txt": "x",
	}, []string{
		"docs/guarantees.md: names the scenario three, which does not exist", "docs/guarantees.md: names the test TestNone, which does not exist",
	}},
	{"make help tells of each target", Targets, map[string]string{
		"Makefile": ".PHONY: a b\na: b ## does a\n\techo\nb:\n\techo\nc: ## does c\n",
	}, []string{"Makefile: target b has no ## text for make help", "Makefile: target c is not in .PHONY"}},
	{"pure packages do no I/O", Pure, map[string]string{
		"lsn/a.go":               "package lsn\nimport (\n\"net/netip\"\n\"time\"\n)\nvar a netip.Addr\nvar d time.Duration\nfunc f() { go f(); time.Now() }\n",
		"lsn/a_test.go":          "package lsn\nimport _ \"os\"\n",
		"checkpoint/window.go":   "package checkpoint\nimport _ \"github.com/jackc/pgx/v5\"\n",
		"checkpoint/store.go":    "package checkpoint\nimport _ \"github.com/jackc/pgx/v5\"\n",
		"internal/pgtest/own.go": "package pgtest\nimport _ \"os\"\n",
	}, []string{
		`checkpoint/window.go:2: imports "github.com/jackc/pgx/v5", but this code is pure`,
		`lsn/a.go:3: imports "net/netip", but this code is pure`,
		`lsn/a.go:8: starts a goroutine, but this code is pure`,
		`lsn/a.go:8: time.Now, but this code is pure`,
	}},
	{"sizes", Sizes, map[string]string{
		"relay/long.go":          "package relay\n" + strings.Repeat("\n", 400),
		"relay/long_test.go":     "package relay\n" + strings.Repeat("\n", 799),
		"relay/function.go":      "package relay\n" + function(81) + function(80),
		"cmd/walrelay/main.go":   "package main\n" + strings.Repeat("\n", 60),
		"cmd/walrelay/relay.go":  "package main\n" + strings.Repeat("\n", 60),
		"relay/generated.go":     "// Code generated by x. DO NOT EDIT.\npackage relay\n" + strings.Repeat("\n", 400),
		"deploy/a/go.mod":        "module a\n",
		"deploy/a/other.go":      "package a\n" + strings.Repeat("\n", 400),
		"decoder/testdata/in.go": "no Go at all",
	}, []string{
		"cmd/walrelay/main.go: 61 lines, limit 60",
		"module: one function in ten has 81 lines or more, limit 50",
		"relay/function.go:2: function f has 81 lines, limit 80",
		"relay/long.go: 401 lines, limit 400",
	}},
	{"names", Names, map[string]string{
		"relay/utils.go":        "package relay\ntype ConnectionManager struct{}\ntype Connection struct{}\n",
		"internal/common/a.txt": "",
		"decoder/type.go":       "package decoder\n",
	}, []string{
		`internal/common/a.txt: the name "common" says nothing: name what it holds`,
		`relay/utils.go: the name "utils" says nothing: name what it holds`,
		`relay/utils.go:2: type ConnectionManager: name what it does`,
	}},
	{"package comments", PackageDocs, map[string]string{
		"lsn/doc.go":     "// Package lsn.\npackage lsn\n",
		"lsn/lsn.go":     "// Package lsn again.\npackage lsn\n",
		"router/doc.go":  "package router\n",
		"admin/admin.go": "package admin\n",
	}, []string{
		"admin: no package comment in doc.go",
		"lsn/lsn.go:1: package comment outside doc.go",
		"router: no package comment in doc.go",
	}},
	{"documented", Documented, map[string]string{
		"lsn/lsn.go": "package lsn\n// A is.\ntype A struct{ B int }\n// C is.\ntype C interface {\n// D does.\nD()\nE()\n}\n" +
			"func (A) String() string { return \"\" }\nfunc (a) F() {}\nfunc (*A) G() {}\nconst (\nH = 1\nI = 2 // is\n)\ntype a int\n",
		"lsn/lsn_test.go": "package lsn\nfunc TestA() {}\n",
		"router/doc.go":   "package router\n// F does.\nfunc F() {}\n",
	}, []string{
		"lsn/lsn.go:12: A.G is exported and has no comment",
		"lsn/lsn.go:14: H is exported and has no comment",
		"lsn/lsn.go:8: C.E is exported and has no comment",
		"lsn: 57 % of the exported identifiers are documented, at least 95",
	}},
	{"goroutines", Goroutines, map[string]string{
		"migrations/a.go":      "package migrations\nfunc f() {\ngo f()\ng.Go(f)\n}\n",
		"migrations/a_test.go": "package migrations\nfunc g() { go f() }\n",
		"kafka/a.go":           "package kafka\nfunc f() { go f() }\n",
	}, []string{
		"migrations/a.go:3: starts a goroutine",
		"migrations/a.go:4: starts a goroutine",
		"migrations: starts goroutines in 2 places, limit 0",
	}},
	{"stored contexts", StoredContexts, map[string]string{
		"relay/a.go": "package relay\nimport \"context\"\ntype a struct {\nctx context.Context\n}\nfunc f(ctx context.Context) {}\n",
	}, []string{
		"relay/a.go:4: a context is stored in a struct: pass it as first parameter",
	}},
	{"sleeps", Sleeps, map[string]string{
		"relay/a.go":             "package relay\nimport \"time\"\nfunc f() { for ; ; time.Sleep(1) {} }\n",
		"relay/a_test.go":        "package relay\nimport tm \"time\"\nfunc g() { tm.Sleep(1) }\n",
		"relay/b_test.go":        "package relay\nimport \"time\"\nfunc h() {\nfor ; ; time.Sleep(1) {\ntime.Sleep(2)\n}\n}\n",
		"relay/c_test.go":        "package relay\nimport \"time\"\nfunc i() {\nsynctest.Test(t, func() { time.Sleep(1) })\nh.inBubble(func() { time.Sleep(1) })\nt.Run(func() { time.Sleep(1) })\n}\n",
		"relay/scenario_test.go": "package relay\nimport \"time\"\nfunc j() { time.Sleep(1) }\n",
		"kafka/network_test.go":  "package kafka\n",
	}, []string{
		"kafka/network_test.go: need not be allowed to sleep: take it off the list",
		"relay/a.go:3: time.Sleep: wait for a signal, or poll with a deadline",
		"relay/a_test.go:3: time.Sleep: wait for a signal, or poll with a deadline",
		"relay/b_test.go:5: time.Sleep: wait for a signal, or poll with a deadline",
		"relay/c_test.go:6: time.Sleep: wait for a signal, or poll with a deadline",
	}},
	{"texts", Texts, map[string]string{
		"README.md": "TO" + "DO: later\nTO" + "DO(issue 4): later\nFIX" + "ME(issue 4)\nsee ../sha" + "red/design.md\ncd /wo" + "rk/main\n/usr/lib/postgresql\n" +
			"https://pro" + "xy.golang.org/\nthe framework/root/home\n",
		"logo.png": "\x00/ro" + "ot/",
	}, []string{
		"README.md:1: TO" + "DO without an issue: write TO" + "DO(issue N)",
		"README.md:3: FIX" + "ME without an issue: write TO" + "DO(issue N)",
		`README.md:4: "../sha` + `red" is a path of one machine or a registry's host`,
		`README.md:5: "/wo` + `rk/" is a path of one machine or a registry's host`,
		`README.md:7: "pro` + `xy.golang.org" is a path of one machine or a registry's host`,
	}},
}

func TestRules(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, violations(t, c.rule, c.files)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLinked(t *testing.T) {
	got := Linked([]string{"fmt", module + "/relay", module + "/internal/pgtest", "github.com/twmb/franz-go/pkg/kfake", "testing/iotest"})
	want := []Violation{
		{"cmd/walrelay", "links github.com/walrelay/walrelay/internal/pgtest, which is for tests only"},
		{"cmd/walrelay", "links github.com/twmb/franz-go/pkg/kfake, which is for tests only"},
		{"cmd/walrelay", "links testing/iotest, which is for tests only"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

// function is the text of a function of n lines.
func function(n int) string {
	return "func f() {\n" + strings.Repeat("\n", n-2) + "}\n"
}

// violations applies a rule to a tree of the given files.
func violations(t *testing.T, rule func(*Tree) []Violation, files map[string]string) []string {
	t.Helper()
	fsys := fstest.MapFS{}
	for path, text := range files {
		fsys[path] = &fstest.MapFile{Data: []byte(text)}
	}
	tree, err := NewTree(fsys, slices.Sorted(maps.Keys(files)))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, v := range rule(tree) {
		found = append(found, fmt.Sprint(v))
	}
	slices.Sort(found)
	return found
}

func TestLight(t *testing.T) {
	got := Light([]string{"fmt", module + "/outbox", "github.com/jackc/pgx/v5/pgconn", "vendor/golang.org/x/text", module + "/relay", "github.com/segmentio/kafka-go"})
	if len(got) != 2 {
		t.Errorf("%v, want the relay and kafka-go", got)
	}
}
