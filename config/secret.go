package config

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// mask stands where a secret is.
const mask = "***"

// Secret is a text that is never printed: String, every verb of fmt, JSON and YAML give *** (or nothing, when it is
// empty). It is a pointer inside, because fmt prints unexported fields of an enclosing struct without asking them.
type Secret struct{ text *string }

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal is the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Equal tells whether two secrets have the same text.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String is *** or empty.
func (s Secret) String() string {
	if s.Reveal() == "" {
		return ""
	}
	return mask
}

// GoString is what %#v prints.
func (s Secret) GoString() string { return s.String() }

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText hides text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// ConnString is a Postgres connection string. It is a secret that prints everything but its passwords.
type ConnString struct{ Secret }

// NewConnString hides the passwords of a connection string.
func NewConnString(text string) ConnString { return ConnString{NewSecret(text)} }

// Equal tells whether two connection strings are the same text.
func (c ConnString) Equal(other ConnString) bool { return c.Secret.Equal(other.Secret) }

// String is the connection string with *** for its passwords. One that cannot be parsed, or that has an @ where none
// belongs, is *** as a whole, since nobody can tell what in it is the password.
func (c ConnString) String() string {
	text := c.Reveal()
	if text == "" {
		return ""
	}
	if _, err := pgconn.ParseConfig(text); err != nil {
		return mask
	}
	scheme := urlScheme.FindString(text)
	if scheme == "" {
		return maskedWords(text)
	}
	rest := text[len(scheme):]
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' { // the end of user and password
		rest = rest[i+1:]
	}
	if strings.Contains(rest, "@") {
		return mask
	}
	// pgconn masks what it has parsed, and offers that only as the text of this error.
	masked := pgconn.NewParseConfigError(text, "", nil).Error()
	masked = strings.TrimSuffix(strings.TrimPrefix(masked, "cannot parse `"), "`: ")
	return strings.ReplaceAll(masked, "xxxxx", mask)
}

// Endpoint is an address of a server. One with a password in it, which has no place there, is printed without.
type Endpoint string

// String is the address with *** for a password.
func (e Endpoint) String() string {
	u, err := url.Parse(string(e))
	if err != nil || u.User != nil {
		return mask
	}
	return string(e)
}

var urlScheme = regexp.MustCompile(`^postgres(ql)?://`)

// word is keyword=value as libpq reads it, with any of its ways of quoting.
var word = regexp.MustCompile(`(?s)([^\s=]+)\s*=\s*('(?:\\.|[^'\\])*'|(?:\\.|[^\s\\])*)`)

// maskedWords shows well-known keywords only: behind a password with a blank, which somebody forgot to quote, the rest
// of the password looks like a keyword.
func maskedWords(text string) string {
	var shown []string
	for _, match := range word.FindAllStringSubmatch(text, -1) {
		switch match[1] {
		case "host", "hostaddr", "port", "user", "dbname", "sslmode", "service", "target_session_attrs":
			shown = append(shown, match[1]+"="+match[2])
		case "password", "sslpassword":
			shown = append(shown, match[1]+"="+mask)
		}
	}
	return strings.Join(shown, " ")
}

// GoString is what %#v prints.
func (c ConnString) GoString() string { return c.String() }

// MarshalText is String.
func (c ConnString) MarshalText() ([]byte, error) { return []byte(c.String()), nil }
