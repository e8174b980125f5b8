package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/depot/archive"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

func (a depots) exportCommand() *cobra.Command {
	var after string
	c := &cobra.Command{Use: "export FILE", Short: "Write the shares here, with their leases, for another depot", Args: exactly("FILE"),
		Long: `Write all shares that are whole, with their accounts, leases and data, to a new
FILE, a tar; - is the standard output. The depot goes on meanwhile. What was
paid and is not used up, and the names that accounts gave their shares, are not
in it. fetcher depot import reads it at another depot, or here after a loss.
Whoever holds leases here is not told of that depot, and has to name it with
fetcher hold --on.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := share.ParseID(after); after != "" && err != nil {
				return usageError{fmt.Errorf("--after: %q is not the whole ID of a share; fetcher depot leases --json shows them", after)}
			}
			return a.asking(cmd.Context(), func(c *api.Client) error {
				from, err := c.Export(cmd.Context(), after)
				if err != nil {
					return err
				}
				defer from.Close()
				return a.export(from, args[0])
			})
		}}
	c.Flags().StringVar(&after, "after", "", "go on after this `SHARE`, where an earlier export was cut short")
	return c
}

// anAccount requires one argument, which can be the name of an account.
func anAccount(cmd *cobra.Command, args []string) error {
	if err := exactly("NAME")(cmd, args); err != nil {
		return err
	}
	return daemon.CheckAccount(args[0])
}

// errCut marks that an export was cut short, and says itself how to go on.
var errCut = errors.New("cut short")

// export writes a stream to a file, and says what it has.
func (a depots) export(from io.Reader, name string) (err error) {
	var last, whole share.ID
	to := a.stdout
	if name != "-" {
		if err := inFolder(name); err != nil {
			return err
		}
		var f *os.File
		f, err = os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return usageError{fmt.Errorf("%s exists: name another file", printable(name))}
		}
		if err != nil {
			return err
		}
		defer f.Close()
		defer func() {
			if whole.IsZero() && err != nil {
				os.Remove(name) // it has no share
			}
		}()
		to = f
	} else if a.flags.json {
		return usageError{errors.New("with --json, stdout has the events: name a file for the export")}
	}
	var n, left int
	in, err := archive.NewReader(io.TeeReader(from, to))
	for err == nil {
		var s archive.Share
		if s, err = in.Next(); err == nil {
			n, last, whole = n+1, s.Manifest.ID(), last
		}
	}
	if errors.Is(err, io.EOF) {
		left = in.LeftOut
		_, err = io.Copy(to, from) // the padding of the tar
	}
	if f, ok := to.(*os.File); ok && err == nil && name != "-" {
		err = f.Sync()
	}
	if errors.Is(err, archive.ErrCut) || errors.Is(err, io.ErrUnexpectedEOF) { // the first speaks of a file to import
		err = words.Error(err, "the export was cut short")
	}
	if err != nil {
		if !whole.IsZero() {
			err = marked{fmt.Errorf("%w; export the rest to another file with --after %s", err, whole), errCut}
		}
		return err
	}
	a.out.sum(map[string]any{"shares": n, "left_out": left})
	fmt.Fprintf(a.stderr, "%s written%s\n", words.Count(n, "share"), leftOut(left))
	return nil
}

func leftOut(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("; left out: %s with leases, as not all of the data is here", words.Count(n, "share"))
}

func (a depots) importCommand() *cobra.Command {
	return &cobra.Command{Use: "import FILE", Short: "Import what another depot exported", Args: exactly("FILE"),
		Long: `Import the accounts, shares and leases of an export; - is the standard input.
All data is compared with its hashes, and what is imported survives a power cut.
An import makes no lease end earlier than before, and changes no account that is
here; leases are imported even where they exceed a quota. If an account here has
a key of an account in the export, the two are treated as one. An import that
was cut short can be repeated: shares that are here are not written again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asking(cmd.Context(), func(c *api.Client) error {
				from := io.Reader(a.stdin)
				if args[0] != "-" {
					if info, err := os.Stat(args[0]); errors.Is(err, os.ErrNotExist) || err == nil && info.IsDir() {
						return usageError{fmt.Errorf("%q is not a file; give one that depot export wrote", args[0])}
					}
					f, err := os.Open(args[0])
					if err != nil {
						return err
					}
					defer f.Close()
					from = f
				}
				x, err := c.Import(cmd.Context(), from)
				if err != nil {
					return err
				}
				return a.imported(x)
			})
		}}
}

// imported says what was imported. It is an error if something was not that should have been.
func (a depots) imported(x api.Imported) error {
	a.out.sum(map[string]any{"shares": x.Shares, "bytes": x.Bytes, "known": x.Known, "accounts": x.Accounts, "leaving": x.Leaving, "expired": x.Expired, "left_out": x.LeftOut,
		"refused": x.Refused, "damaged": x.Damaged})
	fmt.Fprintf(a.stderr, "%s imported, %s; already here: %d; %s made\n", words.Count(x.Shares, "share"), share.Size(x.Bytes), x.Known, words.Count(x.Accounts, "account"))
	if x.Expired > 0 {
		fmt.Fprintf(a.stderr, "not imported: %s held by nobody any more, or only by accounts that were not imported\n", words.Count(x.Expired, "share"))
	}
	if x.LeftOut > 0 {
		fmt.Fprintf(a.stderr, "the other depot left out %s that it did not have whole\n", words.Count(x.LeftOut, "share"))
	}
	for _, s := range x.Refused {
		fmt.Fprintf(a.stderr, "not imported: account %s\n", printable(s))
	}
	for _, s := range x.Damaged {
		fmt.Fprintf(a.stderr, "not imported: share %s is damaged\n", shortly(s))
	}
	if x.Leaving > 0 {
		fmt.Fprintf(a.stderr, "not imported: %s being removed or fetched here; import again later\n", words.Count(x.Leaving, "share"))
	}
	if len(x.Refused)+len(x.Damaged)+x.Leaving > 0 {
		return errors.New("not everything was imported")
	}
	return nil
}
