package house

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// rules are what the code base is held to, by the name of the subtest.
var rules = []struct {
	name  string
	check func(*Tree) []Violation
}{
	{"imports", Imports},
	{"pure packages", Pure},
	{"sizes", Sizes},
	{"names", Names},
	{"package comments", PackageDocs},
	{"documented", Documented},
	{"goroutines", Goroutines},
	{"stored contexts", StoredContexts},
	{"sleeps", Sleeps},
	{"texts", Texts},
	{"links", Links},
	{"make targets", Targets},
	{"proofs", Proofs},
}

func TestCodeBase(t *testing.T) {
	tree, err := NewTree(os.DirFS(root), tracked(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		t.Run(rule.name, func(t *testing.T) { report(t, rule.check(tree)) })
	}
	t.Run("binary", func(t *testing.T) {
		report(t, Linked(goList(t, "-deps", "./cmd/walrelay")))
	})
	t.Run("applications", func(t *testing.T) {
		report(t, Light(goList(t, "-deps", "./outbox", "./inbox")))
	})
}

// Every module that is linked into the binary or that tests use has a licence that lets us hand it on, and every direct one
// has its reason.
func TestDependencies(t *testing.T) {
	var modules []Module
	linked := goList(t, "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", "./cmd/walrelay")
	format := "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}"
	lines := strings.FieldsFunc(goListText(t, "-deps", "-test", "-f", format, "./..."), func(r rune) bool { return r == '\n' })
	slices.Sort(lines)
	for _, line := range slices.Compact(lines) {
		words := strings.SplitN(line, " ", 3)
		m := Module{Path: words[0], Version: words[1], Dir: words[2], Linked: slices.Contains(linked, words[0]), Licences: map[string]string{}}
		entries, err := os.ReadDir(m.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			if entry.Type().IsRegular() && IsLicence(entry.Name()) {
				m.Licences[entry.Name()] = read(t, filepath.Join(m.Dir, entry.Name()))
			}
		}
		modules = append(modules, m)
	}
	if len(modules) < 30 {
		t.Errorf("%d modules were looked at", len(modules))
	}
	report(t, Licences(modules))
	report(t, Dependencies(read(t, root+"/go.mod"), read(t, root+"/docs/dependencies.md")))
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func report(t *testing.T, found []Violation) {
	t.Helper()
	slices.SortFunc(found, func(a, b Violation) int { return cmp.Compare(a.String(), b.String()) })
	for _, v := range found {
		t.Error(v)
	}
}

// tracked are the files that git has or would take, or without git all but hidden ones and what make builds.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return walked(t)
	}
	var paths []string
	for name := range bytes.SplitSeq(bytes.TrimRight(out, "\x00"), []byte{0}) {
		if _, err := os.Stat(filepath.Join(root, string(name))); err == nil { // else deleted and not committed
			paths = append(paths, string(name))
		}
	}
	return paths
}

func walked(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := fs.WalkDir(os.DirFS(root), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (p == "bin" || p == ".git"):
			return fs.SkipDir
		case d.Type().IsRegular():
			paths = append(paths, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func goList(t *testing.T, args ...string) []string {
	t.Helper()
	return strings.Fields(goListText(t, args...))
}

func goListText(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir = root
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return string(out)
}
