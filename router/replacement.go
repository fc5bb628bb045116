package router

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// replacement is a parsed replacement text of java.util.regex.Matcher.
type replacement []replacementPart

type replacementPart struct {
	literal string
	group   int // index of the group to insert; -1: the literal
}

// parseReplacement reads the notation of Matcher.replaceFirst: ${name}, $digits and \character. Unlike Go's Expand,
// $1x is group 1 followed by x, digits are taken only as long as such a group exists, and an unknown group is an error.
func parseReplacement(text string, pattern *regexp.Regexp) (replacement, error) {
	var parts replacement
	var literal strings.Builder
	for rest := text; rest != ""; {
		switch rest[0] {
		case '\\':
			if len(rest) == 1 {
				return nil, fmt.Errorf("replacement %q: nothing follows the last backslash", text)
			}
			literal.WriteByte(rest[1]) // of a multi-byte character this is the first byte; the others follow as they are
			rest = rest[2:]
		case '$':
			group, n, err := groupReference(rest[1:], pattern)
			if err != nil {
				return nil, fmt.Errorf("replacement %q: %w", text, err)
			}
			if literal.Len() > 0 {
				parts = append(parts, replacementPart{literal: literal.String(), group: -1})
				literal.Reset()
			}
			parts = append(parts, replacementPart{group: group})
			rest = rest[1+n:]
		default:
			literal.WriteByte(rest[0])
			rest = rest[1:]
		}
	}
	if literal.Len() > 0 {
		parts = append(parts, replacementPart{literal: literal.String(), group: -1})
	}
	return parts, nil
}

// groupReference reads what follows a dollar sign and tells how many bytes it took.
func groupReference(rest string, pattern *regexp.Regexp) (group, n int, err error) {
	switch {
	case strings.HasPrefix(rest, "{"):
		name, _, closed := strings.Cut(rest[1:], "}")
		if !closed || !isGroupName(name) {
			return 0, 0, fmt.Errorf("${ needs the name of a group and }; write \\$ for a dollar sign")
		}
		index := slices.Index(pattern.SubexpNames(), name)
		if index < 0 {
			return 0, 0, fmt.Errorf("the regex has no group named %q; it has %s", name, groupNames(pattern))
		}
		return index, len(name) + 2, nil
	case rest != "" && isDigit(rest[0]):
		group, n = int(rest[0]-'0'), 1
		if group > pattern.NumSubexp() {
			return 0, 0, fmt.Errorf("the regex has no group %d", group)
		}
		for n < len(rest) && isDigit(rest[n]) {
			next := group*10 + int(rest[n]-'0')
			if next > pattern.NumSubexp() {
				break
			}
			group, n = next, n+1
		}
		return group, n, nil
	}
	return 0, 0, fmt.Errorf("$ needs a number or {name}; write \\$ for a dollar sign")
}

func groupNames(pattern *regexp.Regexp) string {
	names := slices.DeleteFunc(slices.Clone(pattern.SubexpNames()), func(s string) bool { return s == "" })
	if len(names) == 0 {
		return "no named groups"
	}
	return strings.Join(names, ", ")
}

// isGroupName tells whether Java takes the text as the name of a group.
func isGroupName(name string) bool {
	for i := range len(name) {
		if !isLetter(name[i]) && (i == 0 || !isDigit(name[i])) {
			return false
		}
	}
	return name != ""
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// expand appends the replacement of one match, given the match's submatch indexes. A group that took no part in the
// match inserts nothing.
func (r replacement) expand(dst []byte, value []byte, match []int) []byte {
	for _, part := range r {
		if part.group < 0 {
			dst = append(dst, part.literal...)
		} else if start := match[2*part.group]; start >= 0 {
			dst = append(dst, value[start:match[2*part.group+1]]...)
		}
	}
	return dst
}
