package router

import (
	"fmt"
)

// topicRouter makes topics of routed values and remembers them.
type topicRouter struct {
	pattern      pattern
	replacement  replacement
	noMatch      string
	defaultTopic string
	values       wordSet // of the filter
	cache        map[string]topicEntry
}

type topicEntry struct {
	topic  string
	listed bool // the value is in the filter's list, or the list is empty
}

// maxCachedTopics bounds the memory for routed values that never end, such as an id. The cache then starts anew.
const maxCachedTopics = 4096

func newTopicRouter(c Routing, values []string) (*topicRouter, []error) {
	var problems []error
	p, err := compilePattern(c.Regex)
	if err != nil {
		problems = append(problems, fmt.Errorf("route.%w", err))
		return nil, problems
	}
	r, err := parseReplacement(c.Replacement, p.find)
	if err != nil {
		problems = append(problems, fmt.Errorf("route.%w", err))
	}
	return &topicRouter{
		pattern: p, replacement: r, noMatch: c.NoMatch, defaultTopic: c.DefaultTopic,
		values: newWordSet(values), cache: make(map[string]topicEntry),
	}, problems
}

// route returns the topic of a routed value. It does not allocate for a value seen before.
func (t *topicRouter) route(value []byte) (topicEntry, error) {
	if entry, ok := t.cache[string(value)]; ok {
		return entry, nil
	}
	topic, err := t.make(value)
	if err != nil {
		return topicEntry{}, err
	}
	entry := topicEntry{topic: topic, listed: t.values.has(value)}
	if len(t.cache) >= maxCachedTopics {
		clear(t.cache)
	}
	t.cache[string(value)] = entry
	return entry, nil
}

func (t *topicRouter) make(value []byte) (string, error) {
	topic, ok := t.pattern.replace(value, t.replacement)
	if !ok {
		switch t.noMatch {
		case noMatchError:
			return "", poison("route: value %s does not match route.regex, and route.no_match is error", clip(value))
		case noMatchDefault:
			topic = t.defaultTopic
		default:
			topic = string(value)
		}
	}
	if reason := illegalTopic(topic); reason != "" {
		return "", poison("route: value %s makes the illegal topic name %s: %s", clip(value), clip([]byte(topic)), reason)
	}
	return topic, nil
}

// illegalTopic tells why Kafka refuses a topic name, or nothing (Topic.validate in Kafka's clients).
func illegalTopic(topic string) string {
	const longest = 249
	switch {
	case topic == "":
		return "it is empty"
	case topic == "." || topic == "..":
		return "it cannot be . or .."
	case len(topic) > longest:
		return fmt.Sprintf("it has %d bytes, the limit is %d", len(topic), longest)
	}
	for i := range len(topic) {
		if c := topic[i]; !isLetter(c) && !isDigit(c) && c != '.' && c != '_' && c != '-' {
			return "only ASCII letters, digits, dot, underscore and hyphen are allowed"
		}
	}
	return ""
}

// wordSet is a list of the filter. The empty one has every word.
type wordSet map[string]struct{}

func newWordSet(words []string) wordSet {
	if len(words) == 0 {
		return nil
	}
	set := make(wordSet, len(words))
	for _, word := range words {
		set[word] = struct{}{}
	}
	return set
}

func (s wordSet) has(word []byte) bool {
	if s == nil {
		return true
	}
	_, ok := s[string(word)]
	return ok
}
