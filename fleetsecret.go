package fetcher

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/rounds"
)

// ChangeSecret seals the list of the fleet and the mark of its store anew, with another secret. From then on
// members that know only the present one are members no more: they report nothing, change nothing on the list, hold
// no office, and are refused by those that know the other. What they fetch and serve goes on among themselves. If it was
// cut short, call it again with the same secret. Of several changes at once one is made, and the others return
// [ErrOtherFleet]. It does not change what opens the store itself.
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
	// Until the mark is sealed anew both secrets open the list: if it never is, nothing has changed.
	if err := s.reseal(ctx, to, s.secret()); err != nil {
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
	return s.reseal(ctx, to, "") // and what was added meanwhile
}

// errSealed ends an edit that has nothing to do.
var errSealed = errors.New("it is as it should be")

// reseal seals what this secret opens on the list with that of another store, such that also opens it as well.
func (s FleetStore) reseal(ctx context.Context, to FleetStore, also fleet.Secret) error {
	list, err := s.entries(ctx, listKey)
	if err != nil {
		return err
	}
	for _, e := range list {
		err := to.replace(ctx, e.Key, func(e rounds.Entry) ([]byte, error) {
			var is json.RawMessage
			if len(e.Value) == 0 || s.secret().Open(e.Key, e.Value, &is) != nil {
				return nil, errSealed // removed, already done, or not the fleet's
			}
			return to.secret().SealAlso(e.Key, is, also), nil
		})
		if err != nil && !errors.Is(err, errSealed) {
			return err
		}
	}
	return nil
}
