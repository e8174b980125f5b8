package system

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// ErrNoAnswer says that a question will never be answered: the actor has
// stopped, refused it, or panicked over it.
var ErrNoAnswer = errors.New("no answer")

// ErrClosed is the ErrNoAnswer of a system that was closed.
var ErrClosed error = closedError{}

type closedError struct{}

func (closedError) Error() string        { return "the node is closed" }
func (closedError) Is(target error) bool { return target == ErrNoAnswer }

// Ask sends a question from outside the actors and waits for its one answer, or
// for the end of ctx; an answer that comes later is a dead letter. An answer that is an error is returned as one. In a World
// the caller must be outside the loop; the world is stepped until the answer is
// there, for at most askFor of its time.
func Ask[R any](ctx context.Context, s *System, to *actor.PID, msg any) (R, error) {
	var none R
	a := &asker{s: s, answer: make(chan any, 1)}
	pid, _ := s.ProcessRegistry.Add(a, "ask"+s.ProcessRegistry.NextId())
	defer s.ProcessRegistry.Remove(pid)
	s.Root.RequestWithCustomSender(to, msg, pid)
	answer, err := s.await(ctx, a.answer)
	if err != nil {
		late, came := a.leave()
		if !came {
			return none, err
		}
		answer = late
	}
	switch r := answer.(type) {
	case R:
		return r, nil
	case *actor.DeadLetterResponse:
		if s.stopping(nil) {
			return none, ErrClosed
		}
		return none, fmt.Errorf("ask %s: %w", to.Id, ErrNoAnswer)
	case error:
		return none, r
	}
	return none, fmt.Errorf("ask %s: answered with %T, want %T", to.Id, answer, none)
}

// asker receives the answer to one question; further answers are dropped.
type asker struct {
	s      *System
	answer chan any // holds one

	mu   sync.Mutex
	left bool
}

func (a *asker) SendUserMessage(self *actor.PID, msg any) {
	if !a.take(actor.UnwrapEnvelopeMessage(msg)) {
		a.s.dead(self, msg)
	}
}

func (a *asker) take(answer any) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.left {
		select {
		case a.answer <- answer:
		default:
		}
	}
	return !a.left
}

// leave ends the wait, unless the answer has come.
func (a *asker) leave() (answer any, came bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.left = true
	select {
	case answer = <-a.answer:
		return answer, true
	default:
		return nil, false
	}
}

func (*asker) SendSystemMessage(*actor.PID, any) {}
func (*asker) Stop(*actor.PID)                   {}
