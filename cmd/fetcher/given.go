package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/daemon"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// ticket is the one ticket or ID in the argument of a command, or for "-" in what is read from stdin.
func (a *app) ticket(cmd *cobra.Command, arg string) (string, error) {
	begins := true
	text, err := a.pasted(cmd.Context(), arg, "ticket", func(text string) bool {
		if !begins {
			return false // it is in the midst of something else, which may hold another
		}
		_, err := share.Parse(text)
		begins = errors.Is(err, share.ErrCut)
		return err == nil
	})
	if err != nil {
		return "", err
	}
	ticket, err := share.Find(text)
	if err != nil {
		return "", usageError{cmp.Or(misplaced(cmd, text), err)}
	}
	return ticket, nil
}

// pasted is an argument, or for "-" what is read from stdin until it is whole: a pipe need not end then.
func (a *app) pasted(ctx context.Context, arg, what string, whole func(text string) bool) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	if f, ok := a.stdin.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(a.stderr, "paste the %s here, and press Enter\n", what)
	}
	read := make(chan func() (string, error), 1)
	go func() { // ends with the process, at the latest: a read of stdin cannot be cut short
		text, err := paste(a.stdin, what, whole)
		read <- func() (string, error) { return text, err }
	}()
	select {
	case pasted := <-read:
		return pasted()
	case <-ctx.Done():
		return "", cause(ctx)
	}
}

func paste(stdin io.Reader, what string, whole func(text string) bool) (string, error) {
	in := bufio.NewReader(io.LimitReader(stdin, share.MaxText+1))
	text := ""
	for {
		line, end := in.ReadString('\n')
		text += line
		blank := strings.TrimSpace(text) == ""
		switch {
		case end != nil && blank:
			return "", usageError{fmt.Errorf("there is no %s on stdin", what)}
		case end != nil, !blank && whole(text):
			return text, nil
		}
	}
}

// codeOf says of arguments that are a code, whole or without its number, what to do with it; nil: they are none.
func codeOf(args []string) error {
	text := strings.Join(args, " ")
	if _, err := os.Lstat(text); err == nil {
		return nil
	}
	if code, err := fetcher.ParseCode(text); err == nil {
		return fmt.Errorf("%s is a code, and only fetch takes one: fetcher fetch %s --beacon-at ADDR", code, code)
	}
	if _, err := fetcher.ParseCode("1 " + text); err == nil {
		return fmt.Errorf("%q lacks the number with which a code begins, as in 7-marble-fossil", text)
	}
	return nil
}

// oneTicket requires one argument of the given name, as exactly does.
func oneTicket(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := codeOf(args); err != nil {
			return usageError{err}
		}
		return exactly(what)(cmd, args)
	}
}

// misplaced says of an argument that is no ticket what it is, and what takes it; nil: that is not known.
func misplaced(cmd *cobra.Command, arg string) error {
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		return nil
	case info.Mode().IsRegular() && holdsTicket(arg):
		return fmt.Errorf("%q is a file with a ticket in it; give what it holds with fetcher %s - < %s", arg, called(cmd), quote(arg))
	}
	return fmt.Errorf("%q is a %s on this machine, not a ticket; fetcher share %s serves it, and prints its ticket", arg, either(info.IsDir(), "folder", "file"), quote(arg))
}

// shortestID is less than the length of any ID or ticket.
const shortestID = 40

// neither refuses what is not on this machine, and is a path or too short for a ticket or an ID.
func neither(what string) error {
	if _, err := os.Lstat(what); errors.Is(err, os.ErrPermission) { // nobody knows what is there
		return unreadable(what)
	}
	path := strings.Contains(what, "/") && !strings.ContainsAny(what, " \n")
	if len(what) >= shortestID && !path || what == "-" {
		return nil
	}
	if _, err := share.ParseTicket(what); errors.Is(err, share.ErrLater) { // it may be as short as it likes
		return nil
	}
	return usageError{fmt.Errorf("%q is neither a file or folder on this machine nor a ticket or an ID", what)}
}

// nameable refuses paths that no share can be named after, unless it has a name of its own.
func nameable(paths []string, name string) error {
	for _, p := range paths {
		at, err := filepath.Abs(p)
		if base := filepath.Base(at); err == nil && name == "" && p != shareStdin && at != filepath.Dir(at) && badName(base) != "" {
			return usageError{fmt.Errorf("%q %s; give the share another name with --name", base, badName(base))}
		}
	}
	return nil
}

// canBeFolder refuses the path of a folder that is a file, or below one. There is what of it exists.
func canBeFolder(dir string) (there string, err error) {
	if there, err = vfs.Nearest(dir); vfs.NotDir(err) {
		return there, usageError{fmt.Errorf("%s is %s", printable(there), either(leadsNowhere(there), "a link that leads nowhere", "not a folder"))}
	}
	return there, err
}

// leadsNowhere says that nothing is where a link leads.
func leadsNowhere(link string) bool {
	_, err := os.Stat(link)
	return errors.Is(err, os.ErrNotExist)
}

