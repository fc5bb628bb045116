package house

import (
	"fmt"
	"slices"
	"strings"
)

// testOnly are modules and folders that must never be linked into the binary.
var testOnly = append(slices.Clone(unlinkedPaths()),
	"testing",
	"github.com/twmb/franz-go",
	"github.com/fergusstrange/embedded-postgres",
	"pgregory.net/rapid",
	"go.uber.org/goleak",
	"github.com/google/go-cmp",
	"github.com/chromedp",
)

func unlinkedPaths() []string {
	var paths []string
	for _, dir := range unlinked {
		paths = append(paths, module+"/"+dir)
	}
	return paths
}

// Linked reports import paths among those of the binary that are for tests only.
func Linked(importPaths []string) []Violation {
	var found []Violation
	for _, p := range importPaths {
		if below(p, testOnly) {
			found = append(found, Violation{"cmd/walrelay", fmt.Sprintf("links %s, which is for tests only", p)})
		}
	}
	return found
}

// light is what packages for applications may link: pgx, and what pgx itself needs.
var light = []string{module + "/outbox", module + "/inbox", module + "/lsn", "github.com/jackc", "golang.org/x/text"}

// Light reports import paths among those of a package for applications that would weigh on every application.
func Light(importPaths []string) []Violation {
	var found []Violation
	for _, p := range importPaths {
		first, _, _ := strings.Cut(p, "/")
		if strings.Contains(first, ".") && !below(p, light) {
			found = append(found, Violation{"outbox, inbox", "links " + p + ", which an application would have to carry"})
		}
	}
	return found
}
