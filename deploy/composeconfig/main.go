// Composeconfig prints a compose file as "docker compose config --format json" would, all profiles included. It reads the
// file with the loader that Docker Compose uses, so what that refuses is refused here, where no Docker is installed.
//
// It is a module of its own: the loader brings many others, and the product must not have them.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: composeconfig FILE")
		os.Exit(2)
	}
	out, err := config(context.Background(), os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Stdout.Write(out)
}

func config(ctx context.Context, file string) ([]byte, error) {
	options, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles([]string{"*"}), cli.WithName("walrelay"))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return project.MarshalJSON()
}
