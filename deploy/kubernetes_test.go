package deploy

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/walrelay/walrelay/config"
)

// The deployment's variables are walrelay's, and its probes are pages that there are.
func TestKubernetes(t *testing.T) {
	text, err := os.ReadFile("kubernetes/walrelay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type probe struct {
		HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	}
	var deployment struct {
		Spec struct {
			Replicas int
			Template struct {
				Spec struct {
					Grace      int `yaml:"terminationGracePeriodSeconds"`
					Containers []struct {
						Args      []string
						Env       []struct{ Name, Value string }
						Liveness  probe `yaml:"livenessProbe"`
						Readiness probe `yaml:"readinessProbe"`
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &deployment); err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template.Spec
	container := pod.Containers[0]
	var environ []string
	for _, e := range container.Env {
		if e.Name == "WALRELAY_POSTGRES_URL" { // a secret
			e.Value = "postgres://u@h/d"
		}
		environ = append(environ, e.Name+"="+e.Value)
	}
	c, err := config.Load(config.Sources{Environ: environ})
	if err != nil {
		t.Fatal(err)
	}
	if c.OnStop != "wait" || !strings.HasPrefix(c.HTTP.Listen, "0.0.0.0:") || float64(pod.Grace) <= c.DrainTimeout.Seconds() {
		t.Errorf("on_stop %s, http.listen %s, grace %d s for a drain of %v", c.OnStop, c.HTTP.Listen, pod.Grace, c.DrainTimeout)
	}
	if deployment.Spec.Replicas != 2 || container.Args[0] != "run" || container.Liveness.HTTPGet.Path != "/healthz" || container.Readiness.HTTPGet.Path != "/readyz" {
		t.Errorf("%+v", deployment)
	}
}
