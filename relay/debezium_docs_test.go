package relay

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const pagePath = "../docs/debezium.md"

func debeziumPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(pagePath)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The deviations on the page are those that the conformance test allows, each with its reason.
func TestDeviationsOnThePage(t *testing.T) {
	t.Parallel()
	const begin, end = "<!-- deviations: generated -->\n", "<!-- end -->"
	before := debeziumPage(t)
	head, rest, ok := strings.Cut(before, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no mark %q with %q behind it", pagePath, begin, end)
	}
	var table strings.Builder
	table.WriteString("| Difference | Why |\n|---|---|\n")
	for _, d := range deviations {
		fmt.Fprintf(&table, "| %s | %s |\n", d.what, d.why)
	}
	want := head + begin + "\n" + table.String() + "\n" + end + tail
	if *update {
		if err := os.WriteFile(pagePath, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("%s is not what the rules say (go test ./relay -run OnThePage -update writes it anew):\n%s", pagePath, diff)
	}
}
