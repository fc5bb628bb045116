package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/walrelay/walrelay/internal/pgtest/cache"
)

// example is one pair of programs.
type example struct {
	name string
	// prepare builds what is needed and returns the command lines of the service and of the consumer, and their folder.
	prepare func(ctx context.Context, s *stage) (service, consumer []string, dir string, err error)
}

var examples = []example{{"go", goExample}, {"python", pythonExample}, {"node", nodeExample}, {"java", javaExample}}

func names() []string {
	var list []string
	for _, e := range examples {
		list = append(list, e.name)
	}
	return list
}

func goExample(ctx context.Context, s *stage) (service, consumer []string, dir string, err error) {
	dir = filepath.Join(s.root, "go")
	for _, name := range []string{"orders", "billing"} {
		if err := command(ctx, dir, "go", "build", "-o", filepath.Join(s.dir, name), "./"+name); err != nil {
			return nil, nil, "", err
		}
	}
	return []string{filepath.Join(s.dir, "orders")}, []string{filepath.Join(s.dir, "billing")}, dir, nil
}

// pythonExample installs the requirements into an environment of the cache that goes with them.
func pythonExample(ctx context.Context, s *stage) (service, consumer []string, dir string, err error) {
	dir = filepath.Join(s.root, "python")
	environment, err := once(ctx, dir, "requirements.txt", "python3", func(tmp, manifest string) error {
		return errors.Join(command(ctx, dir, "python3", "-m", "venv", tmp),
			command(ctx, dir, filepath.Join(tmp, "bin", "python3"), "-m", "pip", "install", "--quiet", "--requirement", manifest))
	})
	python := filepath.Join(environment, "bin", "python3")
	return []string{python, "orders.py"}, []string{python, "billing.py"}, dir, err
}

// nodeExample installs the packages in the cache; Node finds them above the copied programs.
func nodeExample(ctx context.Context, s *stage) (service, consumer []string, dir string, err error) {
	source := filepath.Join(s.root, "node")
	packages, err := once(ctx, source, "package.json", "npm", func(tmp, manifest string) error {
		text, err := os.ReadFile(manifest)
		return errors.Join(err, os.WriteFile(filepath.Join(tmp, "package.json"), text, 0o600),
			command(ctx, tmp, "npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"))
	})
	if err != nil {
		return nil, nil, "", err
	}
	dir = filepath.Join(s.dir, "node")
	if err := os.CopyFS(dir, os.DirFS(source)); err != nil {
		return nil, nil, "", err
	}
	err = os.Symlink(filepath.Join(packages, "node_modules"), filepath.Join(dir, "node_modules"))
	return []string{"node", "orders.mjs"}, []string{"node", "billing.mjs"}, dir, err
}

func javaExample(ctx context.Context, s *stage) (service, consumer []string, dir string, err error) {
	dir = filepath.Join(s.root, "java")
	jars, err := once(ctx, dir, "pom.xml", "mvn", func(tmp, manifest string) error {
		return command(ctx, dir, "mvn", "-q", "-B", "-f", manifest, "dependency:copy-dependencies", "-DoutputDirectory="+tmp)
	})
	if err != nil {
		return nil, nil, "", err
	}
	classes := filepath.Join(s.dir, "classes")
	path := filepath.Join(jars, "*")
	source := filepath.Join("src", "main", "java")
	if _, err := exec.LookPath("javac"); err != nil {
		return nil, nil, "", err
	}
	err = command(ctx, dir, "javac", "-d", classes, "-cp", path, filepath.Join(source, "Orders.java"), filepath.Join(source, "Billing.java"))
	java := []string{"java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classes + string(os.PathListSeparator) + path}
	return append(java[:len(java):len(java)], "Orders"), append(java[:len(java):len(java)], "Billing"), dir, err
}

// once makes a folder of the cache that goes with the content of a manifest, with a tool that must be there.
func once(ctx context.Context, dir, manifest, tool string, fill func(tmp, manifest string) error) (string, error) {
	if _, err := exec.LookPath(tool); err != nil {
		return "", err
	}
	file := filepath.Join(dir, manifest)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	folder := cache.Path("examples", tool, hex.EncodeToString(sum[:8]))
	return folder, cache.Once(ctx, folder, func(tmp string) error { return fill(tmp, file) })
}
