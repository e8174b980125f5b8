// Command fetcher shares files and fetches them, verified, from many peers.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func main() {
	tune()
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, interrupts()))
}

// sameSignal is how soon after the first signal a further one counts as the same: timeout and
// service managers send one to the process and to its group.
const sameSignal = 500 * time.Millisecond

// interrupts cancels a context at the first Ctrl-C, SIGTERM or SIGHUP. A further one ends the
// process at once, except SIGHUP, of which a closing terminal may send several. Under
// nohup SIGHUP is ignored.
func interrupts() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() { // ends with the process
		var first time.Time
		for s := range signals {
			switch {
			case s == syscall.SIGHUP && hangups.Load():
			case ctx.Err() == nil:
				first = time.Now()
				cancel(signalled{s})
			case s != syscall.SIGHUP && time.Since(first) > sameSignal:
				os.Exit(exitInterrupted)
			}
		}
	}()
	return ctx
}

// hangups says that SIGHUP has another effect than to end the command.
var hangups atomic.Bool

// onHangup calls f at each SIGHUP, under nohup too, until stop. SIGHUP ends nothing meanwhile.
func onHangup(f func()) (stop func()) {
	hangups.Store(true)
	signals, end := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-signals:
				f()
			case <-end:
				return
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(end)
		running.Wait()
		hangups.Store(false)
	}
}

// signalled is the cause of a context that a signal cancelled.
type signalled struct{ os.Signal }

func (s signalled) Error() string { return s.String() }

// endings are the messages for signals that ended us; Ctrl-C has none.
var endings = map[os.Signal]struct{ name, says string }{
	syscall.SIGTERM: {"SIGTERM", "ended by SIGTERM"},
	syscall.SIGHUP:  {"SIGHUP", "ended by SIGHUP, as when a terminal is closed; nohup or tmux keeps the command running then"},
}

// app is one invocation: its input, output and arguments.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  *terminal
	out     *reporter // NDJSON, when asked for
	plain   bool      // warnings are messages, and not lines of a log
	kept    bool      // what the command has fetched is here for the next run
	unknown error     // of a command whose help was asked for
	flags   globals
}

// globals are the flags of every command.
type globals struct {
	dir      string
	json     bool
	logLevel string
}

// self is how to call this command again for the same state directory.
func (g globals) self() string {
	if g.dir == "" {
		return "fetcher"
	}
	return "fetcher --dir " + quote(g.dir)
}

// ofNode is a command of the node, as a sentence names it.
var ofNode = regexp.MustCompile(`"?\bfetcher (add|list|set|rm|id|doctor|hold|holds|holdings|release|passes|depot|fleet|node)\b( [a-z]+)*( --help)?`)

// named is a message in which the commands of the node have the state directory that was given. A sentence puts those that
// are for another machine between quotation marks; these are as they are, and so are commands on lines of their own.
func (g globals) named(message string) string {
	if g.dir == "" || !strings.Contains(message, "fetcher ") {
		return message
	}
	lines := strings.SplitAfter(message, "\n")
	for i, line := range lines {
		if !own(line) {
			lines[i] = ofNode.ReplaceAllStringFunc(line, func(s string) string {
				if s[0] == '"' || strings.HasSuffix(s, " --help") {
					return s
				}
				return g.self() + strings.TrimPrefix(s, "fetcher")
			})
		}
	}
	return strings.Join(lines, "")
}

// run is the command, without the process around it.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, ctx context.Context) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: newTerminal(stderr)}
	a.stderr.edit = func(s string) string { return a.flags.named(s) }
	defer a.stderr.clear()
	a.out = newReporter(stdout, wantsJSON(args))
	a.out.edit = a.stderr.edit
	root := a.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		unquoted(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = a.unknown
	}
	code := exitCode(err)
	complain := func(err error) {
		a.stderr.clear()
		fmt.Fprintln(a.stderr, "fetcher:", plainText(sentence(err)))
		if s := either(a.kept, keptText, "") + advice(err); s != "" {
			fmt.Fprintln(a.stderr, strings.TrimSuffix(s, " "))
		}
	}
	if err != nil && code != exitInterrupted && code != exitPipe {
		complain(err)
	}
	var by signalled
	if errors.As(context.Cause(ctx), &by) && endings[by.Signal].name != "" {
		fmt.Fprintln(a.stderr, endings[by.Signal].says)
		a.out.sum(map[string]any{"signal": endings[by.Signal].name})
	}
	a.out.finish(code, err)
	if lost := a.out.lost; code == exitOK && lost != nil {
		complain(lost)
		code = exitCode(lost)
	}
	return code
}

