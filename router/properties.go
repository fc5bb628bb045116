package router

import "bytes"

// properties reads the text that java.util.Properties.store writes, entry by entry, into the scratch buffer of a
// message.
type properties struct {
	rest  []byte
	name  []byte
	value []byte
}

// w3c is the W3C header that the entry is, or nothing (https://www.w3.org/TR/trace-context, /baggage).
func (p *properties) w3c() string {
	switch string(p.name) {
	case "traceparent":
		return "traceparent"
	case "tracestate":
		return "tracestate"
	case "baggage":
		return "baggage"
	}
	return ""
}

// next takes the next entry.
func (p *properties) next(m *Message) bool {
	for {
		p.rest = bytes.TrimLeft(p.rest, " \t\f\r\n")
		if len(p.rest) == 0 {
			return false
		}
		if p.rest[0] != '#' && p.rest[0] != '!' {
			break
		}
		end := bytes.IndexAny(p.rest, "\r\n") // a comment; it has no continuation
		if end < 0 {
			return false
		}
		p.rest = p.rest[end:]
	}
	p.name = p.take(m, "=: \t\f")
	p.rest = bytes.TrimLeft(p.rest, " \t\f")
	if len(p.rest) > 0 && (p.rest[0] == '=' || p.rest[0] == ':') {
		p.rest = bytes.TrimLeft(p.rest[1:], " \t\f")
	}
	p.value = p.take(m, "")
	return true
}

// take unescapes up to a terminator or the end of the line.
func (p *properties) take(m *Message, terminators string) []byte {
	start := len(m.scratch)
	for len(p.rest) > 0 {
		c := p.rest[0]
		if c == '\n' || c == '\r' || bytes.IndexByte([]byte(terminators), c) >= 0 {
			break
		}
		p.rest = p.rest[1:]
		if c == '\\' && len(p.rest) > 0 {
			p.unescape(m)
			continue
		}
		m.scratch = append(m.scratch, c)
	}
	return m.rendered(start)
}

// unescape handles what follows a backslash; at the end of a line it continues the line.
func (p *properties) unescape(m *Message) {
	c := p.rest[0]
	p.rest = p.rest[1:]
	switch c {
	case 'u':
		m.scratch, p.rest = appendUnescapedUnicode(m.scratch, p.rest)
	case '\r', '\n':
		p.rest = bytes.TrimLeft(p.rest, " \t\f\r\n")
	case 't', 'n', 'r', 'f':
		m.scratch = append(m.scratch, "\t\n\r\f"[bytes.IndexByte([]byte("tnrf"), c)])
	default:
		m.scratch = append(m.scratch, c)
	}
}
