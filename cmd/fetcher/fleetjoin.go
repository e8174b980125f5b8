package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/store"
)

func (a fleetApp) inviteCommand() *cobra.Command {
	var fl storeFlags
	var change bool
	c := &cobra.Command{
		Use:   "invite",
		Short: "Print a token with which machines join the fleet",
		Long: `Print a token with which machines join the fleet; it holds the URL of the store,
with its password, and the secret of the fleet. Whoever has it is a member. The
first time, give --fleet: the store is tried, a secret is made, and this machine
joins. Later, give --fleet when the password or the host in the URL of that
store has changed, and join the other machines again with the new token.

With --new-secret, the fleet gets a new secret, so that a machine that was lost
is no longer a member: join all others again with the new token, and restart
their nodes. Change the password of the store first, and give the new URL with
--fleet: whoever knows the old one could remove what is there.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.ofTheNode(cmd.Context(), fl); err != nil {
				return err
			}
			switch {
			case change && fl.secret != "":
				return usageError{errors.New("--new-secret makes the secret itself; leave out --fleet-secret")}
			case change:
				return a.changeSecret(cmd.Context(), fl)
			}
			return a.invite(cmd.Context(), fl)
		},
	}
	fl.add(c.Flags())
	c.Flags().BoolVar(&change, "new-secret", false, "give the fleet a new secret: machines that are not joined again are no longer members")
	return c
}

// ofTheNode refuses a membership in the state directory of the user, if the commands find the node of the machine,
// which reads another. Flags that say all of it need none.
func (a fleetApp) ofTheNode(ctx context.Context, fl storeFlags) error {
	c, system, err := asker(a).find(ctx)
	if err != nil || !system {
		return nil
	}
	defer c.Close()
	s, err := c.Status(ctx)
	if dir, _ := a.flags.stateDir(); err == nil && fl.secret == "" {
		err = usageError{fmt.Errorf("the node of this machine reads its membership from %s, and not from %s: run the command as the user of that node with --dir %[1]s; for a node of your own, or \"fetcher fleet run\", name the state directory with --dir", s.Dir, dir)}
	}
	return err
}

// changeSecret gives the fleet that this machine has joined another secret, and prints the new token.
func (a fleetApp) changeSecret(ctx context.Context, fl storeFlags) error {
	m, err := a.membership(storeFlags{})
	if err != nil {
		return err
	}
	if fl.url != "" {
		if err := a.movesTo(ctx, &m, fl.url); err != nil {
			return err
		}
	}
	dir, err := a.flags.stateDir()
	if err != nil {
		return err
	}
	s, done, err := openStore(m, a.now(ctx))
	if err != nil {
		return err
	}
	defer done()
	if m, err = m.ChangeSecret(ctx, dir, s.ChangeSecret); err != nil {
		return err
	}
	a.printToken(m)
	a.tellOfStart(ctx)
	return nil
}

func (a fleetApp) invite(ctx context.Context, fl storeFlags) error {
	m, made, err := a.inviting(ctx, fl)
	switch {
	case err != nil:
	case fl.url != "":
		err = a.tryStore(ctx, m, made)
	case errors.Is(a.asksStore(ctx, m), fetcher.ErrOtherFleet):
		err = errors.New("this machine is no longer a member: the store belongs to a fleet with another secret; run the command on a machine that has the new one")
	case ctx.Err() != nil:
		err = cause(ctx)
	}
	if err == nil && fl.secret == "" && !made {
		err = a.moves(ctx, m)
	}
	if err == nil {
		a.printToken(m)
	}
	return err
}

func (a fleetApp) printToken(m daemon.Membership) {
	a.out.write("invitation", map[string]any{"token": m.Token()})
	if !a.flags.json {
		fmt.Fprintln(a.stdout, m.Token())
	}
	fmt.Fprintf(a.stderr, "\non every other machine run\n\n    fetcher fleet join TOKEN\n\nand then start its node with \"fetcher node run\", or restart it; the node\nof this machine has to run too\n\n")
}

// inviting returns the membership to invite to. With a URL alone that is a new one, unless this
// machine belongs to a fleet with that store, perhaps by another name of its host.
func (a fleetApp) inviting(ctx context.Context, fl storeFlags) (m daemon.Membership, made bool, err error) {
	if fl.url == "" || fl.secret != "" {
		m, err = a.membership(fl)
		return m, false, err
	}
	m = daemon.Membership{Secret: rand.Text() + rand.Text()}
	if m.URL, err = kvurl.Absolute(fl.url); err != nil {
		return m, false, err
	}
	dir, err := a.flags.stateDir()
	if err != nil {
		return m, false, err
	}
	old, ok, err := daemon.Joined(dir)
	if !ok || err != nil {
		return m, true, err
	}
	return old, false, a.movesTo(ctx, &old, m.URL)
}

// movesTo gives a membership another URL of its store. If that may be another store, it has to say that it is the fleet's.
func (a fleetApp) movesTo(ctx context.Context, m *daemon.Membership, url string) (err error) {
	old := m.URL
	if m.URL, err = kvurl.Absolute(url); err != nil || samePlace(old, m.URL) {
		return err
	}
	s, done, err := openStore(*m, a.now(ctx))
	if err != nil {
		return err
	}
	defer done()
	if err = s.Marked(ctx); errors.Is(err, fetcher.ErrOtherFleet) && m.Next != "" { // a change of the secret was cut short
		s.Secret = m.Next
		err = s.Marked(ctx)
	}
	if errors.Is(err, rounds.ErrNotFound) || errors.Is(err, fetcher.ErrOtherFleet) {
		return errors.New("this machine belongs to a fleet with another store; to leave that fleet, run fetcher fleet leave")
	}
	return err
}

// samePlace reports whether two URLs name the same store, though perhaps with another password.
func samePlace(a, b string) bool {
	x, err := kvurl.Place(a)
	y, err2 := kvurl.Place(b)
	return err == nil && err2 == nil && x == y
}

// moves keeps the membership of this machine, if it has another URL of the store now.
func (a fleetApp) moves(ctx context.Context, m daemon.Membership) error {
	dir, err := a.flags.stateDir()
	if err != nil {
		return err
	}
	if old, _, err := daemon.Joined(dir); err != nil || old.URL == m.URL {
		return err
	}
	if err := m.Save(dir); err != nil {
		return err
	}
	fmt.Fprintln(a.stderr, "this machine has the new URL of the store")
	a.ifItRuns(ctx, "restart the node that runs here: until then it has the earlier one", "restart it")
	return nil
}

// tryStore claims a store for the fleet, so that nobody is invited to a store that does not exist, or is
// another fleet's. This machine joins a fleet that was made just now.
func (a fleetApp) tryStore(ctx context.Context, m daemon.Membership, made bool) error {
	s, done, err := openStore(m, a.now(ctx))
	if err != nil {
		return err
	}
	defer done()
	if !made {
		return s.Claim(ctx)
	}
	dir, err := a.flags.stateDir()
	if err == nil {
		err = m.Found(ctx, dir, s.Claim)
	}
	if err == nil {
		fmt.Fprintln(a.stderr, joinedText)
		a.tellOfStart(ctx)
	}
	return err
}

func (a fleetApp) joinCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "join TOKEN",
		Short: "Make this machine a member of a fleet",
		Long: `Make this machine a member of a fleet: what the token says is kept in the state
directory, and node run and the fleet commands need no flags any more. The store
is asked whether the token is still valid, unless the store cannot be reached. A
token of "-" is read from stdin.`,
		Args: exactly("TOKEN"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.ofTheNode(cmd.Context(), storeFlags{}); err != nil {
				return err
			}
			token, err := a.pasted(cmd.Context(), args[0], "token", func(string) bool { return true })
			if err != nil {
				return err
			}
			m, err := daemon.ParseToken(strings.TrimSpace(token))
			if err != nil {
				return usageError{fmt.Errorf(`%w; paste the whole of what "fetcher fleet invite" prints`, err)}
			}
			if err := a.join(cmd.Context(), m); err != nil {
				return err
			}
			a.tellOfStart(cmd.Context())
			return nil
		},
	}
}

const joinedText = "this machine has joined the fleet"

// join keeps a membership in the state directory, unless the store says that it is none.
func (a fleetApp) join(ctx context.Context, m daemon.Membership) error {
	dir, err := a.flags.stateDir()
	if err != nil {
		return err
	}
	asked := a.asksStore(ctx, m)
	switch {
	case ctx.Err() != nil:
		return cause(ctx)
	case errors.Is(asked, fetcher.ErrOtherFleet):
		return errors.New(`this token is no longer valid: the store belongs to a fleet with another secret; join with what "fetcher fleet invite" prints on a machine that has the new one`)
	}
	if err := m.Save(dir); err != nil {
		return err
	}
	if asked != nil {
		fmt.Fprintf(a.stderr, joinedText+", but the store could not be asked whether the token is still valid: %s\nonce the store answers, fetcher fleet status says whether the token is valid\n", words.Plain(asked))
	} else {
		fmt.Fprintln(a.stderr, joinedText)
	}
	return nil
}

// asksStore returns an error if the store is not that of a fleet, or does not answer.
func (a fleetApp) asksStore(ctx context.Context, m daemon.Membership) error {
	s, done, err := openStore(m, a.now(ctx))
	if err != nil {
		return err
	}
	defer done()
	_, err = s.Rollout(ctx)
	return err
}

func (a fleetApp) leaveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "leave",
		Short: "Take this machine out of its fleet",
		Long: `Take this machine out of its fleet: the state directory forgets the store and
the secret. What the fleet has fetched here stays, and the node goes on serving
it, as if its owner had added it. To come back, join again with a token;
fetcher fleet forget, on another machine, takes this one off fleet status.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.ofTheNode(cmd.Context(), storeFlags{}); err != nil {
				return err
			}
			dir, err := a.flags.stateDir()
			if err != nil {
				return err
			}
			if err := daemon.Leave(dir); err != nil {
				return err
			}
			fmt.Fprintln(a.stderr, "this machine belongs to no fleet any more")
			a.ifItRuns(cmd.Context(), "restart the node that runs here: until then it is still a member", "end it: until then it is still a member")
			return nil
		},
	}
}

// tellOfStart says that a running node has to be restarted.
func (a fleetApp) tellOfStart(ctx context.Context) {
	a.ifItRuns(ctx, "restart the node that runs here: it becomes a member then", "restart it")
}

// ifItRuns says what is to be done about a node that runs on the state directory, or else about another command that may
// be fleet run.
func (a fleetApp) ifItRuns(ctx context.Context, node, follower string) {
	dir, err := a.flags.stateDir()
	if err != nil {
		return
	}
	if c, err := api.Dial(ctx, daemon.Socket(dir)); err == nil {
		c.Close()
		fmt.Fprintln(a.stderr, node)
		return
	}
	st, err := store.OpenState(dir)
	if err != nil {
		return
	}
	defer st.Close()
	if _, ours, err := st.Key(); err == nil && !ours {
		fmt.Fprintf(a.stderr, "another command uses the state directory; if it is \"fetcher fleet run\", %s\n", follower)
	}
}
