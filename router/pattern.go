package router

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pattern is a Java regular expression as Connect's RegexRouter uses it: a value counts when the whole of it matches
// (full), and then the first find is replaced (find). The two differ only for expressions such as a|ab.
type pattern struct {
	full, find *regexp.Regexp
}

// compilePattern translates a Java regular expression to Go's RE2. What RE2 cannot do, or does differently, is an error
// that says so: it is never compiled into something else.
func compilePattern(java string) (pattern, error) {
	t := translation{java: java, rest: java}
	if err := t.run(); err != nil {
		return pattern{}, fmt.Errorf("regex %q: %w", java, err)
	}
	text := t.out.String()
	find, err := regexp.Compile(text)
	if err != nil {
		return pattern{}, fmt.Errorf("regex %q: %w", java, err)
	}
	full, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return pattern{}, fmt.Errorf("regex %q: %w", java, err)
	}
	return pattern{full: full, find: find}, nil
}

const (
	// javaDot is what a dot matches in Java: all but the line terminators.
	javaDot = `[^\n\r\x{85}\x{2028}\x{2029}]`
	// The classes \s and \S of Java know the vertical tab, those of RE2 do not.
	javaSpace    = `\t\n\x0B\f\r `
	javaNotSpace = `\x00-\x08\x0E-\x1F!-\x{10FFFF}`

	why = "; RE2, which matches in linear time, has none"
)

// translation walks over a Java expression.
type translation struct {
	java, rest string
	out        strings.Builder
	dotAll     []bool // whether (?s) holds, for each open group; the last is the current one
}

func (t *translation) fail(format string, args ...any) error {
	return fmt.Errorf("at %d: %s", len(t.java)-len(t.rest), fmt.Sprintf(format, args...))
}

// copy moves n bytes of the input to the output.
func (t *translation) copy(n int) {
	t.out.WriteString(t.rest[:n])
	t.rest = t.rest[n:]
}

// emit writes text in place of n bytes of the input.
func (t *translation) emit(text string, n int) {
	t.out.WriteString(text)
	t.rest = t.rest[n:]
}

