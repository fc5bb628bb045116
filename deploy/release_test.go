package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/walrelay/walrelay/config"
)

func file(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// GoReleaser's own loader takes the file, and refuses it with a key too many. All files that it names are there or are made
// by its hooks, and it builds as make build does.
func TestRelease(t *testing.T) {
	check := func(path string) error {
		cmd := exec.Command("go", "run", ".", path)
		cmd.Dir = "releasecheck"
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	if err := check("../../.goreleaser.yaml"); err != nil {
		t.Error(err)
	}
	text := file(t, "../.goreleaser.yaml")
	wrong := filepath.Join(t.TempDir(), "wrong.yaml")
	if err := os.WriteFile(wrong, []byte(text+"\nreleased: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(wrong); err == nil || !strings.Contains(err.Error(), "released") {
		t.Errorf("an unknown key is taken: %v", err)
	}
	var release struct {
		Archives []struct{ Files []string }
		Nfpms    []struct{ Contents []struct{ Src string } }
	}
	if err := yaml.Unmarshal([]byte(text), &release); err != nil {
		t.Fatal(err)
	}
	names := release.Archives[0].Files
	for _, c := range release.Nfpms[0].Contents {
		names = append(names, c.Src)
	}
	for _, name := range names {
		if found, _ := filepath.Glob("../" + name); len(found) == 0 && !strings.HasPrefix(name, "bin/") && name != "" {
			t.Errorf(".goreleaser.yaml names %s, which is not there", name)
		}
	}
	if !strings.Contains(text, `-s -w -X main.version={{ .Tag }}`) || !strings.Contains(file(t, "../Makefile"), `-s -w -X main.version=$(VERSION)`) {
		t.Error("a release is built with other flags than make build")
	}
}

// What the workflows call is there, they have no more rights than they need, and their Go is the one of go.mod.
func TestWorkflows(t *testing.T) {
	makefile := file(t, "../Makefile")
	for _, name := range []string{"ci", "release"} {
		text := file(t, "../.github/workflows/"+name+".yml")
		var workflow struct {
			Permissions map[string]string
			Jobs        map[string]struct {
				Timeout int `yaml:"timeout-minutes"`
				Steps   []struct {
					Run, Uses string
					With      map[string]any
				}
			}
		}
		if err := yaml.Unmarshal([]byte(text), &workflow); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(workflow.Permissions) != 1 || workflow.Permissions["contents"] != "read" {
			t.Errorf("%s: permissions %v for every job", name, workflow.Permissions)
		}
		for job, j := range workflow.Jobs {
			if j.Timeout == 0 {
				t.Errorf("%s %s: no time limit", name, job)
			}
			for _, step := range j.Steps {
				if strings.HasPrefix(step.Uses, "actions/setup-go@") && step.With["go-version-file"] != "go.mod" {
					t.Errorf("%s %s: another Go than that of go.mod", name, job)
				}
				if step.Uses != "" && !regexp.MustCompile(`^[\w-]+/[\w/-]+@v\d+$`).MatchString(step.Uses) {
					t.Errorf("%s %s: %s is not pinned to a version", name, job, step.Uses)
				}
				words, _, _ := strings.Cut(step.Run, "&&")
				if targets := strings.Fields(words); len(targets) > 1 && targets[0] == "make" {
					for _, target := range targets[1:] {
						if !strings.Contains(makefile, "\n"+target+":") {
							t.Errorf("%s %s: make has no target %s", name, job, target)
						}
					}
				}
			}
		}
	}
}

// The unit runs the program without rights, stops it more patiently than it drains, and starts it again only where that helps.
func TestUnit(t *testing.T) {
	text := file(t, "systemd/walrelay.service")
	settings := map[string][]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = append(settings[name], value)
		}
	}
	for name, want := range map[string]string{"ExecStart": "/usr/bin/walrelay run", "DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict",
		"CapabilityBoundingSet": "", "KillSignal": "SIGTERM", "TimeoutStopSec": "30s", "Restart": "on-failure", "RestartPreventExitStatus": "2 3 4 5",
		"Type": "notify", "ExecReload": "/bin/kill -HUP $MAINPID", "WatchdogSec": "30s"} {
		if !slices.Equal(settings[name], []string{want}) {
			t.Errorf("%s=%q, want %q", name, settings[name], want)
		}
	}
	if drain := config.Default().DrainTimeout; drain >= 30*time.Second {
		t.Errorf("a drain of %v does not fit into TimeoutStopSec", drain)
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Logf("systemd-analyze, which would verify the unit, is not here: %v", err)
		return
	}
	unit := filepath.Join(t.TempDir(), "walrelay.service")
	if err := os.WriteFile(unit, []byte(strings.Replace(text, "/usr/bin/walrelay", "/bin/true", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"verify", "--man=no", unit}, {"security", "--offline=yes", "--threshold=20", unit}} {
		if out, err := exec.Command(analyze, args...).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", args[0], err, out)
		}
	}
}
