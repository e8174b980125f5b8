//go:build !unix

package main

import "os"

// whyAsked never fires: this system has no SIGUSR1.
func whyAsked() (asked <-chan os.Signal, stop func()) { return nil, func() {} }
