package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// Two of three members of a fleet have passes, and pay what depots keep for it: each lease once, whoever is killed, and no other member
// pays or tries to.
func TestAFleetPaysWithThePassesOfSomeMembers(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	keeper := startNode(t, t.TempDir(), "--depot", t.TempDir(), "--depot-reserve", "1M", "--depot-price", "passes", "--listen", fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t)))
	at, store := keeper.status().Addrs[0], "sqlite:"+filepath.Join(t.TempDir(), "kv")
	secret := filepath.Join(t.TempDir(), "secret")
	rig.WriteRandom(t, secret, 64, 5)
	var members []*daemonProcess
	for i := range 3 {
		n := startNode(t, t.TempDir(), "--fleet", store, "--fleet-secret", secret)
		if members = append(members, n); i == 0 {
			keeper.sure("depot", "account", "add", n.status().Peer, "--quota", "100M", "--name", "fleet")
		} else {
			keeper.sure("depot", "account", "set", "fleet", "--add-key", n.status().Peer)
		}
	}
	one, other, none := members[0], members[1], members[2]
	redeem := func(n *daemonProcess, passes int) {
		t.Helper()
		n.sure("passes", "redeem", strings.TrimSpace(keeper.text("depot", "voucher", "--passes", fmt.Sprint(passes))))
	}
	redeem(one, 1)
	redeem(other, 3)
	left := func(n *daemonProcess) (passes int64) {
		t.Helper()
		all, err := n.client.Passes(t.Context())
		must(t, err)
		for _, p := range all {
			passes += p.Passes + p.Reserved + p.Ordered
		}
		return passes
	}
	// Both shares are the fleet's, and whole at each member.
	var shares []string
	for i, n := range []*daemonProcess{one, other} {
		src := filepath.Join(t.TempDir(), fmt.Sprint("film", i))
		rig.WriteRandom(t, src, 2_900_000, uint64(i+1))
		e, err := n.client.Add(t.Context(), api.Add{Paths: []string{src}})
		must(t, err)
		n.until("it is served", func() (bool, error) {
			e, err = n.client.Entry(t.Context(), e.ID)
			return err == nil && e.State == api.Served, err
		})
		_, err = n.client.AddToFleet(t.Context(), e.Ticket)
		must(t, err)
		shares = append(shares, e.Share)
	}
	lease := func(n *daemonProcess, id string) (h api.StandingHold) {
		for _, h := range n.held() {
			if h.Share == id && h.Left > 0 {
				return h
			}
		}
		return h
	}
	one.sure("hold", "film0", "--on", at, "--fleet", "--for", "20s")
	if left(one) != 0 || left(other) != 3 {
		t.Errorf("passes left: %d and %d", left(one), left(other))
	}
	for _, n := range members {
		n.until("each member shows it", func() (bool, error) {
			return lease(n, shares[0]).Share != "" && lease(n, shares[0]).State == "stable", nil
		})
	}
	other.sure("hold", "film1", "--on", at, "--fleet")
	// Longer than a lease lasts: whichever of those that could pay is killed.
	for end := time.Now().Add(25 * time.Second); time.Now().Before(end); members[rand.IntN(2)].again() {
		wait := time.NewTimer(time.Duration(1000+rand.IntN(3000)) * time.Millisecond)
		<-wait.C
	}
	keeper.until("both leases are live", func() (bool, error) {
		l, err := keeper.client.Leases(t.Context(), "fleet")
		return len(l) == 2 && slices.ContainsFunc(l, func(l api.Lease) bool { return l.Share == shares[0] && l.State == "stable" }), err
	})
	if left(one) != 0 || left(other) != 0 || left(none) != 0 {
		t.Errorf("passes left: %d, %d and %d", left(one), left(other), left(none))
	}
	accounts, err := keeper.client.Accounts(t.Context())
	must(t, err)
	for _, a := range accounts {
		if unit := int64(31 * 24 * 3600); a.Name == "fleet" && (a.Credit <= unit*9/10 || a.Credit >= unit) {
			t.Errorf("of four passes, three of which pay for a share for 31 days, the credit is %d of %d", a.Credit, unit)
		}
	}
}
