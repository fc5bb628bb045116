package router

import (
	"encoding/binary"
	"math/bits"
)

// The scan functions return the length of what a text begins with, 0 where it does not. They know JSON as RFC 8259 has it and
// encoding/json reads it, but for UTF-8, which they do not look at.

// maxNesting is how deep arrays and objects may stand in each other, as in encoding/json.
const maxNesting = 10_000

// validJSON tells whether a text is one JSON value. It agrees with json.Valid and is several times faster.
func validJSON(text []byte) bool {
	text = skipSpace(text)
	n := scanValue(text, 0)
	return n > 0 && len(skipSpace(text[n:])) == 0
}

func skipSpace(text []byte) []byte {
	for len(text) > 0 && isJSONSpace(text[0]) {
		text = text[1:]
	}
	return text
}

// scanValue scans a value in so many arrays and objects.
func scanValue(text []byte, depth int) int {
	if len(text) == 0 {
		return 0
	}
	switch text[0] {
	case '"':
		return scanString(text)
	case '{', '[':
		return scanNested(text, depth)
	case 't':
		return scanWord(text, "true")
	case 'f':
		return scanWord(text, "false")
	case 'n':
		return scanWord(text, "null")
	}
	return scanNumber(text)
}

func scanWord(text []byte, word string) int {
	if len(text) < len(word) || string(text[:len(word)]) != word {
		return 0
	}
	return len(word)
}

// scanNested scans an array or an object.
func scanNested(text []byte, depth int) int {
	if depth == maxNesting {
		return 0
	}
	object, end := text[0] == '{', text[0]+2
	rest := skipSpace(text[1:])
	if len(rest) > 0 && rest[0] == end {
		return len(text) - len(rest) + 1
	}
	for {
		if object {
			n := scanString(rest)
			if rest = skipSpace(rest[n:]); n == 0 || len(rest) == 0 || rest[0] != ':' {
				return 0
			}
			rest = skipSpace(rest[1:])
		}
		n := scanValue(rest, depth+1)
		rest = skipSpace(rest[n:])
		switch {
		case n == 0 || len(rest) == 0:
			return 0
		case rest[0] == end:
			return len(text) - len(rest) + 1
		case rest[0] != ',':
			return 0
		}
		rest = skipSpace(rest[1:])
	}
}

// scanString looks at eight bytes at once as long as none of them ends the string, begins an escape or is illegal.
func scanString(text []byte) int {
	if len(text) == 0 || text[0] != '"' {
		return 0
	}
	for i := 1; i < len(text); {
		if i+8 <= len(text) {
			if plain := plainBytes(binary.LittleEndian.Uint64(text[i:])); plain > 0 {
				i += plain
				continue
			}
		}
		switch c := text[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c == '\\':
			n := scanEscape(text[i:])
			if n == 0 {
				return 0
			}
			i += n
		default:
			i++
		}
	}
	return 0
}

// plainBytes is how many of eight bytes, the lowest first, come before one that is a quote, a backslash or below a blank.
func plainBytes(eight uint64) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	quote, backslash := eight^(ones*'"'), eight^(ones*'\\')
	// Where a byte is zero, or below a blank, its high bit is set; a borrow can set further ones only above it.
	special := ((quote - ones) &^ quote) | ((backslash - ones) &^ backslash) | ((eight - ones*' ') &^ eight)
	return bits.TrailingZeros64(special&highs) / 8
}

// scanEscape scans what a backslash begins.
func scanEscape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		for _, c := range text[2:6] {
			if _, ok := hexDigit(c); !ok {
				return 0
			}
		}
		return 6
	}
	return 0
}

func scanNumber(text []byte) int {
	i := 0
	if text[0] == '-' {
		i++
	}
	whole := scanDigits(text[i:])
	switch {
	case whole == 0:
		return 0
	case text[i] == '0':
		whole = 1 // alone; a digit behind it is for the caller to refuse
	}
	i += whole
	if i < len(text) && text[i] == '.' {
		n := scanDigits(text[i+1:])
		if n == 0 {
			return 0
		}
		i += 1 + n
	}
	if i < len(text) && text[i]|0x20 == 'e' {
		i++
		if i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		n := scanDigits(text[i:])
		if n == 0 {
			return 0
		}
		i += n
	}
	return i
}

func scanDigits(text []byte) int {
	for i, c := range text {
		if !isDigit(c) {
			return i
		}
	}
	return len(text)
}
