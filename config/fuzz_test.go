package config

import (
	"reflect"
	"strings"
	"testing"
)

// Whatever a file and a variable hold, there is an answer: a configuration, or problems that name a key and repeat no
// secret.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"postgres: {url: 'postgres://u:SECRET@h/d'}\nkafka: {brokers: [a:1]}\n", "kafka: {sasl: {mechanism: PLAIN, username: u, password: SECRET}}",
		"tables:\n  - public.outbox\n  - name: a.b\n    columns: {key: x}\n", "a: &a {b: *a}", "<<: [{kafka: {linger: 1s}}]", "? [x]\n: y", "---\n---\n",
		"kafka: !!binary aGVsbG8=", "\xff\xfe", "postgres:\n\turl: x", "messages: {enabled: true, topics: ['*']}", "kafka: {topics: {config: {a: [b]}}}",
		"postgres: {password: SECRET, password_file: /dev/null}", "kafka: {sasl: {mechanism: OAUTHBEARER, token_url: 'https://u:SECRET@h'}}", "http: {token: SECRET, listen: ':'}",
	} {
		f.Add(seed, "WALRELAY_POSTGRES_URL=host=h password='SECRET")
	}
	f.Fuzz(func(t *testing.T, content, variable string) {
		if strings.Contains(content, "_file") || strings.Contains(strings.ToLower(variable), "_file") || strings.Contains(content, "sslrootcert") {
			return // paths that the fuzzer invents are not to be read
		}
		l := loader{config: new(Config), set: map[string]bool{}}
		*l.config = Default()
		l.config.from = map[string]string{}
		document, err := parseYAML([]byte(content))
		if err != nil {
			return
		}
		l.layer(func() {
			if document != nil {
				f := file{loader: &l, name: "fuzz.yaml"}
				f.section(document, reflect.ValueOf(l.config).Elem(), "")
			}
		})
		l.layer(func() { l.environment([]string{variable}) })
		v := validation{config: *l.config}
		v.all()
		for _, p := range append(l.problems, v.problems...) {
			if p.Key == "" || p.Want == "" {
				t.Errorf("a problem without key or remedy: %+v", p)
			}
		}
		_ = l.config.YAML()
	})
}
