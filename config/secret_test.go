package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

const secretWord = "hunter2secret"

// prints are all the ways in which a value comes out by accident.
func prints(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&b, verb+"\n", v)
		fmt.Fprintf(&b, verb+"\n", struct{ hidden any }{v})
		fmt.Fprintf(&b, verb+"\n", []any{&v})
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		text, err := marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

func TestNoSecretIsPrinted(t *testing.T) {
	t.Parallel()
	urlFile, passwordFile := write(t, "url", "postgres://app:"+secretWord+"@h/db\n"), write(t, "password", secretWord+"\n")
	for name, s := range map[string]Sources{
		"variables": {Environ: []string{
			"WALRELAY_POSTGRES_URL=postgres://app:" + secretWord + "@h/db?sslpassword=" + secretWord,
			"WALRELAY_KAFKA_SASL_MECHANISM=PLAIN", "WALRELAY_KAFKA_SASL_USERNAME=u", "WALRELAY_KAFKA_SASL_PASSWORD=" + secretWord,
		}},
		"files": {Environ: []string{
			"WALRELAY_POSTGRES_URL_FILE=" + urlFile,
			"WALRELAY_KAFKA_SASL_MECHANISM=SCRAM-SHA-512", "WALRELAY_KAFKA_SASL_USERNAME=u", "WALRELAY_KAFKA_SASL_PASSWORD_FILE=" + passwordFile,
		}},
		"file": {File: write(t, "c.yaml", "postgres: {url: 'postgres://app:"+secretWord+"@h/db'}\nkafka: {sasl: {mechanism: PLAIN, username: u, password: "+secretWord+"}}")},
	} {
		c := load(t, s)
		if !strings.Contains(c.Postgres.URL.Reveal(), secretWord) || c.Kafka.SASL.Password.Reveal() != secretWord {
			t.Errorf("%s: the secret has not arrived", name)
		}
		plain := struct{ c Config }{c}
		for _, output := range []string{
			prints(t, c), prints(t, &c), prints(t, c.Kafka.SASL), prints(t, c.Postgres), c.YAML(), c.String(),
			fmt.Sprintf("%v %+v %#v", plain, plain, plain), fmt.Sprint(check(c)),
		} {
			if strings.Contains(output, secretWord) || strings.Contains(output, fmt.Sprintf("%x", secretWord)) {
				t.Errorf("%s: a secret in\n%s", name, output)
			}
		}
		if !strings.Contains(c.YAML(), "app:***@h") || !strings.Contains(c.YAML(), "password: '***'") {
			t.Errorf("%s: not shown as ***:\n%s", name, c.YAML())
		}
	}
}

// Bad values are repeated in reports, but not when they are secrets, and not when they only look like something else.
func TestNoSecretInProblems(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]Sources{
		"slash in the password":  {Environ: []string{"WALRELAY_POSTGRES_URL=postgres://u:x/" + secretWord + "@h/db"}},
		"colon":                  {Environ: []string{"WALRELAY_POSTGRES_URL=postgres://u@h:" + secretWord}},
		"percent":                {Environ: []string{"WALRELAY_POSTGRES_URL=postgres://u:%zz" + secretWord + "@h/db"}},
		"no scheme":              {Environ: []string{"WALRELAY_POSTGRES_URL=u:" + secretWord + "@h/db"}},
		"other scheme":           {Environ: []string{"WALRELAY_POSTGRES_URL=mysql://u:" + secretWord + "@h/db"}},
		"keywords":               {Environ: []string{"WALRELAY_POSTGRES_URL=host=h port=x password=" + secretWord}},
		"open quote":             {Environ: []string{"WALRELAY_POSTGRES_URL=host=h password='" + secretWord}},
		"wrong sslmode":          {Environ: []string{"WALRELAY_POSTGRES_URL=postgres://u:" + secretWord + "@h/db?sslmode=yes"}},
		"flag":                   {Flags: []Flag{{"--postgres-url", "postgres.url", secretWord}}},
		"anchor":                 {File: write(t, "c.yaml", "kafka:\n  sasl:\n    password: *"+secretWord)},
		"not a text":             {File: write(t, "c.yaml", "kafka:\n  sasl:\n    password: ["+secretWord+"]")},
		"map":                    {File: write(t, "c.yaml", "postgres:\n  url: {"+secretWord+": x}")},
		"below no key":           {File: write(t, "c.yaml", "postgres: postgres://u:"+secretWord+"@h/db")},
		"unknown key":            {File: write(t, "c.yaml", "kafka: {sasl: {passwort: "+secretWord+"}}")},
		"unknown variable":       {Environ: []string{"WALRELAY_KAFKA_PASSWORD=" + secretWord}},
		"scram does not like it": {Environ: minimal("WALRELAY_KAFKA_SASL_MECHANISM=SCRAM-SHA-256", "WALRELAY_KAFKA_SASL_USERNAME=u", "WALRELAY_KAFKA_SASL_PASSWORD="+secretWord+"\x07")},
		"mechanism":              {Environ: minimal("WALRELAY_KAFKA_SASL_PASSWORD=" + secretWord)},
	} {
		c, err := Load(s)
		report := fmt.Sprintf("%v %+v %#v", err, err, err) + c.YAML()
		if err == nil {
			t.Errorf("%s: no problem found", name)
		}
		if strings.Contains(report, secretWord) {
			t.Errorf("%s: a secret in\n%s", name, report)
		}
	}
}

