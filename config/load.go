package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Sources are where a configuration comes from.
type Sources struct {
	// File is the path of a YAML file. Empty: WALRELAY_CONFIG, and without that no file.
	File string
	// Environ is the environment, as os.Environ gives it.
	Environ []string
	// Flags are the flags that were given.
	Flags []Flag
}

// Flag is one flag of the command line that sets a key.
type Flag struct {
	// Name as the person wrote it, such as --slot.
	Name string
	// Key is the key that it sets, such as postgres.slot.
	Key string
	// Value is its text; items of a list are separated by commas.
	Value string
}

// variableFile names the configuration file when no flag does.
const variableFile = variablePrefix + "CONFIG"

// Load puts the configuration together, flags before environment before file before defaults, and checks it. The error
// is of type Problems and has everything that is wrong: what could not be read or understood, and values that nobody can
// use. The Config is filled in as far as possible even then.
func Load(s Sources) (Config, error) {
	c, problems := read(s)
	v := validation{config: c}
	v.all()
	return c, append(problems, v.problems...).err()
}

// read is Load without the check of the values.
func read(s Sources) (Config, Problems) {
	c := Default()
	c.from = make(map[string]string)
	l := loader{config: &c}
	if s.File == "" {
		s.File = lookup(s.Environ, variableFile)
	}
	if s.File != "" {
		l.layer(func() { l.file(s.File) })
	}
	l.layer(func() { l.environment(s.Environ) })
	l.layer(func() { l.flags(s.Flags) })
	l.secretFiles()
	return c, l.problems
}

// loader fills a Config, layer by layer.
type loader struct {
	config   *Config
	problems Problems
	set      map[string]bool // what the layer under way has set
}

// layer reads one source over those before it.
func (l *loader) layer(read func()) {
	l.set = make(map[string]bool)
	read()
	for _, secret := range l.secrets() {
		if !l.given(secret.plain) && !slices.ContainsFunc(secret.instead, l.given) {
			continue
		}
		chosen := setting{}
		for _, s := range append([]setting{secret.plain}, secret.instead...) {
			switch {
			case !l.given(s):
				l.unset(s)
			case chosen.key != "":
				l.problem(s.key, "", "set beside "+chosen.key+"; want one of the two")
			default:
				chosen = s
			}
		}
	}
}

// given tells whether the layer under way has set the key to more than nothing.
func (l *loader) given(s setting) bool { return l.set[s.key] && s.shown() != "" }

// secretKeys are the key of a secret, and those of a file or a command that has it instead.
type secretKeys struct {
	plain   setting
	instead []setting // the file first
}

func (l *loader) secrets() []secretKeys {
	byKey := make(map[string]setting)
	for _, s := range l.config.settings() {
		byKey[s.key] = s
	}
	var all []secretKeys
	for _, key := range []string{"postgres.url", "postgres.password", "kafka.sasl.password", "http.token"} {
		keys := secretKeys{byKey[key], []setting{byKey[key+"_file"]}}
		if command, ok := byKey[key+"_command"]; ok {
			keys.instead = append(keys.instead, command)
		}
		all = append(all, keys)
	}
	return all
}

func (l *loader) unset(s setting) {
	s.value.SetZero()
	delete(l.config.from, s.key)
}

// secretFiles reads the files that hold secrets, so that what is wrong with them is found now. Commands are left for the
// time of the connection.
func (l *loader) secretFiles() {
	for _, secret := range l.secrets() {
		file := secret.instead[0]
		path := file.value.String()
		if path == "" || secret.plain.shown() != "" {
			continue
		}
		text, err := secretFile(file.key, path)
		if err != nil {
			_, want, _ := strings.Cut(err.Error(), strconv.Quote(path))
			l.problem(file.key, path, strings.TrimLeft(want, ": "))
			continue
		}
		l.assign(secret.plain, text, file.key)
	}
}

func (l *loader) flags(flags []Flag) {
	for _, flag := range flags {
		for _, s := range l.config.settings() {
			if s.key == flag.Key {
				l.assign(s, flag.Value, flag.Name)
			}
		}
	}
}

// assign sets a key from a text and remembers where that came from.
func (l *loader) assign(s setting, text, from string) {
	l.mark(s.key, from)
	if !utf8.ValidString(text) { // variables and files may hold any bytes
		l.problem(s.key, "", "want UTF-8")
		return
	}
	if err := s.parse(text); err != nil {
		if _, secret := s.value.Interface().(interface{ Reveal() string }); secret {
			text = ""
		}
		l.problem(s.key, text, err.Error())
	}
}

func (l *loader) mark(key, from string) {
	maps.DeleteFunc(l.config.from, func(k, _ string) bool { return strings.HasPrefix(k, key+"[") }) // another list now
	l.set[key] = true
	l.config.from[key] = from
}

func (l *loader) problem(key, value, want string) {
	l.problems = append(l.problems, Problem{Key: key, Value: value, From: l.config.from[key], Want: want})
}

// lookup is the value of a variable in an environment; the last one counts, as in os/exec.
func lookup(environ []string, name string) string {
	found := ""
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			found = value
		}
	}
	return found
}
