package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/share"
)

func (a asker) idCommand() *cobra.Command {
	return &cobra.Command{
		Use: "id", Short: "Print the node's peer ID, and where it can be reached",
		Long: `Print the node's peer ID on the first line of stdout and, if it runs, an address
on each further line.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.id(cmd.Context()) },
	}
}

func (a asker) id(ctx context.Context) error {
	peer, addrs, err := a.identity(ctx)
	if err != nil {
		return err
	}
	if a.flags.json {
		a.out.write("id", map[string]any{"peer": peer, "addrs": addrs})
		return nil
	}
	_, err = fmt.Fprintln(sink{a.stdout}, strings.Join(append([]string{peer}, addrs...), "\n"))
	return err
}

// identity asks the node, or if none is running opens one for a moment. A node that is just starting has the key, and does not answer
// yet: it is asked again, for a few seconds.
func (a asker) identity(ctx context.Context) (peer string, addrs []string, err error) {
	for end := time.Now().Add(4 * time.Second); ; { // each attempt waits for the key a while
		peer, addrs, err = a.identityNow(ctx)
		if !errors.Is(err, share.ErrHeld) || time.Now().After(end) {
			return peer, addrs, err
		}
	}
}

func (a asker) identityNow(ctx context.Context) (peer string, addrs []string, err error) {
	c, err := a.dial(ctx)
	if err == nil {
		defer c.Close()
		s, err := c.Status(ctx)
		return s.Peer, s.Addrs, err
	} else if !errors.Is(err, api.ErrNoNode) {
		return "", nil, err
	}
	node, err := fetcher.Open(ctx, fetcher.Config{Dir: a.flags.dir, Sole: true, Listen: []string{"none"}})
	if err != nil {
		return "", nil, err
	}
	return string(node.ID()), []string{}, node.Close()
}

func (a asker) nodeOpenCommand() *cobra.Command {
	var show bool
	c := &cobra.Command{
		Use: "open", Short: "Open the node's page in a browser",
		Long: `Open the page of the node in a browser, with the token that it needs. The node
must have been told to answer over HTTP, with http in node.toml or --http.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.nodeOpen(cmd.Context(), show) },
	}
	c.Flags().BoolVar(&show, "print", false, "print the address instead of opening it; it contains the token")
	return c
}

func (a asker) nodeOpen(ctx context.Context, show bool) error {
	var dir string
	if err := a.asking(ctx, func(c *api.Client) error {
		s, err := c.Status(ctx)
		dir = s.Dir
		return err
	}); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(dir, daemon.PageName))
	if errors.Is(err, os.ErrNotExist) {
		return usageError{fmt.Errorf("the node of %s has no page: end it, and start it with --http 127.0.0.1:4820, or with http in %s", dir, filepath.Join(dir, daemon.SettingsName))}
	}
	if err != nil {
		return err
	}
	address := strings.TrimSpace(string(b))
	a.out.write("page", map[string]any{"address": address})
	if show && a.flags.json {
		return nil
	}
	if show {
		_, err := fmt.Fprintln(sink{a.stdout}, address)
		return err
	}
	name, args := "xdg-open", []string{address}
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name, args = "rundll32", []string{"url.dll,FileProtocolHandler", address}
	}
	if err := exec.Command(name, args...).Run(); err != nil {
		return fmt.Errorf("no browser could be opened with %s; fetcher node open --print prints the address for one", name)
	}
	return nil
}
