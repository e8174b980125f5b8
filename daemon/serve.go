package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// quiet is how long files must stay unchanged before they are read again.
const quiet = 2 * time.Second

// stopTime bounds how long it may take to tell children that a share ends.
const stopTime = 5 * time.Second

// serve imports the paths of an entry and serves them, until something else is wanted.
func (k *keeper) serve(e catalog.Entry) {
	// Before they are read, so that later changes are noticed.
	k.d.watch.set(k.id, e.Paths)
	defer k.d.watch.remove(k.id)
	s, err := k.version(e)
	if err != nil {
		k.missing(e.Paths, err)
		return
	}
	k.serving(e, s)
	k.guard(s)
}

// version shares what is at the paths of an entry now, unless a disk may be away: depots would give up what that has.
func (k *keeper) version(e catalog.Entry) (*fetcher.Share, error) {
	if err := notMounted(e); err != nil {
		return nil, err
	}
	s, err := k.load(e.Paths[0], optionsOf(e))
	if err == nil && s.ID() != e.Share {
		if err = notMounted(e); err != nil { // it went while the files were read
			k.withdraw(s)
		}
	}
	return s, err
}

// optionsOf is how an entry is to be shared.
func optionsOf(e catalog.Entry) fetcher.ShareOptions {
	return fetcher.ShareOptions{Name: e.Name, Also: e.Paths[1:], Exclude: e.Exclude, Links: linkMode(e.Links), Visible: visible(e.Wish), Secret: e.Secret, Older: e.Older}
}

func linkMode(s string) store.LinkMode {
	switch s {
	case "skip":
		return store.LinksSkip
	case "refuse":
		return store.LinksRefuse
	}
	return store.LinksKeep
}

// load shares a path, when its turn comes. What is already served stays so while its files are
// read again.
func (k *keeper) load(path string, opt fetcher.ShareOptions) (*fetcher.Share, error) {
	if k.view().State != api.Served || !served(k) {
		k.show(api.Opening, "")
	}
	ctx, release := k.unlessPaused()
	defer release()
	done, err := inTurn(ctx, k.d.reads)
	if err != nil {
		return nil, err
	}
	defer done()
	opt.Progress = func(p store.ImportProgress) {
		k.mu.Lock()
		k.reason = fmt.Sprintf("reading %s of %s, %d of %s", share.Size(p.Bytes), share.Size(p.Total), p.Files, words.Count(p.TotalFiles, "file"))
		k.mu.Unlock()
		k.tellSometimes()
	}
	if _, ok := k.d.node.Entry(k.shared); ok {
		opt.Entry = k.shared
	}
	s, err := k.d.node.Share(ctx, path, opt)
	if err == nil {
		k.shared = s.Entry()
	}
	return s, err
}

// served reports whether the node serves what a keeper has shared or fetched, or another share of the same content that stands for it.
func served(k *keeper) bool {
	is := func(id fetcher.EntryID) bool {
		e, _ := k.d.node.Entry(id)
		return e.State == fetcher.EntryServed
	}
	return is(k.shared) || is(k.fetched)
}

// unlessPaused returns a context that ends when the entry is paused, or with the keeper. If
// anything wakes the keeper meanwhile, release wakes it again.
func (k *keeper) unlessPaused() (ctx context.Context, release func()) {
	ctx, cancel := context.WithCancel(k.life)
	woken := make(chan bool, 1)
	go func() { // until it is released
		again := false
		for {
			select {
			case <-k.wake:
				again = true
				if k.entry().Paused {
					cancel()
				}
			case <-ctx.Done():
				woken <- again
				return
			}
		}
	}()
	return ctx, func() {
		cancel()
		if <-woken {
			k.poke()
		}
	}
}

// missing records why the files at some paths cannot be served, and waits until that may have
// changed.
func (k *keeper) missing(paths []string, err error) {
	if errors.Is(err, context.Canceled) { // something else is wanted
		return
	}
	why, state := words.Plain(err), catalog.Missing
	var bad *store.ProblemsError
	shut, more := unreadable(err, paths)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		why = notThere(paths, why) + ". The entry is served again when that is back"
	case shut != "" && !more:
		why = shut
		if k.entry().Kind == catalog.Serve {
			k.refuse(err, why)
		}
		why += ". Let that user read it, or remove the entry"
	case k.entry().Kind == catalog.Serve && (errors.Is(err, share.ErrPath) || errors.Is(err, share.ErrLimit) || errors.Is(err, fetcher.ErrNothingSelected) || errors.As(err, &bad)):
		why = cmp.Or(shut, why)
		k.refuse(err, why)
		why, state = why+mended(err, paths), catalog.Failed
	case errors.As(err, &bad):
		why += ". The entry is served again once that is mended"
	}
	if k.entry().State != state {
		k.d.log.Warn("an entry cannot be served", "id", k.id, "reason", why)
	}
	k.fail(state, why)
	k.lookOut(paths, errors.Is(err, fs.ErrNotExist), min(k.backOff(), k.d.setting().Rescan))
}

