package transfer

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// hopeless returns why no source is left that could ever help; nil: one may.
func (s *sources) hopeless() error {
	var out, notFound, unreachable, liars, denied int
	for _, src := range s.order {
		switch {
		case !src.connected() && src.dials >= enoughDials:
			unreachable++
		case src.out && !src.lost:
			out++
		case !src.notFound && !src.denied:
			return nil
		}
		if src.notFound {
			notFound++
		}
		if src.denied {
			denied++
		}
		if src.info.BadBlocks > 0 || src.info.Banned { // now, or before
			liars++
		}
	}
	n := len(s.order)
	switch {
	case unreachable == n:
		return s.noConnection()
	case denied > 0 && denied+notFound == n:
		return fmt.Errorf("%w: %s, or to those whose ticket has the share's secret, and this node, %s, is not one of these", share.ErrNotAllowed, giving(denied, n), s.fetch.Self)
	case notFound == n:
		return fmt.Errorf("%w: asked %s (%s)", share.ErrNotFound, words.Count(n, "peer"), s.lastWord())
	case out == n && liars == 0 && !s.cfg.Fleet.Used(): // a coordinator may name others
		return fmt.Errorf("%w: %s (%s)", share.ErrStalled, noneLeft(n), s.lastWord())
	case out+unreachable == n && liars > 0:
		return fmt.Errorf("%w: %s (%s)", share.ErrLied, liedOf(liars, n), s.lastLoss())
	}
	return nil
}

// noneLeft says that none of n sources can help any more.
func noneLeft(n int) string {
	if n == 1 {
		return "the only source was given up"
	}
	return fmt.Sprintf("none of %d sources is left", n)
}

// liedOf says that none of n sources can help any more, and that some of them lied.
func liedOf(some, n int) string {
	if n == 1 {
		return "the only source lied"
	}
	return fmt.Sprintf("%s, and %d lied", noneLeft(n), some)
}

// giving is some of n peers, and to whom they give the share.
func giving(some, n int) string {
	switch {
	case n == 1:
		return "the only peer that was asked gives the share only to peers that it names"
	case some == 1:
		return fmt.Sprintf("1 of %d peers gives the share only to peers that it names", n)
	}
	return fmt.Sprintf("%d of %d peers give the share only to peers that they name", some, n)
}

// noConnection is the end of a transfer none of whose sources took a connection.
func (s *sources) noConnection() error {
	word := s.lastLoss()
	if src := s.last(); src != nil && src.lastLoss == "" { // it has not even failed
		word = src.addr.ID.Short() + ": no answer yet"
		if at := src.addr.Addrs; len(at) > 0 {
			word += " from " + strings.Join(at[:min(len(at), 2)], " or ")
		}
	}
	return s.blamed(fmt.Errorf("%w: no connection to %s (%s)", share.ErrNetwork, words.Count(len(s.order), "peer"), word))
}

// blamed is an end of the transfer with the class of what this node's proxy did, if that is why the source is away whose word it has.
func (s *sources) blamed(end error) error {
	src := s.last()
	switch {
	case src == nil || src.lastLoss == "" || src.proxy == nil:
		return end
	case src.proxy == peers.ErrNoTCP && slices.ContainsFunc(s.order, func(src *source) bool { return src.dialled || src.lastLoss == "" }):
		return end // not so of all
	}
	return words.Error(errors.Join(end, src.proxy), "%v", end)
}

// neverConnected says whether there are sources, and none took a connection.
func (s *sources) neverConnected() bool {
	return len(s.order) > 0 && !slices.ContainsFunc(s.order, (*source).connected)
}

// someHere says whether a source that is not given up is connected, or was when it failed last.
func (s *sources) someHere() bool {
	return slices.ContainsFunc(s.order, func(src *source) bool { return !src.out && src.here })
}

// allBusy is the last of the sources that are fetched from, if all of them answer that they are busy.
func allBusy(all []*source) (last *source) {
	for _, src := range all {
		switch {
		case src.out || src.info.State != Active:
		case !src.busy:
			return nil
		default:
			last = src
		}
	}
	return last
}

// lastWord is the message of the most recent source that has one.
func (s *sources) lastWord() string {
	src := s.last()
	if src == nil {
		return ErrUnfound.Error()
	}
	return src.addr.ID.Short() + ": " + src.info.Why
}

// lastLoss is lastWord at the end, when nothing is retried.
func (s *sources) lastLoss() string {
	src := s.last()
	if src == nil || src.lastLoss == "" || src.info.Banned { // a ban may come after a loss, and says more
		word, _, _ := strings.Cut(s.lastWord(), "; is asked again in ")
		return word
	}
	return src.addr.ID.Short() + ": " + src.lastLoss
}

// last is the most recent source that says anything: of those that deliver, if
// there are any, else of those that may come back. Nil: there is none.
func (s *sources) last() *source {
	for _, counts := range []func(*source) bool{
		func(src *source) bool { return !src.out && src.info.State == Active },
		func(src *source) bool { return !src.out },
		func(src *source) bool { return true },
	} {
		for _, src := range slices.Backward(s.order) {
			if counts(src) && src.info.Why != "" {
				return src
			}
		}
	}
	return nil
}