// wantsJSON looks for --json before the flags are parsed, so that a usage error
// is reported in NDJSON too. The last one counts, as it does there.
func wantsJSON(args []string) bool {
	wants := envBool("FETCHER_JSON")
	for _, s := range args {
		if s == "--" {
			break
		}
		if s == "--json" {
			s = "--json=true"
		}
		if value, is := strings.CutPrefix(s, "--json="); is {
			if v, err := strconv.ParseBool(value); err == nil {
				wants = v
			}
		}
	}
	return wants
}

func (a *app) root() *cobra.Command {
	askedVersion := false
	root := &cobra.Command{
		Use:           "fetcher",
		Short:         "Share files, and fetch them verified from many peers",
		Long:          longHelp,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args[0])
			}
			if askedVersion {
				return a.printVersion()
			}
			return cmd.Help()
		},
		Args: cobra.ArbitraryArgs,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			if err := cmp.Or(notBlank(cmd), fromEnvironment(cmd)); err != nil {
				return err
			}
			a.plain = !cmd.Flags().Changed("log-level")
			_, err := a.flags.level()
			return err
		},
	}
	root.SetFlagErrorFunc(flagError)
	root.Flags().BoolVar(&askedVersion, "version", false, "print the version")
	f := root.PersistentFlags()
	f.StringVar(&a.flags.dir, "dir", "", "keep the node's key, and what it remembers of files and peers, in this folder, `DIR` (default the user's data folder)")
	f.BoolVar(&a.flags.json, "json", false, "write NDJSON to stdout; see json.md, in /usr/share/doc/fetcher or beside the program")
	f.StringVar(&a.flags.logLevel, "log-level", "warn", "log to stderr from this `LEVEL` on: debug, info, warn or error")
	root.SetUsageFunc(usage)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 {
			a.unknown = noCommand(cmd, cmd.Flags().Arg(0))
			return
		}
		help(cmd, args)
	})
	root.SetHelpCommand(helpCommand())
	root.AddCommand(a.shareCommand(), a.fetchCommand(), a.catCommand(), a.lsCommand(), a.coordinateCommand(), a.fleetCommand(), a.roundCommand(), a.simCommand(), a.versionCommand(), manCommand())
	completions(root)
	root.AddCommand(asker{a}.commands()...)
	root.AddCommand(depots{asker{a}}.commands()...)
	complete(root)
	pages(root)
	return root
}

const longHelp = `Share files, and fetch them verified from many peers.

  fetcher share PATH       prints a ticket and serves until Ctrl-C
  fetcher fetch TICKET     fetches what the ticket names; run it again to resume
  fetcher cat TICKET FILE  writes one file of it to stdout

  fetcher node run         keeps many shares across restarts, until it is ended
  fetcher add TICKET|PATH  has the node fetch a share, or serve a path
  fetcher list             lists what it serves and fetches

Every flag can also be set in the environment: --log-level as FETCHER_LOG_LEVEL,
--seed of sim run as FETCHER_SIM_SEED, --kv of round run as FETCHER_ROUND_KV,
--fleet of hold as FETCHER_HOLD_FLEET; --name of share, add and depot account as
FETCHER_SHARE_NAME, FETCHER_ADD_NAME and FETCHER_ACCOUNT_NAME. A flag that may
be repeated takes its values there separated by spaces.

Exit codes, the first that holds in this order:
    2  usage: a flag, a path that is not there or cannot be shared, a ticket
       that cannot be read, an ID that nobody announces, or nothing selected
   14  a path that is unsafe, or that cannot exist on this system
   13  the target exists and differs (identical content is success)
   11  the target, the state directory, the depot's folder or a socket is in use
       by another process, or the node has the share already
    9  disk full; hold: over the quota, or the depot's disk is full
    6  network: no peer, depot, hash table or store could be reached, the store
       cannot be used, or a --listen or --http address cannot be used
    3  every peer said that it does not have the share; release: not held there;
       fetch: the code leads nowhere; passes redeem: no such voucher;
       round show: nobody has held it; depot restore: the fleet has no copy
    7  the share is for named peers only, and this node is not one of them, or
       the coordinator of its fleet does not admit it;
       hold, release: the depot does not know this node;
       hold: passes are missing;
       passes redeem: the voucher was redeemed before;
       fetch: the words of the code are wrong
    5  no source is left, and one lied
    4  stalled: every source was given up, or no verified byte for --stall;
       hold: ask the depot again later
   15  no node is running
  130  interrupted; the same command resumes
  141  stdout was closed by its reader
    1  anything else; sim run: the scenario failed; round run: CMD failed
    0  complete and verified; share, coordinate, node run, fleet run, round run:
       ended by Ctrl-C or a signal`

