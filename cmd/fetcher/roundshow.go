package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/rounds"
)

func (a *app) roundShowCommand() *cobra.Command {
	var kv string
	c := &cobra.Command{
		Use:   "show NAME --kv URL",
		Short: "Show who holds a round, or held it last, and how it ended",
		Args:  exactly("NAME"),
		RunE:  func(cmd *cobra.Command, args []string) error { return a.roundShow(cmd.Context(), kv, args[0]) },
	}
	c.Flags().StringVar(&kv, "kv", "", "the store that all machines reach: a `URL`; see fetcher round --help")
	return c
}

func (a *app) roundShow(ctx context.Context, url, name string) error {
	if url == "" {
		return usageError{errors.New("--kv: name the store that all machines reach; see fetcher round --help")}
	}
	if _, err := rounds.NewPointer(nil, name); err != nil {
		return usageError{err}
	}
	kv, err := openExistingKV(ctx, a, url)
	if err != nil {
		return err
	}
	defer kv.Close()
	rec, why := rounds.Current(ctx, kv, name)
	state := rec.State.String()
	switch {
	case errors.Is(why, rounds.ErrNever):
		state = "never"
	case errors.Is(why, rounds.ErrCorrupt):
		state = "corrupt"
	case why != nil:
		return why
	}
	p, err := rounds.NewPointer(kv, name)
	if err != nil {
		return err
	}
	target, unset := p.Get(ctx)
	if unset != nil && !errors.Is(unset, rounds.ErrNever) && !errors.Is(unset, rounds.ErrCorrupt) {
		return unset
	}
	a.showRound(name, state, rec, why)
	a.showTarget(name, target, unset)
	if state == "never" {
		return words.Error(rounds.ErrNever, "nobody has held a round called %s: fetcher round list --kv URL shows which rounds there are in that store", name)
	}
	return nil
}

// showRound writes a record, or why there is none.
func (a *app) showRound(name, state string, rec rounds.Record, why error) {
	fields := map[string]any{"round": name, "state": state}
	line := func(key string, value any) { fmt.Fprintf(a.prose(), "%-9s %v\n", key, value) }
	if a.flags.json {
		line = func(key string, value any) {}
	}
	if state != "never" { // an error says that
		line("round", name)
	}
	switch state {
	case "never":
	case "corrupt":
		fields["text"] = why.Error()
		line("state", printable(fmt.Sprintf("corrupt: %v; whoever asks next gets the round", why)))
	default:
		line("state", state+over(rec, time.Now()))
		line("holder", printable(rec.Holder))
		line("term", rec.Term)
		line("acquired", stamp(rec.Acquired))
		if rec.Office {
			fields["office"] = true
		} else {
			line("ends", stamp(rec.Expires()))
			fields["ends"] = rec.Expires()
		}
		if rec.State != rounds.Running {
			line(state, stamp(rec.Ended))
			line("outcome", printable(rec.Outcome))
			fields["ended"], fields["outcome"] = rec.Ended, rec.Outcome
		}
		fields["holder"], fields["term"], fields["acquired"] = rec.Holder, rec.Term, rec.Acquired
	}
	a.out.write("round", fields)
}

// over says what a person may not see from the times.
func over(rec rounds.Record, now time.Time) string {
	switch {
	case rec.State == rounds.Running && rec.Office:
		return ", for as long as its holder extends it"
	case rec.State == rounds.Running && !now.Before(rec.Expires()):
		return ", but its time is over: its holder has died, or is late; whoever asks next gets the round"
	case rec.State == rounds.Abandoned:
		return ": whoever asks next gets the round"
	}
	return ""
}

func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 MST") }

// showTarget writes the last published result, if there is one.
func (a *app) showTarget(name string, t rounds.Target, why error) {
	if errors.Is(why, rounds.ErrNever) {
		return
	}
	fields := map[string]any{"round": name}
	text := fmt.Sprintf("%s (term %d, sequence %d)", printable(t.Value), t.Term, t.Seq)
	if why != nil {
		text = why.Error()
		fields["text"] = text
	} else {
		fields["term"], fields["sequence"], fields["target"] = t.Term, t.Seq, t.Value
	}
	if !a.flags.json {
		fmt.Fprintf(a.prose(), "%-9s %s\n", "latest", text)
	}
	a.out.write("pointer", fields)
}
