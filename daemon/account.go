package daemon

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// depotError returns an error about an account in the form in which it is sent: without what
// the database adds to it.
func depotError(err error, account string) error {
	switch {
	case errors.Is(err, depot.ErrNoAccount):
		return api.Refuse(api.ErrNoEntry, "there is no account %q; fetcher depot account list shows which there are", account)
	case errors.Is(err, depot.ErrNoKey):
		return api.Refuse(api.ErrNoEntry, "the account %q has no such key; give a whole key, as the JSON of fetcher depot account list has it", account)
	case errors.Is(err, depot.ErrTaken):
		return api.Refuse(api.ErrHave, "that name or key is taken; fetcher depot account list shows by which account; if it is the name, fetcher depot account set adds a key to that account")
	case errors.Is(err, depot.ErrInUse):
		return api.Refuse(api.ErrHave, "the account %q holds leases: it can be removed when they are released or have ended", account)
	case errors.Is(err, depot.ErrIncomplete):
		return api.Refuse(api.ErrHave, "the account %q may hold leases that the depot has not found yet: it can be removed once the depot has looked at all of its disk; fetcher depot status shows how far that is", account)
	case errors.Is(err, depot.ErrPaying):
		return api.Refuse(api.ErrHave, "a payment by the account %q has begun and is not recorded yet: the account can be removed once its node has sent that payment again, or 400 days after the payment began", account)
	}
	return err
}

// named returns the account with that name, or for which the peer with that ID speaks, or the
// only one whose name, or one of whose keys, ends in name.
func (l *lender) named(ctx context.Context, now time.Time, name string) (depot.Account, error) {
	id, err := l.db.Named(ctx, name)
	if errors.Is(err, depot.ErrNoAccount) {
		id, err = l.db.AccountOf(ctx, peers.ID(name))
	}
	if !errors.Is(err, depot.ErrNoKey) {
		return id, err
	} else if len(name) < shortID {
		return 0, depot.ErrNoAccount
	}
	all, err := l.db.Accounts(ctx, now)
	if err != nil {
		return 0, err
	}
	var found []depot.Account
	for _, a := range all {
		keys, err := l.db.Keys(ctx, a.ID)
		if err != nil {
			return 0, err
		}
		if strings.HasSuffix(a.Name, name) || slices.ContainsFunc(keys, func(k peers.ID) bool { return strings.HasSuffix(string(k), name) }) {
			found = append(found, a.ID)
		}
	}
	if len(found) != 1 {
		return 0, depot.ErrNoAccount
	}
	return found[0], nil
}

// starter is the name of depot.StarterAccount.
const starter = "starter"

// shortID is the least length of the end of a name or a key.
const shortID = 8

// depotNow returns the lender, and the time by the depot's clock.
func (d *depots) depotNow(ctx context.Context) (*lender, time.Time, error) {
	l, err := d.lends()
	if err != nil {
		return nil, time.Time{}, err
	}
	s, err := d.node.DepotDo(ctx, nil)
	return l, s.Now, err
}

// accountNamed returns the lender, the time by the depot's clock, and an account.
func (d *depots) accountNamed(ctx context.Context, name string) (*lender, time.Time, depot.Account, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return nil, now, 0, err
	}
	id, err := l.named(ctx, now, name)
	return l, now, id, depotError(err, name)
}

// Accounts returns the accounts that may hold leases here.
func (d *depots) Accounts(ctx context.Context) (out []api.Account, err error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return nil, err
	}
	all, err := l.db.Accounts(ctx, now)
	for _, a := range all {
		v, err := l.view(ctx, a)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, err
}

func (l *lender) view(ctx context.Context, a depot.AccountInfo) (api.Account, error) {
	v := api.Account{Name: a.Name, Keys: []string{}, Quota: a.Quota, Used: a.Used, MaxLease: int64(a.MaxLease / time.Second), Created: a.Created, Complete: a.Complete, Price: priceOf(a.Paid), Credit: a.Credit}
	keys, err := l.db.Keys(ctx, a.ID)
	for _, k := range keys {
		v.Keys = append(v.Keys, string(k))
	}
	return v, err
}

// account returns an account as it is now.
func (l *lender) account(ctx context.Context, now time.Time, id depot.Account) (api.Account, error) {
	a, err := l.db.Info(ctx, now, id)
	if err != nil {
		return api.Account{}, err
	}
	return l.view(ctx, a)
}

// longest parses the length of a lease; empty is defaultLease.
func longest(s string) (time.Duration, error) {
	if s == "" {
		return defaultLease, nil
	}
	t, err := words.ParseDuration(s)
	switch {
	case err != nil:
		return 0, api.Refuse(api.ErrRequest, "the length of a lease: %v", err)
	case t < time.Second:
		return 0, api.Refuse(api.ErrRequest, "a lease lasts at least 1 s, not %q", s)
	}
	return t, nil
}

func checkKey(key string) error {
	if a, err := share.ParseAddr("/p2p/" + key); err != nil || a.String() != "/p2p/"+key { // a peer's ID has but one text
		return api.Refuse(api.ErrRequest, "%q is not a peer ID, which is the first line that \"fetcher id\" prints on the machine that is to hold leases", key)
	}
	return nil
}

// CheckAccount refuses what cannot be the name of an account, which is a part of a path of the API.
func CheckAccount(name string) error {
	const most = 256
	switch {
	case len(name) > most:
		return api.Refuse(api.ErrRequest, "the name of an account has at most %d bytes; this one has %d", most, len(name))
	case name == ".", name == "..", !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl):
		return api.Refuse(api.ErrRequest, "no account can be called %q: a name is text without control characters, and not . or ..", name)
	}
	return nil
}

