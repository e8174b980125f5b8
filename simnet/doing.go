package simnet

import (
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/transfer"
)

// Doing is what a node does, or why it does nothing, as a person would sum it up.
type Doing uint8

const (
	Off      Doing = iota // not started yet, stopped, killed or without power
	Frozen                // its program is suspended
	Serving               // it fetches nothing, or has fetched all
	Looking               // it looks for a peer that has the list of files
	Fetching              // bytes are arriving
	Pausing               // for a moment nothing new was verified
	Writing               // it prepares or finishes its files
	Full                  // its disk is full
	Alone                 // no source is connected
	Lacking               // there are sources, and none has what is missing
	Waiting               // sources hold leases, and nothing new was verified
	Idle                  // there are sources, and none holds a lease
	Failed                // a fetch of it has ended incomplete
)

// AllDoings lists them all, in the order of a legend.
var AllDoings = []Doing{Fetching, Serving, Pausing, Looking, Writing, Waiting, Idle, Lacking, Alone, Full, Frozen, Off, Failed}

func (d Doing) String() string {
	return [...]string{"not running", "frozen", "runs no fetch of the scenario", "looking for the list of files", "bytes flow", "a short pause", "preparing or finishing files",
		"disk full", "no source to fetch from", "sources lack the rest", "waiting for leased pieces", "nothing leased", "ended incomplete"}[d]
}

// Quiet says whether it is waiting for bytes that do not come.
func (d Doing) Quiet() bool {
	switch d {
	case Looking, Pausing, Waiting, Idle, Lacking, Alone, Full, Frozen, Off:
		return true
	}
	return false
}

// aMoment is how long nothing new may be verified before a node counts as pausing.
const aMoment = 500 * time.Millisecond

// doing sums up a node, with the reason that the node itself gives.
func (x *Node) doing() (Doing, string) {
	switch {
	case x.state == stopped:
		return Off, ""
	case x.state == frozen:
		return Frozen, ""
	}
	failed := false
	for _, f := range x.fetches {
		if f.ended == nil {
			return f.doing(), f.last.Reason
		}
		failed = failed || f.ended.Err != nil
	}
	if failed {
		return Failed, ""
	}
	return Serving, ""
}

func (f *Fetch) doing() Doing {
	p := f.last
	switch p.State {
	case transfer.Finding:
		return Looking
	case transfer.Opening, actors.Finishing:
		return Writing
	case transfer.DiskFull:
		return Full
	}
	active := false
	for _, s := range p.Sources {
		active = active || s.State == transfer.Active
	}
	switch {
	case p.Reason == "" && f.x.net.Elapsed()-f.moved <= aMoment:
		return Fetching
	case p.Reason == "":
		return Pausing
	case !active:
		return Alone
	case p.Wait == transfer.ForHolder:
		return Lacking
	case p.Wait == transfer.ForBytes:
		return Waiting
	}
	return Idle
}
