package house

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Licences that may be linked into a binary under Apache-2.0 and handed on, and those that tests may use besides.
var (
	allowedLicences = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}
	allowedInTests  = append(slices.Clone(allowedLicences), "MPL-2.0", "public domain")
)

// phrases are sentences that only one licence has; the first that is found counts.
var phrases = []struct{ licence, words string }{
	{"MPL-2.0", "Mozilla Public License Version"}, // names those below
	{"AGPL-3.0", "GNU Affero General Public License"},
	{"LGPL", "GNU Lesser General Public License"},
	{"GPL", "GNU General Public License"},
	{"EPL", "Eclipse Public License"},
	{"BSL", "Business Source License"},
	{"SSPL", "Server Side Public License"},
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"BSD-3-Clause", "may be used to endorse or promote products derived"},
	{"public domain", "into the public domain"},
	{"BSD-2-Clause", "Redistributions in binary form must reproduce the above copyright notice"},
}

// Licence is the SPDX name of a licence's text, or "" for one that is not known.
func Licence(text string) string {
	text = strings.Join(strings.Fields(strings.ToLower(text)), " ")
	for _, p := range phrases {
		if strings.Contains(text, strings.ToLower(p.words)) {
			return p.licence
		}
	}
	return ""
}

// Module is a module that the code base uses, with the texts of the licence files in its folder.
type Module struct {
	Path, Version, Dir string
	Linked             bool              // into the binary
	Licences           map[string]string // by file
}

// licenceFile matches the names of files that may hold a licence.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)

// IsLicence tells whether a file of that path may hold a licence.
func IsLicence(path string) bool { return licenceFile.MatchString(filepath.Base(path)) }

// Licences reports modules whose licence is missing, unknown or not allowed.
func Licences(modules []Module) []Violation {
	var found []Violation
	for _, m := range modules {
		where, allowed := m.Path+" "+m.Version, allowedInTests
		if m.Linked {
			allowed = allowedLicences
		}
		if len(m.Licences) == 0 {
			found = append(found, Violation{where, "has no licence file"})
		}
		for file, text := range m.Licences {
			if l := Licence(text); !slices.Contains(allowed, l) {
				found = append(found, Violation{where, fmt.Sprintf("%s is %q, allowed are %s", file, l, strings.Join(allowed, ", "))})
			}
		}
	}
	return found
}

// requirement matches a direct requirement in go.mod.
var requirement = regexp.MustCompile(`(?m)^(?:require)?\s+(\S+\.\S+/\S+) v\S+$`)

// Dependencies reports direct requirements of a go.mod without a line in docs/dependencies.md, whose rows name modules in
// their first cell; and rows of modules that are not required.
func Dependencies(goMod, page string) []Violation {
	const where = "docs/dependencies.md"
	rows := map[string]bool{}
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || len(strings.TrimSpace(cells[2])) < 10 {
			continue
		}
		for i, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			if first := strings.SplitN(strings.Trim(cells[1], " `"), "`", 2)[0]; i > 0 && !strings.Contains(name[1], ".") {
				name[1] = first + "/" + name[1] // a module below the first
			}
			rows[name[1]] = true
		}
	}
	var found []Violation
	for _, m := range requirement.FindAllStringSubmatch(goMod, -1) {
		if !rows[m[1]] {
			found = append(found, Violation{where, "no line with a reason for " + m[1]})
		}
		delete(rows, m[1])
	}
	for name := range rows {
		if strings.Contains(name, ".") {
			found = append(found, Violation{where, name + " is no direct requirement any more"})
		}
	}
	return found
}
