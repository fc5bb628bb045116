package router

import (
	"strings"
	"testing"
)

// The results were reasoned from java.util.regex and Connect's RegexRouter; those that stand in vectors.jsonl are marked.
func TestTopicOfValue(t *testing.T) {
	t.Parallel()
	const defaults, defaultTopic = "(?<routedByValue>.*)", "outbox.event.${routedByValue}"
	for _, c := range []struct{ regex, replacement, value, want string }{
		{defaults, defaultTopic, "Order", "outbox.event.Order"},                 // recorded
		{defaults, defaultTopic, "", "outbox.event."},                           // recorded
		{defaults, "all.events", "Order", "all.events"},                         // recorded
		{`(.*)\.(.*)`, "$2-$1", "eu.order", "order-eu"},                         // recorded
		{`(.*)\.(.*)`, "$2-$1", "a.b.c", "c-a.b"},                               // recorded
		{`(.*)\.(.*)`, "$2-$1", "plain", "plain"},                               // recorded: no match is the raw value
		{"ord", "x", "order", "order"},                                          // recorded: the whole value must match
		{`(?<r>[a-z]+)\.(?<w>[a-z]+)`, "${w}.${r}.t", "eu.order", "order.eu.t"}, // recorded
		{"(.*)", `a\_$1_b`, "Order", "a_Order_b"},                               // recorded
		{"(.*)", "$1x", "a", "ax"},                                              // not a group named 1x
		{"(.*)", "$0.$1", "a", "a.a"},
		{"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k)", "$11$10$1.$12", "abcdefghijk", "kja.a2"},
		{"(a)|(b)", "x$1y$2z", "b", "xybz"},
		{"(.*)", `\$1\\`, "a", `$1\`},
		{"(.*)", `\é$1`, "a", "éa"},
		{"a|ab", "x", "ab", "xb"}, // the whole matches, but the first find is replaced
		{"(.*?)", "t.$1", "Order", "t.Order"},
		{`\Qa.b\E(.*)`, "$1", "a.bc", "c"},
		{`\Qa.b\E(.*)`, "$1", "aXbc", "aXbc"},
		{`\s\S`, "x", "\va", "x"},
		{`[\s][\S]`, "x", "\v\u00e9", "x"},
		{`\S`, "x", "\v", "\v"},
		{`\u0041\x42\x{43}\p{Lu}\pL`, "x", "ABCDé", "x"},
		{"(?i)order", "x", "ORDER", "x"},
		{"(?s).*", "x", "a\nb", "x"},
		{"(?s:.).", "x", "\na", "x"},
		{"(?s:.).", "x", "a\n", "a\n"},
		{"(?s)a(?-s)..*", "x", "a\n", "a\n"},
		{"a{2}", "x", "aa", "x"},
		{`\é`, "x", "é", "x"},
		{`[.\]a-c]+`, "x", "].b", "x"},
	} {
		topics, problems := newTopicRouter(Routing{Regex: c.regex, Replacement: c.replacement, NoMatch: noMatchRaw}, nil)
		if len(problems) > 0 {
			t.Errorf("%s → %s: %v", c.regex, c.replacement, problems)
			continue
		}
		got, matched := topics.pattern.replace([]byte(c.value), topics.replacement)
		if !matched {
			got = c.value
		}
		if got != c.want {
			t.Errorf("%s → %s of %q = %q, want %q", c.regex, c.replacement, c.value, got, c.want)
		}
	}
}

// A dot of Java matches no line terminator.
func TestDotAndLineTerminators(t *testing.T) {
	t.Parallel()
	p, err := compilePattern("a.b")
	if err != nil {
		t.Fatal(err)
	}
	for _, terminator := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
		if p.full.MatchString("a" + terminator + "b") {
			t.Errorf("the dot matches %q", terminator)
		}
	}
	for _, other := range []string{"x", "é", "😀", "\v", "\u00a0"} {
		if !p.full.MatchString("a" + other + "b") {
			t.Errorf("the dot does not match %q", other)
		}
	}
}

func TestRegexThatIsRefused(t *testing.T) {
	t.Parallel()
	for regex, reason := range map[string]string{
		"(?=a)a": "look-ahead", "(?!a)b": "look-ahead", "(?<=a)b": "look-behind", "(?<!a)b": "look-behind",
		"(?>a)": "atomic group", "a*+": "possessive", "a++": "possessive", "a?+": "possessive", "a{1,2}+": "possessive",
		`(a)\1`: "back-reference", `(?<n>a)\k<n>`: "back-reference", "[a&&b]": "intersection", "[a[b]]": "class inside a class",
		"([": "not closed", "(a": "missing closing )", "(?<1a>b)": "name of a group", "(?x)a": "flag", "(?m)a": "flag",
		`\Z`: "means something else", `\h`: "means something else", `\p{IsLatin}`: "means something else", "[]a]": "empty character class",
		`a\`: "last backslash", "{": "repetition", `\u12`: "four hexadecimal", "(?i": "not closed", `[\Qa\E]`: "inside a class",
	} {
		if _, err := compilePattern(regex); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: error %v, want %q in it", regex, err, reason)
		}
	}
}

func TestReplacementThatIsRefused(t *testing.T) {
	t.Parallel()
	for replacement, reason := range map[string]string{
		"${nope}": `no group named "nope"; it has name`, "$2": "no group 2", "$x": "$ needs a number", "x$": "$ needs a number",
		"${": "${ needs", "${}": "${ needs", "${name": "${ needs", `\`: "last backslash", "${na_me}": "${ needs",
	} {
		c := Config{Route: Routing{Regex: "(?<name>.*)", Replacement: replacement}}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: error %v, want %q in it", replacement, err, reason)
		}
	}
}

func FuzzReplacement(f *testing.F) {
	f.Add("(?<a>.*)-(b)?", "x${a}$2\\$", "v-b")
	f.Fuzz(func(t *testing.T, regex, replacement, value string) {
		p, err := compilePattern(regex)
		if err != nil {
			return
		}
		r, err := parseReplacement(replacement, p.find)
		if err != nil {
			return
		}
		topic, ok := p.replace([]byte(value), r)
		if ok && !strings.ContainsAny(replacement, `$\`) && !strings.Contains(topic, replacement) {
			t.Errorf("%s → %s of %q = %q", regex, replacement, value, topic)
		}
	})
}
