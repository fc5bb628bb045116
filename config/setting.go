package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setting is one key that has a value of its own.
type setting struct {
	key   string // the path, such as kafka.tls.ca_file
	value reflect.Value
}

// variablePrefix begins every environment variable of ours.
const variablePrefix = "WALRELAY_"

// variable is the environment variable of the key, or empty: maps are set in the file only.
func (s setting) variable() string {
	if s.value.Kind() == reflect.Map {
		return ""
	}
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}

// settings are all keys below the struct v, in the order of its fields.
func settings(v reflect.Value, path string) []setting {
	var all []setting
	for _, f := range fields(v) {
		if isSection(f.value) {
			all = append(all, settings(f.value, join(path, f.key))...)
		} else {
			all = append(all, setting{join(path, f.key), f.value})
		}
	}
	return all
}

func (c *Config) settings() []setting { return settings(reflect.ValueOf(c).Elem(), "") }

// fields are the direct keys of a struct; an inlined struct gives its own.
func fields(v reflect.Value) []setting {
	var all []setting
	for i := range v.NumField() {
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case option == "inline":
			all = append(all, fields(v.Field(i))...)
		case name != "":
			all = append(all, setting{name, v.Field(i)})
		}
	}
	return all
}

// isSection tells a struct with keys from a value that happens to be a struct.
func isSection(v reflect.Value) bool {
	_, text := v.Addr().Interface().(encoding.TextUnmarshaler)
	return v.Kind() == reflect.Struct && !text
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// The answers to a text of the wrong kind. None of them repeats the text, which may be a secret.
var (
	errBool     = errors.New("want true or false")
	errDuration = errors.New("want a duration with its unit, such as 500ms, 10s or 5m")
)

// parse sets the value from a text; a list's items are separated by commas.
func (s setting) parse(text string) error {
	if u, ok := s.value.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch s.value.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return errDuration
		}
		s.value.SetInt(int64(d))
		return nil
	case []string:
		s.value.Set(reflect.ValueOf(commaList(text)))
		return nil
	case []Table:
		s.value.Set(reflect.ValueOf(named(s.value.Interface().([]Table), commaList(text))))
		return nil
	}
	switch s.value.Kind() {
	case reflect.String:
		s.value.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return errBool
		}
		s.value.SetBool(text == "true")
	case reflect.Int, reflect.Int32, reflect.Int16:
		n, err := strconv.ParseInt(text, 10, s.value.Type().Bits())
		if err != nil {
			return fmt.Errorf("want a whole number, at most %d", uint64(1)<<(s.value.Type().Bits()-1)-1)
		}
		s.value.SetInt(n)
	default:
		return errors.New("can only be set in the configuration file")
	}
	return nil
}

func commaList(text string) []string {
	list := []string{}
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

// named are the tables of these names. One that is described already keeps its description: with the default one its
// events would go to other topics.
func named(described []Table, names []string) []Table {
	tables := make([]Table, len(names))
	for i, name := range names {
		tables[i].Name = name
		for _, table := range described {
			if table.Name == name {
				tables[i] = table
			}
		}
	}
	return tables
}

// shown is the value for a message: a secret is masked, a list joined.
func (s setting) shown() string {
	switch v := s.value.Interface().(type) {
	case fmt.Stringer: // durations, sizes, secrets
		return v.String()
	case []string:
		return strings.Join(v, ",")
	case []Table:
		names := make([]string, len(v))
		for i := range v {
			names[i] = v[i].Name
		}
		return strings.Join(names, ",")
	}
	return fmt.Sprint(s.value.Interface())
}

// Differences are the keys that have another value in other. A list of tables counts as one key.
func (c Config) Differences(other Config) []string {
	var keys []string
	theirs := other.settings()
	for i, s := range c.settings() {
		if !reflect.DeepEqual(s.value.Interface(), theirs[i].value.Interface()) {
			keys = append(keys, s.key)
		}
	}
	return keys
}
