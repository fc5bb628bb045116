package router

import "bytes"

// appendArray appends an array literal such as {1,2,NULL}, with nested arrays for more dimensions.
func (t *columnType) appendArray(dst, text []byte, s style) ([]byte, error) {
	if len(text) > 0 && text[0] == '[' { // explicit bounds: [0:1]={…}
		_, text, _ = bytes.Cut(text, []byte{'='})
	}
	a := arrayLiteral{rest: text}
	dst, err := a.append(dst, t.elem, s, 0)
	if err == nil && (a.bad || len(a.rest) > 0) {
		err = poison("%s is not an array", clip(text))
	}
	return dst, err
}

// arrayLiteral takes elements off the output of array_out.
type arrayLiteral struct {
	rest    []byte
	bad     bool
	element []byte // buffer for a quoted element
}

// Postgres arrays have at most this many dimensions (MAXDIM).
const maxDimensions = 6

func (a *arrayLiteral) append(dst []byte, elem *columnType, s style, depth int) ([]byte, error) {
	if !a.accept('{') || depth == maxDimensions {
		a.bad = true
		return dst, nil
	}
	dst = append(dst, '[')
	var err error
	for n := 0; !a.accept('}'); n++ {
		if n > 0 {
			a.bad = a.bad || !a.accept(',')
			dst = append(dst, ',')
			if s == stylePlain {
				dst = append(dst, ' ') // java.util.List.toString
			}
		}
		if a.bad || len(a.rest) == 0 {
			a.bad = true
			return dst, nil
		}
		if a.rest[0] == '{' {
			dst, err = a.append(dst, elem, s, depth+1)
		} else {
			dst, err = a.appendElement(dst, elem, s)
		}
		if err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (a *arrayLiteral) appendElement(dst []byte, elem *columnType, s style) ([]byte, error) {
	text, quoted := a.take()
	if !quoted && string(text) == "NULL" {
		return append(dst, "null"...), nil
	}
	return elem.append(dst, text, s, true)
}

func (a *arrayLiteral) accept(c byte) bool {
	if len(a.rest) == 0 || a.rest[0] != c {
		return false
	}
	a.rest = a.rest[1:]
	return true
}

// take takes one element, without its quotes and backslashes.
func (a *arrayLiteral) take() (text []byte, quoted bool) {
	a.element = a.element[:0]
	quoted = a.accept('"')
	for i := 0; i < len(a.rest); i++ {
		c := a.rest[i]
		switch {
		case c == '\\' && i+1 < len(a.rest):
			i++
			c = a.rest[i]
		case quoted && c == '"':
			a.rest = a.rest[i+1:]
			return a.element, true
		case !quoted && (c == ',' || c == '}'):
			a.rest = a.rest[i:]
			return a.element, false
		}
		a.element = append(a.element, c)
	}
	a.bad = true
	a.rest = nil
	return a.element, quoted
}
