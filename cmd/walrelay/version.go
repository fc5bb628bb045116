package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build says what this binary was made of.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

func (p *program) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  noArguments,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return p.print(asJSON, b, func() error {
				_, err := fmt.Fprintf(p.out, "walrelay %s (commit %s, %s)\n", b.Version, b.Commit, b.Go)
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "as one JSON line")
	return cmd
}

// thisBuild takes what the release has set, else what the Go command has noted.
func thisBuild() build {
	b := build{Version: version, Commit: "unknown", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" {
		b.Version = "unknown"
	}
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if modified {
		b.Commit += "-modified"
	}
	return b
}