// mended says what to do about an entry whose paths cannot be shared because of err.
func mended(err error, paths []string) string {
	info, _ := os.Stat(paths[0])
	switch {
	case errors.Is(err, fetcher.ErrNothingSelected):
		return ". The entry is served as soon as something in it is not excluded. Or remove the entry, and add it again with fewer exclusions"
	case len(paths) == 1 && info != nil && !info.IsDir():
		return ". The entry is served as soon as that is mended. Or remove the entry"
	}
	return ". The entry is served as soon as that is mended. Or remove the entry, and add it again with what cannot be shared left out"
}

// notThere says which path of an entry is missing, given what the system says.
func notThere(paths []string, why string) string {
	for _, p := range paths {
		if _, err := os.Stat(p); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if _, err := os.Readlink(p); err == nil {
			return fmt.Sprintf("the path is a link that leads nowhere: %s; there is no %s", p, leadsTo(p, 0))
		}
		return "there is no file or folder " + p
	}
	return why
}

// shut reports whether the user of this process may make nothing in a folder, in which a share is to be fetched into dir. If
// something is in dir, it may be the share.
func shut(at, dir string) bool {
	if list, err := os.ReadDir(at); at == dir && err == nil && len(list) > 0 {
		return false
	}
	made, err := os.MkdirTemp(at, ".fetcher-")
	if err == nil {
		os.Remove(made)
	}
	return errors.Is(err, os.ErrPermission)
}

// unreadable says what of some paths the user of the node may not read; "" if an error about them is about nothing of the kind. more says
// that something else is wrong with them, too: then the text is true of all of it.
func unreadable(err error, paths []string) (why string, more bool) {
	if !errors.Is(err, fs.ErrPermission) {
		return "", false
	}
	var bad *store.ProblemsError
	found := errors.As(err, &bad)
	more = found && slices.ContainsFunc(bad.Problems, func(p store.Problem) bool { return !errors.Is(p.Err, fs.ErrPermission) })
	switch {
	case found && len(paths) == 1 && bad.Problems[0].Path != ".":
		can := "is not allowed to read"
		if more {
			can = "cannot share"
		}
		return fmt.Sprintf("the user of the node, %q, %s all of %s:%s", userName(), can, paths[0], bad.List()), more
	case more:
		return words.Plain(err), more
	}
	return fmt.Sprintf("the path cannot be read by the user of the node, %q: %s", userName(), words.Plain(err)), more
}

