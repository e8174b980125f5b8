package main

import (
	"context"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/words"
)

// envName is the environment variable of a command's flag. The flags of sim
// and round, and some others, have nothing to do with those of the same names that other commands
// have.
func envName(cmd *cobra.Command, flag string) string {
	name, of := "FETCHER_", cmd.Name()+" "+flag
	p := cmd.Parent()
	switch {
	case p == nil || cmd.LocalNonPersistentFlags().Lookup(flag) == nil:
	case p.Name() == "sim", p.Name() == "round", p.Name() == "account" && flag == "name":
		name += strings.ToUpper(p.Name()) + "_"
	case of == "hold fleet", of == "share name", of == "add name": // a fleet has a URL, and a machine a name
		name += strings.ToUpper(cmd.Name()) + "_"
	}
	return name + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func envBool(name string) bool {
	v, err := strconv.ParseBool(os.Getenv(name))
	return err == nil && v
}

// fromEnvironment gives every flag that was not set the value of its variable. Flags
// that may be given several times take theirs separated by spaces.
func fromEnvironment(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		v, ok := os.LookupEnv(envName(cmd, f.Name))
		if !ok || v == "" || f.Changed || err != nil {
			return
		}
		values := []string{v}
		if strings.HasSuffix(f.Value.Type(), "Array") {
			values = strings.Fields(v)
		}
		for _, v := range values {
			if e := cmd.Flags().Set(f.Name, v); e != nil {
				err = usageError{fmt.Errorf("%s: %w", envName(cmd, f.Name), flagError(cmd, e))}
			} else if _, e := (globals{logLevel: v}).level(); f.Name == "log-level" && e != nil {
				err = usageError{fmt.Errorf("%s: %w", envName(cmd, f.Name), e)}
			}
		}
	})
	return err
}

func (g globals) level() (level slog.Level, err error) {
	if level.UnmarshalText([]byte(g.logLevel)) != nil {
		err = usageError{fmt.Errorf("--log-level is debug, info, warn or error, not %q", g.logLevel)}
	}
	return level, err
}

// logger writes to stderr what is at least at the requested level; warnings as plain messages, if none was requested.
func (a *app) logger() (*slog.Logger, error) {
	level, err := a.flags.level()
	if err != nil {
		return nil, err
	}
	var to slog.Handler = slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level})
	if a.plain {
		to = warnings{to: a.stderr}
	}
	log := slog.New(to)
	fetcher.LogLibraries(log)
	stdlog.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer()) // zeroconf prints
	return log, nil
}

// warnings writes what is logged from warnings on as messages to a person.
type warnings struct {
	to    io.Writer
	attrs []slog.Attr
}

func (w warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }
func (w warnings) WithGroup(string) slog.Handler                { return w }

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	w.attrs = slices.Concat(w.attrs, attrs)
	return w
}

// Handle writes one line: the message, its attributes, and the error among them.
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	var about []string
	why := ""
	each := func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			why = ": " + words.Plain(err)
		} else if a.Key == "reason" { // a sentence, as an error is
			why = ": " + a.Value.String()
		} else {
			about = append(about, strings.ReplaceAll(a.Key, "_", " ")+" "+a.Value.String())
		}
		return true
	}
	for _, a := range w.attrs {
		each(a)
	}
	r.Attrs(each)
	text := r.Message
	if len(about) > 0 {
		text += " (" + strings.Join(about, ", ") + ")"
	}
	_, err := fmt.Fprintf(w.to, "%s: %s\n", either(r.Level >= slog.LevelError, "error", "warning"), printable(strings.Join(strings.Fields(text+why), " ")))
	return err
}
