package process

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child when the thread that started it ends. Threads of a Go program live as
// long as the program, except those of a goroutine that ends while locked to its thread: start no process from one.
func dieWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setpgid = true // Ctrl-C in the terminal is for the program, which stops its children in order
}