// lookOut rests until something changes at some paths, or where they were, for at most d. gone
// says that one of them was missing.
func (k *keeper) lookOut(paths []string, gone bool, d time.Duration) {
	k.d.watch.set(k.id, paths)
	defer k.d.watch.remove(k.id)
	if gone && !slices.ContainsFunc(paths, absent) { // they came back before they were watched
		k.pause()
		return
	}
	k.restUnless(k.files, d)
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

// serving records what is served now.
func (k *keeper) serving(e catalog.Entry, s *fetcher.Share) {
	m, state := s.Manifest(), catalog.Serving
	if e.Kind == catalog.Fetch {
		state = catalog.Kept
	}
	files, _, _ := m.Count()
	k.mu.Lock()
	k.manifest, k.troubles = m, 0
	k.warnings = append([]string{}, s.Imported().Warnings...)
	for _, p := range s.Idle() {
		k.warnings = append(k.warnings, fmt.Sprintf("the pattern %q left nothing out", p))
	}
	k.mu.Unlock()
	was, mounts := k.entry().Share, mountsOf(e, m)
	k.become(func(st *catalog.Status) {
		if !st.Share.IsZero() && st.Share != s.ID() {
			k.d.log.Info("a new version is served", "id", k.id, "name", m.Name, "share", s.ID().String(), "before", st.Share.String())
			st.Older = append(st.Older, st.Share)
		}
		if !k.askedAgain(st) {
			st.State, st.Why = state, ""
		}
		st.Share, st.Title, st.Bytes, st.Files, st.Mounts = s.ID(), m.Name, m.Layout().Bytes(), files, mounts
	})
	k.revisible(e.Wish)
	if was != s.ID() {
		k.d.replaced(k, was) // another entry may serve the earlier version
	}
	if e := k.entry(); len(e.Only)+len(e.Skip) == 0 {
		k.d.follow(k)
	}
	k.calm()
}

// guard serves until something else is wanted, or the files have changed. A new version replaces
// the old one once it has been read.
func (k *keeper) guard(s *fetcher.Share) {
	every := k.d.setting().Rescan
	rescan := time.NewTicker(every)
	defer rescan.Stop()
	for {
		if now := k.d.setting().Rescan; now != every { // the settings were read again
			every = now
			rescan.Reset(every)
		}
		select {
		case <-k.life.Done():
			k.withdraw(s) // the entry is removed; at the end of the daemon the node tells all peers at once
			return
		case <-k.wake:
			if e := k.entry(); e.Paused || e.State == catalog.Ended {
				k.withdraw(s)
				return
			}
		case <-s.Done():
			switch {
			case s.Err() != nil:
				k.d.replaced(k, s.ID())
				k.show(api.Opening, "its files have changed; they are read again when nothing writes to them")
				k.pause()
			case !k.alone(s.ID()):
				k.others()
			}
			return
		case <-k.files:
			k.pause()
		case <-k.anew:
			continue
		case <-rescan.C:
		}
		if s = k.renew(s); s == nil {
			return
		}
	}
}

// pause waits until the files are quiet, but at most ten times as long as that takes, and ends at once if
// the owner pauses the entry. If anything wakes the keeper meanwhile, pause wakes it again.
func (k *keeper) pause() {
	still, late := time.NewTimer(quiet), time.NewTimer(10*quiet)
	defer still.Stop()
	defer late.Stop()
	for {
		select {
		case <-still.C:
			return
		case <-late.C:
			return
		case <-k.files:
			still.Reset(quiet)
		case <-k.wake:
			defer k.poke()
			if k.entry().Paused {
				return
			}
		case <-k.life.Done():
			return
		}
	}
}

// renew checks the files again, and serves what they are now; it returns nil if it cannot.
func (k *keeper) renew(old *fetcher.Share) *fetcher.Share {
	e := k.entry()
	k.d.watch.set(k.id, e.Paths)
	s, err := k.version(e)
	if err != nil {
		k.withdraw(old)
		k.missing(e.Paths, err)
		return nil
	}
	if s.ID() != old.ID() {
		k.withdraw(old)
		k.d.replaced(k, old.ID())
	}
	k.serving(e, s)
	return s
}

// withdraw stops serving a share, and tells its children.
func (k *keeper) withdraw(s *fetcher.Share) {
	if k.d.life.Err() != nil {
		return // Close of the node does it
	}
	ctx, cancel := context.WithTimeout(k.d.life, stopTime)
	defer cancel()
	if err := s.Stop(ctx); err != nil {
		k.d.log.Debug("stop sharing", "id", k.id, "error", err)
	}
	k.d.replaced(k, s.ID())
}

// alone reports whether no other entry serves a share.
func (k *keeper) alone(id share.ID) bool {
	for _, o := range k.d.all() {
		if e := o.entry(); o != k && e.Share == id && !e.Paused && (e.State == catalog.Serving || e.State == catalog.Kept) {
			return false
		}
	}
	return true
}

// others waits while another entry serves the same share and these files stay unchanged; that
// entry says when it ends.
func (k *keeper) others() {
	k.show("", "the same content is served for another entry")
	k.restUnless(k.files, k.d.setting().Rescan)
}

// serveKept serves a share that was fetched before, from where it lies.
func (k *keeper) serveKept(e catalog.Entry) {
	k.d.watch.set(k.id, []string{e.Path})
	defer k.d.watch.remove(k.id)
	var s *fetcher.Share
	err := notMounted(e)
	if err == nil {
		s, err = k.load(e.Path, fetcher.ShareOptions{Visible: visible(e.Wish), Ticket: e.Source, Of: e.Share, Secret: e.Guarded})
	}
	switch {
	case err != nil && !errors.Is(err, store.ErrNotHere):
		k.unshare()
		k.missing([]string{e.Path}, err)
		return
	case err != nil:
		k.unshare()
		k.fail(catalog.Missing, fmt.Sprintf("what is at %s is no longer the share: it was changed after it was fetched. Put back what was there, or repair the entry with fetcher set", e.Path))
		k.lookOut([]string{e.Path}, false, k.d.setting().Rescan)
		return
	}
	k.serving(e, s)
	k.seed(e, s.Done(), func() { s.Look(s.Manifest().Len()) }, func() { k.withdraw(s) })
}
