//go:build !linux

package process

import "os/exec"

// dieWithParent does nothing: only Linux has parent-death signals.
func dieWithParent(*exec.Cmd) {}
