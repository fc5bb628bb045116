// Releasecheck reads a configuration of GoReleaser with GoReleaser's own loader, which refuses unknown keys and wrong types,
// so that a release does not fail at its first step.
//
// It is a module of its own: the loader brings many others, and the product must not have them.
package main

import (
	"fmt"
	"os"

	"github.com/goreleaser/goreleaser/v2/pkg/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: releasecheck FILE")
		os.Exit(2)
	}
	if _, err := config.Load(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "releasecheck:", err)
		os.Exit(1)
	}
}
