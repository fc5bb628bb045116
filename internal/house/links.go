package house

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

var (
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	fence      = regexp.MustCompile("(?ms)^```.*?^```")
	notInSlugs = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Links reports links between files of the tree that lead nowhere: a file or folder that is not there, or a heading that
// the page has not. Links to other sites are not followed.
func Links(t *Tree) []Violation {
	var found []Violation
	for p, text := range t.Text {
		if path.Ext(p) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if why := t.dead(p, m[1]); why != "" {
				found = append(found, Violation{p, fmt.Sprintf("link to %s: %s", m[1], why)})
			}
		}
	}
	return found
}

// dead tells why a link of a page leads nowhere; "" if it does not.
func (t *Tree) dead(from, to string) string {
	file, anchor, _ := strings.Cut(to, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	text, there := t.Text[target]
	switch {
	case !there && !t.Binary[target] && !t.isFolder(target):
		return "no such file"
	case anchor == "" || !there || path.Ext(target) != ".md":
		return ""
	}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		if slug(m[1]) == anchor {
			return ""
		}
	}
	return "no such heading"
}

func (t *Tree) isFolder(name string) bool {
	for p := range t.Text {
		if strings.HasPrefix(p, strings.TrimSuffix(name, "/")+"/") {
			return true
		}
	}
	return false
}

// slug is the anchor that GitHub gives a heading.
func slug(title string) string {
	return strings.ReplaceAll(notInSlugs.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

var (
	target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):(.*)$`)
	phony  = regexp.MustCompile(`(?m)^\.PHONY:(.*)$`)
)

// Targets reports targets of the Makefile that make help does not tell of, or that a file of the same name would hide.
func Targets(t *Tree) []Violation {
	var found []Violation
	text := t.Text["Makefile"]
	declared := strings.Fields(strings.Join(phony.FindStringSubmatch(text), " "))
	for _, m := range target.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[2], "## ") {
			found = append(found, Violation{"Makefile", "target " + m[1] + " has no ## text for make help"})
		}
		if !strings.Contains(" "+strings.Join(declared, " ")+" ", " "+m[1]+" ") {
			found = append(found, Violation{"Makefile", "target " + m[1] + " is not in .PHONY"})
		}
	}
	return found
}
