// Chartcheck renders a Helm chart with Helm's own engine and holds the result against the types of Kubernetes and of the
// Prometheus operator: an unknown field, a wrong type or values that the chart's schema refuses are errors.
//
// It is a module of its own: Helm brings many others, and the product must not have them.
package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// kinds are the types of what a chart may make.
var kinds = map[string]func() any{
	"apps/v1 Deployment":                      func() any { return new(apps.Deployment) },
	"batch/v1 Job":                            func() any { return new(batch.Job) },
	"v1 ConfigMap":                            func() any { return new(core.ConfigMap) },
	"v1 Service":                              func() any { return new(core.Service) },
	"v1 ServiceAccount":                       func() any { return new(core.ServiceAccount) },
	"policy/v1 PodDisruptionBudget":           func() any { return new(policy.PodDisruptionBudget) },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return new(monitoring.ServiceMonitor) },
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: chartcheck CHART VALUES")
		os.Exit(2)
	}
	if err := check(os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "chartcheck:", err)
		os.Exit(1)
	}
}

func check(folder, values string, out io.Writer) error {
	chart, err := loader.LoadDir(folder)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(values)
	if err != nil {
		return err
	}
	given, err := chartutil.ReadValues(content)
	if err != nil {
		return fmt.Errorf("%s: %w", values, err)
	}
	release := chartutil.ReleaseOptions{Name: "outbox", Namespace: "shop", IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(chart, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, all)
	if err != nil {
		return err
	}
	hash, err := fingerprint(folder, content)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "# Made by make chart, of the chart and values with the hash %s.\n", hash)
	var problems []error
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := strings.TrimSpace(files[name])
		if path.Ext(name) != ".yaml" || text == "" {
			continue
		}
		if err := fits([]byte(text)); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
		}
		fmt.Fprintf(out, "---\n# %s\n%s\n", path.Base(name), text)
	}
	return errors.Join(problems...)
}

// fingerprint is the hash of the chart's files, in the order of their paths, and the values. A test compares it, so that it
// need not build Helm to know that the rendered files are of the chart as it is.
func fingerprint(folder string, values []byte) (string, error) {
	hash := sha256.New()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		hash.Write(content)
		return err
	})
	hash.Write(values)
	return fmt.Sprintf("%x", hash.Sum(nil)), err
}

// fits reads a document strictly as what it says that it is.
func fits(document []byte) error {
	if bytes.Contains(document, []byte("\n---\n")) {
		return errors.New("more than one document in a file")
	}
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil {
		return err
	}
	make, known := kinds[head.APIVersion+" "+head.Kind]
	if !known {
		return fmt.Errorf("%s %s is not a kind that this chart makes", head.APIVersion, head.Kind)
	}
	return yaml.UnmarshalStrict(document, make())
}
