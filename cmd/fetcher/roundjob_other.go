//go:build !unix

package main

import "os/exec"

// tied does nothing: this system has no process groups, and a command is killed.
func tied(*exec.Cmd) {}

func killRest(*exec.Cmd) {}
