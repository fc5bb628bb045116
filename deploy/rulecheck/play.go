package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// outcome tells in which ways an alert was tested.
type outcome struct{ fired, quiet bool }

// play plays all tests. An alert fires when its expression has had the series at each evaluation for as long as "for" says.
func play(rules []rulefmt.Rule, tests testFile) (map[string]outcome, []string, error) {
	byName := map[string]rulefmt.Rule{}
	for _, r := range rules {
		byName[r.Alert] = r
	}
	outcomes, failures := map[string]outcome{}, []string{}
	for _, group := range tests.Tests {
		for _, test := range group.Alerts {
			r, ok := byName[test.Alert]
			if !ok {
				failures = append(failures, fmt.Sprintf("%s: no such alert", test.Alert))
				continue
			}
			got, err := firing(r, group, time.Duration(test.EvalTime), time.Duration(tests.EvaluationInterval))
			if err != nil {
				return nil, nil, fmt.Errorf("%s: %w", test.Alert, err)
			}
			var want []string
			for _, alert := range test.Want {
				want = append(want, text(r, alert.Labels))
			}
			slices.Sort(want)
			if !slices.Equal(got, want) {
				failures = append(failures, fmt.Sprintf("%s at %v: fires %v, want %v", test.Alert, test.EvalTime, got, want))
			}
			o := outcomes[test.Alert]
			o.fired, o.quiet = o.fired || len(want) > 0, o.quiet || len(want) == 0
			outcomes[test.Alert] = o
		}
	}
	return outcomes, failures, nil
}

// firing are the alerts of a rule at a time, as texts of their labels.
func firing(r rulefmt.Rule, group testGroup, at, every time.Duration) ([]string, error) {
	script := fmt.Sprintf("load %s\n", time.Duration(group.Interval))
	for _, s := range group.InputSeries {
		script += "  " + s.Series + " " + s.Values + "\n"
	}
	loader, err := promqltest.NewLazyLoader(script, promqltest.LazyLoaderOpts{})
	if err != nil {
		return nil, err
	}
	defer loader.Close()
	var loading error
	loader.WithSamplesTill(time.Unix(0, 0).Add(at), func(err error) { loading = err })
	if loading != nil {
		return nil, loading
	}
	since := map[string]time.Duration{} // the first evaluation in a row that had it
	for now := time.Duration(0); now <= at; now += every {
		query, err := loader.QueryEngine().NewInstantQuery(context.Background(), loader.Queryable(), nil, r.Expr, time.Unix(0, 0).Add(now))
		if err != nil {
			return nil, err
		}
		vector, err := query.Exec(context.Background()).Vector()
		if err != nil {
			return nil, err
		}
		next := map[string]time.Duration{}
		for _, sample := range vector {
			name := text(r, withoutName(sample.Metric))
			next[name] = now
			if begun, ok := since[name]; ok {
				next[name] = begun
			}
		}
		since = next
		query.Close()
	}
	var firing []string
	for name, begun := range since {
		if at-begun >= time.Duration(r.For) {
			firing = append(firing, name)
		}
	}
	slices.Sort(firing)
	return firing, nil
}

func withoutName(metric labels.Labels) map[string]string {
	all := metric.Map()
	delete(all, "__name__")
	return all
}

// text is an alert's identity: the labels of its series and of the rule.
func text(r rulefmt.Rule, found map[string]string) string {
	all := maps.Clone(r.Labels)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, found)
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, fmt.Sprintf("%s=%q", name, all[name]))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
