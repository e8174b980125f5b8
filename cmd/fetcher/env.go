package main

import (
	"fmt"
	stdlog "log"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/piecelease/fetcher"
)

// envName is the environment variable of a command's flag. The flags of sim
// and round have nothing to do with those of the same names that other commands
// have.
func envName(cmd *cobra.Command, flag string) string {
	name := "FETCHER_"
	if p := cmd.Parent(); p != nil && (p.Name() == "sim" || p.Name() == "round") && cmd.LocalNonPersistentFlags().Lookup(flag) != nil {
		name += strings.ToUpper(p.Name()) + "_"
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
			}
		}
	})
	return err
}

func (a *app) logLevel() (level slog.Level, err error) {
	if level.UnmarshalText([]byte(a.flags.logLevel)) != nil {
		err = usageError{fmt.Errorf("--log-level is debug, info, warn or error, not %q", a.flags.logLevel)}
	}
	return level, err
}

// logger writes to stderr what is at least at the requested level.
func (a *app) logger() (*slog.Logger, error) {
	level, err := a.logLevel()
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: level}))
	fetcher.LogLibraries(log)
	stdlog.SetOutput(slog.NewLogLogger(log.Handler(), slog.LevelDebug).Writer()) // zeroconf prints
	return log, nil
}