// stateDir is that of --dir, or the user's. It need not be there yet, but no file may be in its way.
func (g globals) stateDir() (string, error) {
	dir, err := g.namedDir()
	if at := inTheWay(dir); err == nil && at != nil {
		err = fmt.Errorf("%w: %w", fetcher.ErrStateDir, at)
	}
	return dir, err
}

// namedDir is stateDir, whatever is there.
func (g globals) namedDir() (string, error) {
	if g.dir != "" {
		return filepath.Abs(g.dir)
	}
	return fetcher.DefaultDir()
}

// inTheWay is an error about a file that is where the path of a folder leads, or on the way there; nil: there is none.
func inTheWay(dir string) error {
	switch there, err := vfs.Nearest(dir); {
	case !vfs.NotDir(err):
		return nil
	case leadsNowhere(there):
		return fmt.Errorf("%s is a link that leads nowhere", there)
	default:
		return &os.PathError{Op: "mkdir", Path: there, Err: syscall.ENOTDIR}
	}
}

// canHold refuses a folder that is none, or that can neither be made nor be written to.
func canHold(dir string) error {
	at, err := canBeFolder(dir)
	if errors.As(err, new(usageError)) {
		return err
	}
	if err == nil {
		var made string
		if made, err = os.MkdirTemp(at, ".fetcher-"); err == nil {
			return os.Remove(made)
		}
	}
	if why, ok := errors.AsType[*os.PathError](err); ok {
		err = why.Err
	}
	return fmt.Errorf("no share can be put into %s, as nothing can be made in %s: %w", dir, at, err)
}

// isTicket says whether there is one ticket or ID in a text.
func isTicket(text string) bool {
	_, err := share.Find(text)
	return err == nil
}

// holdsTicket says whether a file is a text with one ticket in it.
func holdsTicket(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, share.MaxText+1))
	return err == nil && isTicket(string(text))
}

// present refuses paths to share that are not there.
func present(paths []string) error {
	for _, p := range paths {
		if p == shareStdin {
			continue
		}
		if err := notEmpty(p); err != nil {
			return err
		}
		if _, err := os.Stat(p); errors.Is(err, os.ErrNotExist) || vfs.NotDir(err) {
			link, at := os.Lstat(p)
			return usageError{fmt.Errorf("%s%s", printable(p), either(at == nil && link.Mode()&os.ModeSymlink != 0, " is a link that leads nowhere", ": there is no such file or folder"))}
		}
		switch err := daemon.Readable(p); {
		case errors.Is(err, os.ErrPermission):
			return unreadable(p)
		case errors.Is(err, syscall.ELOOP):
			return usageError{errors.New(printable(words.Plain(err)))}
		}
	}
	return nil
}

func unreadable(path string) error {
	return usageError{fmt.Errorf("%s may not be read by this user: allow it, or run the command as a user who may", printable(path))}
}

// inFolder refuses a file to write in a folder that is not there.
func inFolder(file string) error {
	dir := filepath.Dir(file)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) || vfs.NotDir(err):
		return usageError{fmt.Errorf("there is no folder %s", printable(dir))}
	case err == nil && !info.IsDir():
		return usageError{fmt.Errorf("%s is not a folder", printable(dir))}
	}
	return err
}

// misnamed is an error about a folder to put a share into, a mistake in the call if it cannot be there.
func misnamed(err error) error {
	if errors.Is(err, os.ErrNotExist) || vfs.NotDir(err) {
		return usageError{err}
	}
	return err
}

// notEmpty refuses an empty PATH, which a variable that is not set leaves in a script: it would be the current folder.
func notEmpty(path string) error {
	if path == "" {
		return usageError{errors.New("the PATH is empty: the current folder is called \".\"")}
	}
	return nil
}

// eachOnce refuses the same path twice among those to share, also through symlinks.
func eachOnce(paths []string) error {
	given := map[string]string{}
	for _, p := range paths {
		at, err := filepath.Abs(p)
		if err == nil {
			at, err = filepath.EvalSymlinks(at)
		}
		if err != nil {
			continue // whoever reads it says why
		}
		if before, is := given[at]; is {
			return usageError{fmt.Errorf("%q %s: give each PATH once", p, either(p == before, "was given twice", fmt.Sprintf("is the same as %q", before)))}
		}
		given[at] = p
	}
	return nil
}

// notPaths refuses tickets and codes among the paths to share.
func notPaths(paths []string) error {
	for _, p := range paths {
		if _, err := os.Lstat(p); err == nil || p == shareStdin {
			continue
		}
		if err := codeOf([]string{p}); err != nil {
			return usageError{err}
		}
		if ticket, err := share.Find(p); err == nil {
			_, err := share.ParseID(ticket)
			return usageError{fmt.Errorf("that is %s, not a path, and fetch takes it: fetcher fetch %s", either(err == nil, "a share ID", "a ticket"), ticket)}
		}
	}
	return nil
}

// speaksOf says whether a text has a path in it, and not just one that begins as that does.
func speaksOf(text, path string) bool {
	for {
		i := strings.Index(text, path)
		if i < 0 {
			return false
		}
		if text = text[i+len(path):]; text == "" || strings.ContainsAny(text[:1], " :;,.\"\n") {
			return true
		}
	}
}
