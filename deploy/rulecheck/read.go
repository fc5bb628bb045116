package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// readRules reads the rules of all groups, as "promtool check rules" does.
func readRules(file string) ([]rulefmt.Rule, error) {
	groups, problems := rulefmt.ParseFile(file, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	var rules []rulefmt.Rule
	for _, group := range groups.Groups {
		rules = append(rules, group.Rules...)
	}
	return rules, nil
}

// testFile is the part of promtool's format that is used here.
type testFile struct {
	RuleFiles          []string       `yaml:"rule_files"`
	EvaluationInterval model.Duration `yaml:"evaluation_interval"`
	Tests              []testGroup    `yaml:"tests"`
}

type testGroup struct {
	Name        string         `yaml:"name"`
	Interval    model.Duration `yaml:"interval"`
	InputSeries []inputSeries  `yaml:"input_series"`
	Alerts      []alertTest    `yaml:"alert_rule_test"`
}

// inputSeries is a series and its values in the notation of promtool.
type inputSeries struct {
	Series string `yaml:"series"`
	Values string `yaml:"values"`
}

type alertTest struct {
	EvalTime model.Duration `yaml:"eval_time"`
	Alert    string         `yaml:"alertname"`
	Want     []struct {
		Labels      map[string]string `yaml:"exp_labels"`
		Annotations map[string]string `yaml:"exp_annotations"`
	} `yaml:"exp_alerts"`
}

func readTests(file string) (testFile, error) {
	content, err := os.Open(file)
	if err != nil {
		return testFile{}, err
	}
	defer content.Close()
	decoder := yaml.NewDecoder(content)
	decoder.KnownFields(true)
	var tests testFile
	if err := decoder.Decode(&tests); err != nil {
		return testFile{}, fmt.Errorf("read %s: %w", file, err)
	}
	return tests, nil
}

// readPanels reads the queries of a Grafana dashboard. Its variables are put in first.
func readPanels(file string) ([]panel, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	var panels []panel
	for _, p := range dashboard.Panels {
		if p.Type == "row" {
			continue
		}
		one := panel{Title: p.Title}
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$job", ".*", "$instance", ".*").Replace(target.Expr)
			found, err := seriesOf(expr)
			if err != nil {
				return nil, fmt.Errorf("panel %s: %w", p.Title, err)
			}
			one.Series = append(one.Series, found...)
		}
		panels = append(panels, one)
	}
	return panels, nil
}

// values are the texts that a matcher names: one, or the alternatives of a regular expression of plain words.
func values(m *labels.Matcher) []string {
	if m.Type == labels.MatchEqual || m.Type == labels.MatchNotEqual {
		return []string{m.Value}
	}
	return strings.Split(m.Value, "|")
}
