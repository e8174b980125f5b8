package fetcher

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

// ChangeSecret writes the list of the fleet and the mark of its store anew, with another secret. From then on
// members that know only the present one are members no more: they report nothing, hold no office, and are refused
// by those that know the other. What they fetch and serve goes on among themselves. If it was cut short, call it
// again with the same secret. It does not change what opens the store itself.
func (s FleetStore) ChangeSecret(ctx context.Context, secret string) error {
	to := FleetStore{s.KV, secret}
	if err := to.validate(); err != nil {
		return err
	}
	if _, _, err := s.read(ctx); errors.Is(err, ErrOtherFleet) {
		if _, _, err := to.read(ctx); err != nil { // not even cut short after the mark
			return err
		}
	} else if err != nil {
		return err
	}
	if err := s.reseal(ctx, to); err != nil {
		return err
	}
	made := any(struct {
		Made time.Time `json:"made"`
	}{time.Now().UTC()})
	err := to.edit(ctx, fleetKey, func(e rounds.Entry) (any, error) {
		var is json.RawMessage
		if s.secret().Open(fleetKey, e.Value, &is) == nil {
			return is, nil
		}
		return made, to.secret().Owns(e.Value)
	})
	if err != nil {
		return err
	}
	return s.reseal(ctx, to) // what was added meanwhile
}

// errSealed ends an edit that has nothing to do.
var errSealed = errors.New("it is as it should be")

// reseal seals with the secret of another store what is on the list with that of this one.
func (s FleetStore) reseal(ctx context.Context, to FleetStore) error {
	list, err := s.entries(ctx, listKey)
	if err != nil {
		return err
	}
	for _, e := range list {
		err := to.edit(ctx, e.Key, func(e rounds.Entry) (any, error) {
			var is json.RawMessage
			if len(e.Value) == 0 || s.secret().Open(e.Key, e.Value, &is) != nil {
				return nil, errSealed // removed, already done, or not the fleet's
			}
			return is, nil
		})
		if err != nil && !errors.Is(err, errSealed) {
			return err
		}
	}
	return nil
}
