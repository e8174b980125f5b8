//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// tied gives a command a process group of its own, so that all of it can be stopped.
func tied(c *exec.Cmd) {
	c.SysProcAttr = dyingWithUs()
	c.SysProcAttr.Setpgid = true
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
}

// killRest ends the processes that the command has left running.
func killRest(c *exec.Cmd) {
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	}
}