// AddAccount makes an account.
func (d *depots) AddAccount(ctx context.Context, a api.AddAccount) (api.Account, error) {
	l, now, err := d.depotNow(ctx)
	if err != nil {
		return api.Account{}, err
	}
	t, err := longest(a.MaxLease)
	if err := cmp.Or(err, checkKey(a.Key), CheckAccount(a.Name)); err != nil {
		return api.Account{}, err
	}
	terms := depot.Terms{Quota: a.Quota, MaxLease: t, Paid: d.setting().DepotPaid}
	if a.Price != "" {
		terms.Paid = a.Price == pricePasses
	}
	if err := terms.Check(); err != nil {
		return api.Account{}, api.Refuse(api.ErrRequest, "%v", err)
	}
	if a.Name == starter {
		return api.Account{}, api.Refuse(api.ErrRequest, "%q is for what the depot finds on its disk: choose another name", starter)
	}
	if _, err := l.db.AccountOf(ctx, peers.ID(a.Key)); err == nil {
		return api.Account{}, depotError(depot.ErrTaken, a.Name)
	}
	id, err := l.db.AddAccount(ctx, now, cmp.Or(a.Name, a.Key), terms, peers.ID(a.Key))
	if err != nil {
		return api.Account{}, depotError(err, a.Name)
	}
	d.log.Info("an account was made", "account", cmp.Or(a.Name, a.Key), "peer", a.Key, "quota", a.Quota)
	return l.account(ctx, now, id)
}

// SetAccount changes an account.
func (d *depots) SetAccount(ctx context.Context, name string, s api.SetAccount) (api.Account, error) {
	l, now, id, err := d.accountNamed(ctx, name)
	if err != nil {
		return api.Account{}, err
	}
	l.changing.Lock()
	defer l.changing.Unlock()
	a, err := l.db.Info(ctx, now, id)
	if err != nil {
		return api.Account{}, depotError(err, name)
	}
	if id == depot.StarterAccount {
		return api.Account{}, api.Refuse(api.ErrRequest, "%q is for what the depot finds on its disk: it has no terms and no keys", a.Name)
	}
	terms := a.Terms
	if s.Quota != nil {
		terms.Quota = *s.Quota
	}
	if s.MaxLease != nil {
		if terms.MaxLease, err = longest(*s.MaxLease); err != nil {
			return api.Account{}, err
		}
	}
	if s.Price != "" {
		terms.Paid = s.Price == pricePasses
	}
	if err := terms.Check(); err != nil {
		return api.Account{}, api.Refuse(api.ErrRequest, "%v", err)
	}
	if err := l.setKeys(ctx, id, s); err != nil {
		return api.Account{}, depotError(err, name)
	}
	if terms != a.Terms {
		if err := l.db.SetAccount(ctx, id, terms); err != nil {
			return api.Account{}, depotError(err, name)
		}
	}
	return l.account(ctx, now, id)
}

// setKeys changes which peers speak for an account.
func (l *lender) setKeys(ctx context.Context, id depot.Account, s api.SetAccount) error {
	if s.RemoveKey != "" {
		if a, err := l.db.AccountOf(ctx, peers.ID(s.RemoveKey)); err != nil || a != id {
			return cmp.Or(err, depot.ErrNoKey)
		}
	}
	if s.AddKey != "" {
		if err := checkKey(s.AddKey); err != nil {
			return err
		}
	}
	switch {
	case s.AddKey != "" && s.RemoveKey != "":
		return l.db.MoveKey(ctx, peers.ID(s.RemoveKey), peers.ID(s.AddKey))
	case s.AddKey != "":
		return l.db.AddKey(ctx, id, peers.ID(s.AddKey))
	case s.RemoveKey != "":
		return l.db.RemoveKey(ctx, peers.ID(s.RemoveKey))
	}
	return nil
}

// Passes returns how many whole passes a credit is worth.
func Passes(credit int64) int { return int(credit / int64(renewal.Paid(1))) }

// RemoveAccount removes an account that holds nothing. credit says that it may lose what it has paid and not used up.
func (d *depots) RemoveAccount(ctx context.Context, name string, credit bool) (api.Account, error) {
	l, now, id, err := d.accountNamed(ctx, name)
	if err != nil {
		return api.Account{}, err
	}
	v, err := l.account(ctx, now, id)
	if err != nil {
		return v, err
	}
	if id == depot.StarterAccount {
		return v, api.Refuse(api.ErrRequest, "%q is for what the depot finds on its disk: it cannot be removed", v.Name)
	}
	err = l.db.RemoveAccount(ctx, now, id, credit)
	if errors.Is(err, depot.ErrCredit) {
		return v, api.Refuse(api.ErrHave, "the account %q has a credit of %s, which would be lost with it; fetcher depot account rm has an option to remove both", v.Name, words.Count(Passes(v.Credit), "pass"))
	}
	return v, depotError(err, name)
}

// Leases returns the live leases of an account.
func (d *depots) Leases(ctx context.Context, account, after string, limit int) (out []api.Lease, err error) {
	l, now, id, err := d.accountNamed(ctx, account)
	if err != nil {
		return nil, err
	}
	var from share.ID
	if after != "" {
		if from, err = share.ParseID(after); err != nil {
			return nil, err
		}
	}
	all, err := l.db.Holdings(ctx, now, id, from, limit)
	for _, x := range all {
		out = append(out, api.Lease{Share: x.Share.String(), Account: account, State: x.State.String(), Bytes: x.Bytes, Granted: x.Granted, Renewed: x.Renewed, Expires: x.Expires})
	}
	return out, err
}
