package main

import "syscall"

// dyingWithUs makes the kernel kill a command whose parent was killed.
func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
