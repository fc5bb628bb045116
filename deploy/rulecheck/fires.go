package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// fires prints the names of the alerts that fire when a relay shows the same exposition for two hours.
func fires(rulesFile, expositionFile string, to io.Writer) error {
	rules, err := readRules(rulesFile)
	if err != nil {
		return err
	}
	exposition, err := os.ReadFile(expositionFile)
	if err != nil {
		return err
	}
	group := testGroup{Interval: model.Duration(time.Minute)}
	for line := range strings.Lines(string(exposition)) {
		name, value, ok := sample(strings.TrimSpace(line))
		if ok {
			group.InputSeries = append(group.InputSeries, inputSeries{Series: name, Values: value})
		}
	}
	names := []string{}
	for _, r := range rules {
		firing, err := firing(r, group, 2*time.Hour, time.Minute)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Alert, err)
		}
		if len(firing) > 0 {
			names = append(names, r.Alert)
		}
	}
	slices.Sort(names)
	return json.NewEncoder(to).Encode(names)
}

// sample makes a constant series of a line of an exposition, with the labels that Prometheus adds.
func sample(line string) (series, values string, ok bool) {
	at := strings.LastIndexByte(line, ' ')
	if !strings.HasPrefix(line, "walrelay_") || at < 0 {
		return "", "", false
	}
	value, err := strconv.ParseFloat(line[at+1:], 64)
	if err != nil {
		return "", "", false
	}
	const target = `instance="a", job="walrelay"`
	series = line[:at]
	if name, labels, labelled := strings.Cut(series, "{"); labelled {
		series = name + "{" + target + ", " + labels
	} else {
		series += "{" + target + "}"
	}
	return series, strconv.FormatFloat(value, 'f', -1, 64) + "x120", true
}
