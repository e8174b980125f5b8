package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

var errRoundOver = errors.New("the command was stopped, as its round was about to end")

// command runs the command of a round that was won. If ctx or the round ends, the command is
// asked to stop, and killed if it does not.
func (r *roundRunner) command(ctx context.Context, g *rounds.Guard) error {
	left := g.Left()
	grace := min(left/10, 10*time.Second)
	ctx, cancel := context.WithTimeoutCause(ctx, left-grace, errRoundOver)
	defer cancel()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c := exec.CommandContext(ctx, r.args[0], r.args[1:]...)
	c.Stdout, c.Stderr = r.stdout, r.stderr
	if r.flags.json {
		c.Stdout = r.stderr
	}
	c.Env = append(os.Environ(), "FETCHER_ROUND_NAME="+r.fl.name, fmt.Sprint("FETCHER_ROUND_TERM=", g.Term()), "FETCHER_ROUND_TOKEN="+g.Token())
	c.WaitDelay = grace
	tied(c)
	// The kernel treats the thread that starts it as its parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.Run()
	killRest(c)
	if ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.args[0], err)
	}
	return nil
}