// usageError is a mistake in how the command was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// flagError is a mistake with a flag, in our own words.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var none *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		such := "something else"
		switch f := value.GetFlag(); f.Value.Type() {
		case "int", "int64", "uint64":
			such = wholeNumber(value)
		case "bool":
			such = "true or false"
		case "": // a type of ours, with its own words
			return usageError{fmt.Errorf("--%s: %w", f.Name, errors.Unwrap(value))}
		}
		err = fmt.Errorf("--%s takes %s, not %q", value.GetFlag().Name, such, value.GetValue())
	case errors.As(err, &none):
		err = fmt.Errorf("--%s needs a value; see %s --help", none.GetFlag().Name, cmd.CommandPath())
	case errors.As(err, &unknown):
		err = fmt.Errorf("unknown flag: %s; %s", unknownFlag(unknown), cmp.Or(likeFlag(cmd, unknown.GetSpecifiedName()), "see "+cmd.CommandPath()+" --help"))
	}
	return usageError{err}
}

// wholeNumber is what a flag takes that was given something else.
func wholeNumber(value *pflag.InvalidValueError) string {
	switch below := strings.HasPrefix(value.GetValue(), "-"); {
	case errors.Is(value, strconv.ErrRange):
		return either(below, "a larger number", "a smaller number")
	case value.GetFlag().Value.Type() == "uint64":
		return "a whole number from 0 on"
	}
	return "a whole number"
}

// unknownFlag is a flag as it was typed.
func unknownFlag(e *pflag.NotExistError) string {
	if s := e.GetSpecifiedShortnames(); s != "" {
		return "-" + e.GetSpecifiedName()
	}
	return "--" + e.GetSpecifiedName()
}

// likeFlag asks whether a flag was meant that begins as it was typed, or differs in little; "" if there is none.
func likeFlag(cmd *cobra.Command, typed string) string {
	var like []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(typed) > 2 && (strings.HasPrefix(f.Name, typed) || distance(f.Name, typed) <= min(2, len(typed)/2)) {
			like = append(like, "--"+f.Name)
		}
	})
	if len(like) == 0 || len(like) > 3 {
		return ""
	}
	return "did you mean " + strings.Join(like, ", or ") + "?"
}

// notBlank refuses empty values, which a variable that is not set leaves in a script.
func notBlank(cmd *cobra.Command) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" {
			err = usageError{fmt.Errorf("--%s is empty: give it a value", f.Name)}
		}
	})
	return err
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments", called(cmd))}
	}
	return nil
}

// called is the name of a command below fetcher.
func called(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" ")
}

// exactly requires one argument of the given name.
func exactly(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0, len(args) == 1 && args[0] == "":
			return usageError{fmt.Errorf("%s needs %s %s; see %s --help", called(cmd), either(what[0] == 'E', "an", "a"), what, cmd.CommandPath())}
		case len(args) == 1:
			return nil
		}
		return usageError{fmt.Errorf("%s takes one %s, not %d; see %s --help", called(cmd), what, len(args), cmd.CommandPath())}
	}
}

// cause is why ctx ended, for the exit code.
func cause(ctx context.Context) error {
	var s signalled
	if errors.As(context.Cause(ctx), &s) {
		return errInterrupted
	}
	return ctx.Err()
}
