package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/walrelay/walrelay/internal/pgtest/process"
)

// worker is one of the programs of an example, which is killed and started again.
type worker struct {
	name, dir string
	command   []string
	environ   []string
	log       string // file

	running *process.Process
}

func (w *worker) start() error {
	file, err := os.OpenFile(w.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	cmd := exec.Command(w.command[0], w.command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.dir, file, file
	cmd.Env = append(os.Environ(), w.environ...)
	cmd.Env = append(cmd.Env, "PYTHONDONTWRITEBYTECODE=1", "KAFKAJS_NO_PARTITIONER_WARNING=1")
	w.running, err = process.Start(cmd)
	return err
}

// replace kills the program and starts it again. One that has ended by itself is what its supervisor would start again; why
// stands in its log.
func (w *worker) replace() error {
	if err := w.running.Kill(); err != nil {
		return err
	}
	return w.start()
}

// revive starts a program again that has ended by itself, as a supervisor does.
func (w *worker) revive() error {
	if w.running.Running() {
		return nil
	}
	return w.start()
}

func (w *worker) kill() {
	if w.running != nil {
		_ = w.running.Kill() // it waits for the end
	}
}

// said is the end of the log.
func (w *worker) said() string {
	text, err := os.ReadFile(w.log)
	if err != nil {
		return fmt.Sprint(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}
