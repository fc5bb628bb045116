package config

import (
	"regexp"
	"slices"
	"strings"
)

// environment takes the variables that begin with WALRELAY_. An empty one counts as absent, since Docker Compose and
// Helm pass those for values that nobody gave.
func (l *loader) environment(environ []string) {
	all := l.config.settings()
	entries := slices.Sorted(slices.Values(environ)) // so that the report does not depend on their order
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || name == variableFile || value == "" || fromKubernetes(name, value) {
			continue
		}
		i := slices.IndexFunc(all, func(s setting) bool { return s.variable() == name })
		if i < 0 {
			l.unknownVariable(name, all)
			continue
		}
		l.assign(all[i], value, name)
	}
}

func (l *loader) unknownVariable(name string, all []setting) {
	candidates := []string{variableFile}
	for _, s := range all {
		if variable := s.variable(); variable != "" {
			candidates = append(candidates, variable)
		} else if strings.EqualFold(strings.ReplaceAll(s.key, ".", "_"), strings.TrimPrefix(name, variablePrefix)) {
			l.problem(name, "", s.key+" can only be set in the configuration file")
			return
		}
	}
	l.problem(name, "", "no such variable"+didYouMean(name, candidates))
}

var kubernetesName = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(ADDR|PORT|PROTO))?)?)$`)

// fromKubernetes knows the variables that Kubernetes puts into every pod of a namespace that has a service named
// walrelay or walrelay-something.
func fromKubernetes(name, value string) bool {
	match := kubernetesName.FindStringSubmatch(name)
	return match != nil && (match[1] != "PORT" || strings.Contains(value, "://"))
}