// Whatever the password, and however it is written.
func TestConnStringMasks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		noise := rapid.StringMatching(`[a-z'"\\ /?#&=:@%+]{0,8}`)
		password := noise.Draw(t, "before") + secretWord + noise.Draw(t, "after")
		encoded := strings.NewReplacer("%", "%25", "/", "%2F", "?", "%3F", "#", "%23", "@", "%40", ":", "%3A", " ", "%20", "&", "%26", "=", "%3D", "+", "%2B").Replace(password)
		quoted := `'` + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password) + `'`
		escaped := strings.NewReplacer(`\`, `\\`, ` `, `\ `, `'`, `\'`).Replace(password)
		ambiguous := "postgres://app:" + password + "@h/db"
		for _, text := range []string{
			ambiguous,
			"postgres://app:" + encoded + "@h:5432/db?sslmode=disable",
			"postgresql://h/db?user=app&password=" + encoded,
			"host=h user=app password=" + quoted + " dbname=db",
			"host=h user=app password = " + quoted + " sslpassword=" + quoted,
			"password=" + escaped + " host=h user=app",
			"host=h user=app password=" + password,
		} {
			c := NewConnString(text)
			if strings.Contains(c.String(), secretWord) {
				t.Fatalf("%s is printed as %s", text, c)
			}
			if _, err := pgconn.ParseConfig(text); err == nil && text != ambiguous && !strings.Contains(c.String(), "app") {
				t.Fatalf("%s is printed as %s, which says nothing", text, c)
			}
		}
	})
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	url, password := write(t, "url", testURL+"\r\n"), write(t, "password", " with spaces \n")
	c := load(t, Sources{Environ: []string{"WALRELAY_POSTGRES_URL_FILE=" + url, "WALRELAY_KAFKA_SASL_PASSWORD_FILE=" + password}})
	if c.Postgres.URL.Reveal() != testURL || c.Kafka.SASL.Password.Reveal() != " with spaces " {
		t.Errorf("%q, %q", c.Postgres.URL.Reveal(), c.Kafka.SASL.Password.Reveal())
	}

	// The source that goes first decides, whichever of the two keys it sets.
	file := write(t, "c.yaml", "postgres:\n  url_file: "+url+"\n")
	c = load(t, Sources{File: file, Flags: []Flag{{"--postgres-url", "postgres.url", "host=other"}}})
	if c.Postgres.URL.Reveal() != "host=other" || c.Postgres.URLFile != "" {
		t.Errorf("flag over file: %v", c)
	}
	file = write(t, "c.yaml", "postgres:\n  url: host=other\n")
	c = load(t, Sources{File: file, Environ: []string{"WALRELAY_POSTGRES_URL_FILE=" + url}})
	if c.Postgres.URL.Reveal() != testURL {
		t.Errorf("variable over file: %v", c)
	}

	empty := write(t, "empty", "\n")
	_, err := read(Sources{Environ: minimal("WALRELAY_POSTGRES_URL_FILE=" + url)})
	wantProblems(t, err, "postgres.url_file (WALRELAY_POSTGRES_URL_FILE): set beside postgres.url; want one of the two")
	_, err = read(Sources{Environ: []string{"WALRELAY_POSTGRES_URL_FILE=no/file", "WALRELAY_KAFKA_SASL_PASSWORD_FILE=" + empty}})
	wantProblems(t, err,
		`postgres.url_file = "no/file" (WALRELAY_POSTGRES_URL_FILE): cannot be read: no such file or directory`,
		"kafka.sasl.password_file … the file is empty")
}
