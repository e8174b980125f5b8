// Package depot decides what a node that keeps shares for others does: which peers
// it admits, which states a share goes through, when it is damaged, what its crawler
// visits next, and whether its clock is believed. It promises nothing to outsiders.
//
// # The idea
//
// An account holds storage leases; a lease is a promise to keep a share until a given
// second. A share is in one state, and [Next] knows every possible change:
//
//	            held, or found in part             collected
//	     NONE ─────────────────────────▶ COMING ───────────────┐
//	      │ ▲                              │ complete          │
//	found │ │ removed                      ▼        collected  ▼
//	whole │ └──────────────────────────  STABLE ───────────▶ GOING ──▶ NONE
//	      │                               ▲ │                  ▲
//	      └─────────────▶ STABLE     mended │ │ damaged         │ collected
//	                                      │ ▼                  │
//	                                    CORRUPT ───────────────┘
//
// There is one way to GOING: no lease is live, neither in the database nor beside the
// data, and the grace after the last that expired is over. A share whose fetch
// failed or was given up takes it too, because its leases were ended.
// Package leasedb asks Next inside each transaction that changes a state, and keeps
// what is decided here.
//
// Everything here is a plain value with one owner. It takes the time as an argument,
// starts nothing, and gives the same results for the same calls.
package depot
