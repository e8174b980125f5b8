package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

func (a *app) roundCommand() *cobra.Command {
	c := group(&cobra.Command{
		Use:   "round",
		Short: "Have one of many machines do a job, once in each period",
		Long: `Have one of many machines do a job, once in each period. They agree through
a store that all of them reach, which --kv names:

` + kvurl.Forms + `

  fetcher round run --kv URL --name backup --every 24h -- CMD ARG...
  fetcher round show backup --kv URL
  fetcher round list                  the rounds of this node's fleet

The first machine that asks in a period runs the command; the others do not.`,
	})
	c.AddCommand(a.roundRunCommand(), a.roundShowCommand(), roundListCommand(a))
	return c
}

// roundFlags are the flags of round run.
type roundFlags struct {
	kv, name, holder string
	every            time.Duration
	once             bool
}

func (a *app) roundRunCommand() *cobra.Command {
	var fl roundFlags
	c := &cobra.Command{
		Use:   "run --kv URL --name NAME --every TIME [flags] -- CMD ARG...", // flags after -- are those of CMD
		Short: "Run a command in each round that this machine wins",
		Long: `Run a command in each round that this machine wins, until Ctrl-C. A round
begins at each multiple of --every (24h: at midnight, UTC; 168h: on Mondays),
and the first machine that asks has it. A machine that first asks in the
second half of a round waits for the next.

With --once, for cron, ask once: run the command if the round is won, and say
nothing if it is not. The round then lasts for 95 % of --every, so that cron
may be a little early the next time.

The command finds FETCHER_ROUND_NAME, FETCHER_ROUND_TERM and
FETCHER_ROUND_TOKEN in its environment. The term is a number that grows with
each round; the token is a string that contains that number, and sorts after
the token of every earlier round.
A machine that was suspended may go on with an old round after others have
begun a new one: the system to which the command writes should refuse any term
lower than the highest that it has seen.

If the command succeeds, the round is completed. If it fails, the round is
abandoned: others may try at once; this machine tries again in the next round,
or with --once whenever it is run again. A command that is still running when
its round is about to end is stopped.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{errors.New("round run needs a command after --; see fetcher round run --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.roundRun(cmd.Context(), fl, args)
		},
	}
	f := c.Flags()
	f.StringVar(&fl.kv, "kv", "", "the store that all machines reach: a `URL`; see fetcher round --help")
	f.StringVar(&fl.name, "name", "", "`NAME` of the round: letters, digits, _, - and dots")
	f.StringVar(&fl.holder, "holder", "", "what this machine is called in the store: `WHO` (default the host's name)")
	spanVar(f, &fl.every, "every", 0, minEvery, maxEvery, "run CMD once in each period of this `TIME`, from 1s to 768h (32 days)")
	f.BoolVar(&fl.once, "once", false, "ask once, run the command if the round is won, and end")
	return c
}

const minEvery, maxEvery = time.Second, 32 * 24 * time.Hour

const askStore = 10 * time.Second // between attempts to open a store that is away

func (fl *roundFlags) check() error {
	switch {
	case fl.kv == "":
		return usageError{errors.New("--kv: name the store that all machines reach; see fetcher round --help")}
	case fl.name == "":
		return usageError{errors.New("--name: give the round a name")}
	case rounds.CheckName(fl.name) != nil:
		return usageError{fmt.Errorf("--name: %w", rounds.CheckName(fl.name))}
	case fl.every == 0:
		return usageError{errors.New("--every must be given: a time from 1s to 768h (32 days), such as 1h")}
	}
	if fl.holder == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		fl.holder = host
	}
	return nil
}

// begun is what is said when it begins: also when it first asks, if that is not at once.
func (fl roundFlags) begun(now time.Time) string {
	from := ""
	if lasts, next := period(now, fl.every); lasts == 0 {
		from = "from " + stamp(next) + " on, "
	}
	return fmt.Sprintf("round %s every %s, %suntil Ctrl-C", fl.name, words.Duration(fl.every), from)
}

// A roundRunner runs a command in the rounds that it wins.
type roundRunner struct {
	*app
	fl     roundFlags
	args   []string
	kv     rounds.KV
	round  *rounds.Round
	run    string // names this process
	log    *slog.Logger
	counts map[string]int
}

// runnable refuses what is not a program.
func runnable(name string) error {
	_, err := exec.LookPath(name)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		err = fmt.Errorf("there is no program %q in $PATH", name)
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("there is no program %q", name)
	case errors.Is(err, syscall.EISDIR):
		err = fmt.Errorf("%q is a folder, not a program", name)
	case errors.Is(err, fs.ErrPermission):
		err = fmt.Errorf("%q may not be run by this user; chmod +x lets a program be run", name)
	}
	return usageError{err}
}

func (a *app) roundRun(ctx context.Context, fl roundFlags, args []string) error {
	if err := fl.check(); err != nil {
		return err
	}
	if err := runnable(args[0]); err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	r := &roundRunner{app: a, fl: fl, args: args, run: rand.Text(), log: log, counts: map[string]int{}}
	c := rounds.Config{Name: fl.name, Holder: fl.holder, Run: r.run, Clock: rounds.ClockOf(time.Now), Notice: r.notice, MaxTTL: maxEvery}
	if _, err := rounds.New(nil, c); err != nil { // a mistake is said before the store is waited for
		return usageError{err}
	}
	defer func() { a.out.sum(map[string]any{"round": fl.name, "counts": r.counts}) }()
	open := func() (kvurl.Store, error) { return openKV(ctx, a, fl.kv) }
	kv, err := open()
	if !fl.once && errors.Is(err, rounds.ErrAway) {
		kv, err = onceThere(ctx, log, err, open)
	}
	switch {
	case err != nil && !fl.once && ctx.Err() != nil:
		return nil // as in the loop: it was to run until then
	case err != nil:
		return err
	}
	defer kv.Close()
	r.kv = kv
	if r.round, err = rounds.New(kv, c); err != nil {
		return err
	}
	if fl.once {
		_, err := r.try(ctx, fl.every-spare(fl.every))
		return err
	}
	fmt.Fprintln(a.stderr, fl.begun(time.Now()))
	r.loop(ctx)
	return nil
}

// onceThere opens a store that was away, as err says, however long that lasts: a machine may start before its store.
func onceThere(ctx context.Context, log *slog.Logger, err error, open func() (kvurl.Store, error)) (kv kvurl.Store, _ error) {
	for errors.Is(err, rounds.ErrAway) {
		log.Warn("no round is run here until the store answers; it will be asked again", "in", words.Duration(askStore), "err", err)
		select {
		case <-time.After(askStore):
			kv, err = open()
		case <-ctx.Done():
			return nil, cause(ctx)
		}
	}
	return kv, err
}

// openExistingKV opens a store for a command that only reads it, and creates none.
func openExistingKV(ctx context.Context, a *app, url string) (kvurl.Store, error) {
	if err := isStore(url, "--kv", "fetcher round run"); err != nil {
		return nil, err
	}
	return openKV(ctx, a, url)
}

// isStore refuses a store that would be created. flag names it, and makes is the command that creates it.
func isStore(url, flag, makes string) error {
	path, ok := strings.CutPrefix(url, "sqlite:")
	if !ok || path == "" {
		return nil
	}
	_, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		err = usageError{fmt.Errorf("%s: there is no store at %s; %s makes it", flag, path, makes)}
	}
	return err
}

// openKV opens a store.
func openKV(ctx context.Context, a *app, url string) (kvurl.Store, error) {
	defer awaiting(a.stderr, "the store").Stop()
	kv, err := kvurl.Open(ctx, url)
	if errors.Is(err, kvurl.ErrURL) {
		return nil, usageError{fmt.Errorf("--kv: %w", err)}
	}
	if err != nil && ctx.Err() != nil {
		return nil, cause(ctx)
	}
	return kv, err
}

// notice receives from the round what an operator should know.
func (r *roundRunner) notice(n rounds.Notice) {
	name := map[rounds.NoticeKind]string{rounds.ClockAhead: "clock_ahead", rounds.Overtaken: "overtaken", rounds.Unresolved: "unresolved", rounds.Implausible: "implausible"}[n.Kind]
	r.counts[name]++
	r.log.Warn(n.String())
	r.out.write("round", map[string]any{"round": r.fl.name, "state": name, "term": n.Record.Term, "holder": n.Record.Holder, "text": n.String()})
}

// loop tries once in each period. Errors are those of the store or of the command: either may be
// gone the next time.
func (r *roundRunner) loop(ctx context.Context) {
	for ctx.Err() == nil {
		now := time.Now()
		lasts, next := period(now, r.fl.every)
		if lasts == 0 {
			r.wait(ctx, next, false)
			continue
		}
		again, err := r.try(ctx, lasts)
		if err != nil && ctx.Err() == nil {
			r.log.Warn("this round was not completed here", "err", err)
		}
		if soon := time.Now().Add(again); again > 0 && soon.Before(next) {
			next = soon
		}
		r.wait(ctx, next, true)
	}
}

// spare is how much shorter than its period a round is, so that one that begins a little
// early is not refused.
func spare(every time.Duration) time.Duration { return every / 20 }

// period says how long a round lasts that begins now, until a little before the next
// multiple of every; 0 if it is too late in this period. next is when the next
// period begins.
func period(now time.Time, every time.Duration) (lasts time.Duration, next time.Time) {
	began := now.Truncate(every)
	next = began.Add(every)
	if now.Sub(began) >= every/2 {
		return 0, next
	}
	return next.Sub(now) - spare(every), next
}

// wait waits until that time, or until another process abandons the previous round, if that
// is of interest.
func (r *roundRunner) wait(ctx context.Context, until time.Time, look bool) {
	every := min(max(r.fl.every/10, 100*time.Millisecond), 10*time.Second)
	for rest := time.Until(until); rest > 0 && ctx.Err() == nil; rest = time.Until(until) {
		select {
		case <-ctx.Done():
		case <-time.After(min(rest, every)):
		}
		if !look || rest <= every {
			continue
		}
		if rec, err := rounds.Current(ctx, r.kv, r.fl.name); err == nil && rec.State == rounds.Abandoned && rec.Run != r.run {
			return
		}
	}
}

// try asks for the round, and runs the command if it is won. again, if it is not 0,
// is when to ask again; err says why the command was not run, or not to its end.
func (r *roundRunner) try(ctx context.Context, lasts time.Duration) (again time.Duration, err error) {
	asking, stop := context.WithTimeout(ctx, lasts) // each round that a store keeps from being run is told
	g, err := r.round.TryAcquire(asking, lasts)
	stop()
	if held, ok := errors.AsType[*rounds.HeldError](err); ok {
		r.tell("held", held.Record)
		return held.Again, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			err = cause(ctx)
		}
		return spare(r.fl.every), err
	}
	defer g.Close()
	r.tell("won", g.Record())
	return 0, r.job(ctx, g)
}

// tell reports the result of the round.
func (r *roundRunner) tell(state string, rec rounds.Record) {
	r.counts[state]++
	r.log.Info("round "+state, "round", r.fl.name, "term", rec.Term, "holder", rec.Holder, "outcome", rec.Outcome)
	r.out.write("round", map[string]any{"round": r.fl.name, "state": state, "term": rec.Term, "holder": rec.Holder, "outcome": rec.Outcome})
}

// job runs the command, and completes or abandons its round.
func (r *roundRunner) job(ctx context.Context, g *rounds.Guard) error {
	began := time.Now()
	failed := r.command(ctx, g)
	if failed == nil {
		return r.end(g, "completed", func(ctx context.Context) error {
			return g.Complete(ctx, "exit status 0, after "+words.Duration(time.Since(began)))
		})
	}
	if ctx.Err() != nil {
		failed = cause(ctx)
	}
	err := r.end(g, "abandoned", func(ctx context.Context) error { return g.Abandon(ctx, failed.Error()) })
	if err == nil {
		err = fmt.Errorf("round %s, term %d: %w; the round was abandoned", r.fl.name, g.Term(), failed)
	}
	return err
}

// endWithin bounds the attempts to end a round; retryEnd is the time between them.
const endWithin, retryEnd = 30 * time.Second, 500 * time.Millisecond

// end writes the end of a round, even if we were told to stop. That it was
// overtaken changes nothing for the command, and was reported.
func (r *roundRunner) end(g *rounds.Guard, state string, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), min(endWithin, max(g.Left(), retryEnd)))
	defer cancel()
	for {
		err := write(ctx)
		switch {
		case err == nil:
			r.tell(state, g.Record())
			return nil
		case errors.As(err, new(*rounds.LostError)):
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("round %s, term %d: the command has ended, but the store could not be told: %w", r.fl.name, g.Term(), err)
		case <-time.After(retryEnd):
		}
	}
}