func (t *translation) run() error {
	t.dotAll = []bool{false}
	for t.rest != "" {
		var err error
		switch c := t.rest[0]; c {
		case '\\':
			err = t.escape(false)
		case '[':
			err = t.class()
		case '(':
			err = t.group()
		case ')':
			if len(t.dotAll) > 1 {
				t.dotAll = t.dotAll[:len(t.dotAll)-1]
			}
			t.copy(1)
		case '.':
			if t.dotAll[len(t.dotAll)-1] {
				t.emit(`(?s:.)`, 1)
			} else {
				t.emit(javaDot, 1)
			}
		case '*', '+', '?', '{':
			err = t.quantifier()
		default:
			t.copy(1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *translation) quantifier() error {
	n := 1
	if t.rest[0] == '{' {
		end := strings.IndexByte(t.rest, '}')
		if end < 2 || strings.Trim(t.rest[1:end], "0123456789,") != "" || !isDigit(t.rest[1]) {
			return t.fail("{ begins a repetition such as {2,3}; write \\{ for the character")
		}
		n = end + 1
	}
	if n < len(t.rest) && t.rest[n] == '+' {
		return t.fail("possessive quantifier %s"+why, t.rest[:n+1])
	}
	if n < len(t.rest) && t.rest[n] == '?' {
		n++
	}
	t.copy(n)
	return nil
}

func (t *translation) group() error {
	rest := t.rest
	current := t.dotAll[len(t.dotAll)-1]
	switch {
	case !strings.HasPrefix(rest, "(?"):
		t.copy(1)
	case strings.HasPrefix(rest, "(?:"):
		t.copy(3)
	case strings.HasPrefix(rest, "(?="), strings.HasPrefix(rest, "(?!"):
		return t.fail("look-ahead %s…)"+why, rest[:3])
	case strings.HasPrefix(rest, "(?<="), strings.HasPrefix(rest, "(?<!"):
		return t.fail("look-behind %s…)"+why, rest[:4])
	case strings.HasPrefix(rest, "(?>"):
		return t.fail("atomic group (?>…)" + why)
	case strings.HasPrefix(rest, "(?<"):
		name, _, closed := strings.Cut(rest[3:], ">")
		if !closed || !isGroupName(name) {
			return t.fail("(?< needs the name of a group and >")
		}
		t.copy(len(name) + 4)
	default:
		return t.flags()
	}
	t.dotAll = append(t.dotAll, current)
	return nil
}

// flags handles (?is-is) and (?is-is:…). Only i and s mean the same in Java and RE2.
func (t *translation) flags() error {
	end := strings.IndexAny(t.rest, ":)")
	if end < 0 {
		return t.fail("(? is not closed")
	}
	dotAll, set := t.dotAll[len(t.dotAll)-1], true
	out := "(?"
	for _, c := range t.rest[2:end] {
		switch c {
		case '-':
			set = false
			out += "-"
		case 'i':
			out += "i"
		case 's':
			dotAll = set
		default:
			return t.fail("flag %q means something else in RE2 or is not there; only i and s can be used", c)
		}
	}
	out = strings.TrimSuffix(out, "-")
	if t.rest[end] == ':' {
		t.dotAll = append(t.dotAll, dotAll)
		t.emit(out+":", end+1)
		return nil
	}
	t.dotAll[len(t.dotAll)-1] = dotAll
	if out == "(?" { // only s was set, which is already in the translation of the dot
		t.emit("(?:)", end+1)
		return nil
	}
	t.emit(out+")", end+1)
	return nil
}

// class handles […]. Java's nested classes and intersections have no counterpart.
func (t *translation) class() error {
	t.copy(1)
	if strings.HasPrefix(t.rest, "^") {
		t.copy(1)
	}
	for first := true; ; first = false {
		switch {
		case t.rest == "":
			return t.fail("character class is not closed")
		case t.rest[0] == ']' && !first:
			t.copy(1)
			return nil
		case t.rest[0] == ']':
			return t.fail("empty character class; write \\] for the character")
		case t.rest[0] == '[':
			return t.fail("class inside a class" + why + "; write \\[ for the character")
		case strings.HasPrefix(t.rest, "&&"):
			return t.fail("intersection of classes (&&)" + why)
		case t.rest[0] == '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		default:
			t.copy(1)
		}
	}
}

// escape handles a backslash and what belongs to it.
func (t *translation) escape(inClass bool) error {
	if len(t.rest) < 2 {
		return t.fail("nothing follows the last backslash")
	}
	c := t.rest[1]
	switch {
	case c >= utf8.RuneSelf:
		t.emit("", 1) // a quoted letter that needs no quoting
	case !isLetter(c) && !isDigit(c):
		t.copy(2)
	case c == 'Q':
		return t.quotation(inClass)
	case c == 's' || c == 'S':
		set := map[byte]string{'s': javaSpace, 'S': javaNotSpace}[c]
		if !inClass {
			set = "[" + set + "]"
		}
		t.emit(set, 2)
	case '1' <= c && c <= '9':
		return t.fail("back-reference \\%c"+why, c)
	case c == 'k':
		return t.fail("back-reference \\k" + why)
	case c == 'u':
		return t.unicodeEscape()
	case strings.IndexByte("tnrfadDwW", c) >= 0, strings.IndexByte("bBAz", c) >= 0 && !inClass:
		t.copy(2)
	case c == 'x':
		t.copy(2 + braces(t.rest[2:]))
	case (c == 'p' || c == 'P') && isPlainCategory(t.rest[2:]):
		t.copy(2 + max(1, braces(t.rest[2:])))
	default:
		return t.fail("\\%c means something else in RE2 or is not there", c)
	}
	return nil
}

// quotation handles \Q…\E.
func (t *translation) quotation(inClass bool) error {
	if inClass {
		return t.fail("\\Q inside a class" + why)
	}
	quoted, _, closed := strings.Cut(t.rest[2:], `\E`)
	n := 2 + len(quoted)
	if closed {
		n += 2
	}
	t.emit(regexp.QuoteMeta(quoted), n)
	return nil
}

// unicodeEscape handles a backslash, u and four hexadecimal digits.
func (t *translation) unicodeEscape() error {
	if len(t.rest) < 6 {
		return t.fail("\\u needs four hexadecimal digits")
	}
	if _, err := strconv.ParseUint(t.rest[2:6], 16, 16); err != nil {
		return t.fail("\\u needs four hexadecimal digits")
	}
	t.emit(`\x{`+t.rest[2:6]+`}`, 6)
	return nil
}

// braces is the length of a {…} that rest begins with, or 0.
func braces(rest string) int {
	if !strings.HasPrefix(rest, "{") {
		return 0
	}
	return strings.IndexByte(rest, '}') + 1
}

// isPlainCategory tells whether a \p is followed by a general category such as L or {Lu}, the only properties that Java
// and RE2 name alike.
func isPlainCategory(rest string) bool {
	if rest != "" && strings.IndexByte("CLMNPSZ", rest[0]) >= 0 {
		return true
	}
	name, _, closed := strings.Cut(strings.TrimPrefix(rest, "{"), "}")
	return strings.HasPrefix(rest, "{") && closed && len(name) <= 2 && name != "" &&
		strings.IndexByte("CLMNPSZ", name[0]) >= 0
}

// replace is RegexRouter: the topic for a value that matches as a whole, or false.
func (p pattern) replace(value []byte, r replacement) (string, bool) {
	if !p.full.Match(value) {
		return "", false
	}
	match := p.find.FindSubmatchIndex(value)
	out := append([]byte(nil), value[:match[0]]...)
	out = r.expand(out, value, match)
	return string(append(out, value[match[1]:]...)), true
}
