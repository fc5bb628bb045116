package deploy

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/walrelay/walrelay/config"
	"go.yaml.in/yaml/v3"
)

// manifest is what is checked of a rendered document.
type manifest struct {
	Kind     string
	Metadata struct {
		Name                string
		Labels, Annotations map[string]string
	}
	Data map[string]string
	Spec struct {
		Replicas       int
		MaxUnavailable any `yaml:"maxUnavailable"`
		Selector       struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Strategy struct {
			RollingUpdate map[string]int `yaml:"rollingUpdate"`
		}
		Endpoints []struct {
			Port          string
			Authorization struct{ Credentials struct{ Name, Key string } }
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
	}
}

type pod struct {
	TerminationGracePeriodSeconds int            `yaml:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken  *bool          `yaml:"automountServiceAccountToken"`
	SecurityContext               map[string]any `yaml:"securityContext"`
	Volumes                       []struct{ Name string }
	Containers                    []struct {
		Image           string
		Args            []string
		Env             []struct{ Name, Value string }
		SecurityContext map[string]any                     `yaml:"securityContext"`
		VolumeMounts    []struct{ Name, MountPath string } `yaml:"volumeMounts"`
		LivenessProbe   struct {
			HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
		} `yaml:"livenessProbe"`
		ReadinessProbe struct {
			HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
		} `yaml:"readinessProbe"`
		Resources struct{ Limits map[string]string }
	}
}

// mounted tells which volume mounts of the first container have no volume.
func (p *pod) mounted() (missing []string) {
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range p.Containers[0].VolumeMounts {
		if !volumes[m.Name] {
			missing = append(missing, m.Name)
		}
	}
	return missing
}

// locked tells whether the pod can do nothing to its node or cluster.
func (p *pod) locked() bool {
	c := p.Containers[0].SecurityContext
	return c["readOnlyRootFilesystem"] == true && c["allowPrivilegeEscalation"] == false && p.SecurityContext["runAsNonRoot"] == true &&
		p.AutomountServiceAccountToken != nil && !*p.AutomountServiceAccountToken
}

// rendered reads what make chart has written, by kind, and makes sure that it is of the chart as it is now.
func rendered(t *testing.T, name string) map[string]manifest {
	t.Helper()
	text, err := os.ReadFile("helm/testdata/" + name + ".rendered.yaml")
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.New()
	add := func(path string) {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		hash.Write(content)
	}
	err = filepath.WalkDir("helm/walrelay", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			add(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	add("helm/testdata/" + name + ".values.yaml")
	if want := fmt.Sprintf("%x", hash.Sum(nil)); !strings.Contains(string(text[:200]), want) {
		t.Fatalf("%s.rendered.yaml is not of the chart as it is: make chart", name)
	}
	all := map[string]manifest{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var m manifest
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(m.Metadata.Name, "-init") {
			m.Kind = "init " + m.Kind
		}
		if m.Kind != "" {
			all[m.Kind] = m
		}
	}
}

// Helm's own engine and the types of Kubernetes have accepted these files (make chart); here is what they must say.
func TestChart(t *testing.T) {
	for name, replicas := range map[string]int{"minimal": 2, "full": 3} {
		all := rendered(t, name)
		deployment := all["Deployment"]
		spec := deployment.Spec.Template.Spec
		container := spec.Containers[0]
		if deployment.Spec.Replicas != replicas || all["PodDisruptionBudget"].Spec.MaxUnavailable != 1 {
			t.Errorf("%s: %d replicas, disruption budget %+v", name, deployment.Spec.Replicas, all["PodDisruptionBudget"].Spec)
		}
		// A standby is ready, so the next pod comes before the one that relays goes.
		if r := deployment.Spec.Strategy.RollingUpdate; r["maxUnavailable"] != 0 || r["maxSurge"] != 1 {
			t.Errorf("%s: rolling update %v", name, r)
		}
		for label, value := range all["PodDisruptionBudget"].Spec.Selector.MatchLabels {
			if deployment.Spec.Template.Metadata.Labels[label] != value {
				t.Errorf("%s: pods lack the label %s=%s, which is selected by", name, label, value)
			}
		}
		if p := container.LivenessProbe.HTTPGet; p.Path != "/healthz" || p.Port != "http" {
			t.Errorf("%s: liveness %+v", name, p)
		}
		if p := container.ReadinessProbe.HTTPGet; p.Path != "/readyz" || p.Port != "http" {
			t.Errorf("%s: readiness %+v", name, p)
		}
		if !spec.locked() {
			t.Errorf("%s: security %v %v", name, container.SecurityContext, spec.SecurityContext)
		}
		if drain := config.Default().DrainTimeout.Seconds(); float64(spec.TerminationGracePeriodSeconds) < 2*drain {
			t.Errorf("%s: a stop has %d s, and draining alone may take %v", name, spec.TerminationGracePeriodSeconds, drain)
		}
		if container.Resources.Limits["memory"] == "" || container.Args[0] != "run" {
			t.Errorf("%s: %+v", name, container)
		}
		if missing := spec.mounted(); len(missing) > 0 {
			t.Errorf("%s: no volumes %v", name, missing)
		}
	}
}

// Asked for, init runs before the release, as somebody else, and is none of the pods that relay.
func TestChartInit(t *testing.T) {
	if job, there := rendered(t, "minimal")["init Job"]; there {
		t.Errorf("nobody has asked for %+v", job)
	}
	all := rendered(t, "full")
	job := all["init Job"]
	spec := job.Spec.Template.Spec
	if spec.Containers[0].Image != all["Deployment"].Spec.Template.Spec.Containers[0].Image || strings.Join(spec.Containers[0].Args, " ") != "init --existing=skip" {
		t.Errorf("it runs %s %v", spec.Containers[0].Image, spec.Containers[0].Args)
	}
	for _, kind := range []string{"init Job", "init ConfigMap"} {
		if hook := all[kind].Metadata.Annotations["helm.sh/hook"]; hook != "pre-install,pre-upgrade" {
			t.Errorf("%s: hook %q", kind, hook)
		}
	}
	if !spec.locked() || len(spec.mounted()) > 0 {
		t.Errorf("security %v, no volumes %v", spec.SecurityContext, spec.mounted())
	}
	selected := true
	for label, value := range all["PodDisruptionBudget"].Spec.Selector.MatchLabels {
		selected = selected && job.Spec.Template.Metadata.Labels[label] == value
	}
	if selected {
		t.Errorf("it is selected with the pods that relay: %v", job.Spec.Template.Metadata.Labels)
	}
	text := all["init ConfigMap"].Data["walrelay.yaml"]
	for _, want := range []string{"postgres://owner@db", "/etc/walrelay/secrets/owner/password", "kafka-1.kafka:9093"} {
		if !strings.Contains(text, want) {
			t.Errorf("its configuration lacks %s:\n%s", want, text)
		}
	}
	if strings.Contains(all["ConfigMap"].Data["walrelay.yaml"], "owner") {
		t.Error("the relay's configuration has what is init's")
	}
}

// The configuration that the full chart makes is one that walrelay takes, but for the files of secrets, which are not here.
func TestChartConfiguration(t *testing.T) {
	all := rendered(t, "full")
	file := filepath.Join(t.TempDir(), "walrelay.yaml")
	if err := os.WriteFile(file, []byte(all["ConfigMap"].Data["walrelay.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	var environ []string
	for _, e := range all["Deployment"].Spec.Template.Spec.Containers[0].Env {
		if strings.HasPrefix(e.Name, "WALRELAY_") && e.Name != "WALRELAY_CONFIG" {
			environ = append(environ, e.Name+"="+e.Value)
		}
	}
	_, err := config.Load(config.Sources{File: file, Environ: environ})
	var problems config.Problems
	if !errors.As(err, &problems) {
		t.Fatalf("want problems with files alone, got %v", err)
	}
	for _, p := range problems {
		if !strings.Contains(p.String(), "/etc/walrelay/") && !strings.Contains(p.String(), "no such file") {
			t.Error(p)
		}
	}
	if monitor := all["ServiceMonitor"]; len(monitor.Spec.Endpoints) != 1 || monitor.Spec.Endpoints[0].Authorization.Credentials.Name != "walrelay-http" ||
		monitor.Metadata.Labels["release"] != "prometheus" {
		t.Errorf("service monitor %+v", monitor)
	}
}
