package router

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// appendJSONString appends text as a JSON string the way Jackson writes it, which is what JsonConverter uses: HTML
// characters and U+2028 stay as they are, and characters outside the BMP become a pair of \u escapes.
func appendJSONString[T string | []byte](dst []byte, text T) []byte {
	dst = append(dst, '"')
	dst = appendJSONEscaped(dst, text)
	return append(dst, '"')
}

func appendJSONEscaped[T string | []byte](dst []byte, text T) []byte {
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= ' ' && c < 0xF0 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, text[start:i]...)
		size := 1
		if c >= 0xF0 {
			var char [utf8.UTFMax]byte
			dst, size = appendSurrogates(dst, char[:copy(char[:], text[i:])])
		} else {
			dst = appendEscape(dst, c)
		}
		i += size
		start = i
	}
	return append(dst, text[start:]...)
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	return appendUnicodeEscape(dst, rune(c))
}

// appendSurrogates escapes the four-byte character that text begins with. Bytes that are none stay as they are.
func appendSurrogates(dst, text []byte) ([]byte, int) {
	r, size := utf8.DecodeRune(text)
	if r == utf8.RuneError {
		return append(dst, text[0]), 1
	}
	high, low := utf16.EncodeRune(r)
	return appendUnicodeEscape(appendUnicodeEscape(dst, high), low), size
}

func appendUnicodeEscape(dst []byte, r rune) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// isDocument tells whether expansion applies: Debezium looks at the first byte only, so leading whitespace and scalars
// stay strings. Text that Postgres has not checked must be valid JSON as well.
func isDocument(text []byte, checked bool) bool {
	return len(text) > 0 && (text[0] == '{' || text[0] == '[') && (checked || validJSON(text))
}

// appendCompact appends valid JSON without insignificant whitespace; nothing else changes.
func appendCompact(dst, doc []byte) []byte {
	inString := false
	start := 0
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && isJSONSpace(c):
			dst = append(dst, doc[start:i]...)
			start = i + 1
		}
	}
	if start < len(doc) {
		dst = append(dst, doc[start:]...)
	}
	return dst
}

func isJSONSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// members walks over the members of a JSON object, or the elements of an array, and checks them on the way. On anything
// that is none it ends early.
type members struct {
	rest  []byte
	begun bool // behind the first, so that a comma must come
	whole bool // the end was reached, and nothing follows it
}

// openObject begins a walk, or tells that the document is not an object.
func openObject(doc []byte) (members, bool) {
	doc = skipSpace(doc)
	if len(doc) == 0 || doc[0] != '{' {
		return members{}, false
	}
	return members{rest: doc[1:]}, true
}

// next returns the next member: its name as a JSON string and its value as JSON, both slices of the document.
func (m *members) next() (name, value []byte, ok bool) {
	rest, ok := m.follow('}')
	n := scanString(rest)
	name, rest = rest[:n], skipSpace(rest[n:])
	if !ok || n == 0 || len(rest) == 0 || rest[0] != ':' {
		return nil, nil, false
	}
	value, ok = m.take(skipSpace(rest[1:]))
	return name, value, ok
}

// element returns the next element, a slice of the document.
func (m *members) element() (value []byte, ok bool) {
	rest, ok := m.follow(']')
	if !ok {
		return nil, false
	}
	return m.take(rest)
}

// follow returns what begins with the next member or element. At the end there is none.
func (m *members) follow(end byte) (rest []byte, ok bool) {
	rest = skipSpace(m.rest)
	switch {
	case len(rest) == 0:
		return nil, false
	case rest[0] == end:
		m.rest, m.whole = nil, len(skipSpace(rest[1:])) == 0
		return nil, false
	case !m.begun:
		m.begun = true
		return rest, true
	case rest[0] != ',':
		return nil, false
	}
	return skipSpace(rest[1:]), true
}

func (m *members) take(rest []byte) (value []byte, ok bool) {
	n := scanValue(rest, 1)
	m.rest = rest[n:]
	return rest[:n], n > 0
}

// appendUnquoted appends what a JSON string, which must be one, stands for.
func appendUnquoted(dst, quoted []byte) []byte {
	text := quoted[1 : len(quoted)-1]
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 == len(text) {
			return append(dst, text...)
		}
		dst = append(dst, text[:i]...)
		c := text[i+1]
		text = text[i+2:]
		if c == 'u' {
			dst, text = appendUnescapedUnicode(dst, text)
			continue
		}
		if j := bytes.IndexByte([]byte("btnfr"), c); j >= 0 {
			c = "\b\t\n\f\r"[j]
		}
		dst = append(dst, c)
	}
}

// appendUnescapedUnicode reads the digits behind a \u, and the second half of a surrogate pair.
func appendUnescapedUnicode(dst, text []byte) (_, rest []byte) {
	r, text := hex4(text)
	if utf16.IsSurrogate(r) && len(text) > 1 && text[0] == '\\' && text[1] == 'u' {
		if low, after := hex4(text[2:]); utf16.DecodeRune(r, low) != utf8.RuneError {
			return utf8.AppendRune(dst, utf16.DecodeRune(r, low)), after
		}
	}
	return utf8.AppendRune(dst, r), text // half a pair becomes U+FFFD
}

func hex4(text []byte) (rune, []byte) {
	n := min(4, len(text))
	var r rune
	for _, c := range text[:n] {
		digit, ok := hexDigit(c)
		if !ok {
			return utf8.RuneError, text[n:]
		}
		r = r<<4 | rune(digit)
	}
	return r, text[n:]
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case isDigit(c):
		return c - '0', true
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return c | 0x20 - 'a' + 10, true
	}
	return 0, false
}
