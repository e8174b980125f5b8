//go:build unix && !linux

package main

import "syscall"

func dyingWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
