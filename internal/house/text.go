package house

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// note matches a remark about unfinished work, and noteWithIssue one that says where it is planned.
	note          = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	noteWithIssue = regexp.MustCompile(`\bTO` + `DO\(issue \d+\)`)

	// places are paths of one machine and hosts of package registries: neither is true for a reader. The words are
	// broken so that this file does not match.
	places = regexp.MustCompile(strings.Join([]string{
		`(^|[\s"'=(` + "`" + `])/(wo` + `rk|ro` + `ot|ho` + `me|Us` + `ers)/`,
		`\.\./sha` + `red\b`,
		`pro` + `xy\.golang\.org`, `s` + `um\.golang\.org`,
		`repo[0-9]*\.ma` + `ven\.`, `re` + `gistry\.npmjs\.org`,
		`(static|in` + `dex)\.crates\.io`, `py` + `pi\.org`, `files\.python` + `hosted\.org`, `de` + `b\.debian\.org`,
	}, "|"))
)

// Texts reports remarks about unfinished work that name no issue, and places that exist on one machine only.
func Texts(t *Tree) []Violation {
	var found []Violation
	for p, text := range t.Text {
		number := 0
		for line := range strings.Lines(text) {
			number++
			where := fmt.Sprintf("%s:%d", p, number)
			if m := note.FindString(line); m != "" && !noteWithIssue.MatchString(line) {
				found = append(found, Violation{where, m + " without an issue: write TO" + "DO(issue N)"})
			}
			if m := places.FindString(line); m != "" {
				found = append(found, Violation{where, fmt.Sprintf("%q is a path of one machine or a registry's host", strings.TrimSpace(m))})
			}
		}
	}
	return found
}
