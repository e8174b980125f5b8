// Package fetcher moves files between nodes: it shares folders and fetches
// them from many peers at once, and verifies every block against a content address
// when it arrives. It is the one package to embed; the command is a thin layer of flags
// on top of it.
//
//	node, err := fetcher.Open(ctx, fetcher.Config{})              // zero values work
//	s, err := node.Share(ctx, path, fetcher.ShareOptions{})       // s.Ticket() is what others need
//	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{})     // starts
//	r, err := t.Open(ctx, "a/file")                               // reads it while it comes in
//	err = t.Wait(ctx)                                             // or watch t.Progress()
//	err = node.Close()                                            // ends what is under way, then stops
//
// Nothing is global: one process may run any number of nodes.
//
//	node.ShareFS(ctx, files, opt)           shares an fs.FS, which need not be on a disk
//	FetchOptions.Only, Skip, Select         some files, and which of them first
//	FetchOptions.OnDemand                   only what is read
//	FetchOptions.Keep                       goes on serving what was fetched
//	Config.Allow, and that of each share    for named peers only
//	Config.Catalog, node.Resume             what was asked of a node, after its restart
//	node.Shares, Transfers, Entries         what the node has
//	t.Events(ctx), Config.OnEntry, OnChild  what happens
//
// A Stop method ends what it is called on. Stop(ctx) waits until that is done or ctx ends; it
// takes effect in either case. Errors that callers branch on are those of package share, and the
// variables here.
//
// # Words
//
// Each word means one thing. "Lease" alone is ambiguous: write which kind.
//
//	share          an immutable, content-addressed set of files, named by its share ID
//	manifest       the list of a share's files with sizes and hash roots; the share ID is its CID
//	ticket         one string: share ID and where to find it; what a person copies
//	piece          the unit of leasing, of have-maps and of resume: 1 MiB by default, never across files
//	block          the unit of verification: 64 KiB, proven against its piece on arrival
//	piece lease    the right of one source's pool to fetch one piece, for a bounded time; in memory
//	storage lease  an account's claim that a depot keeps a share until a date; on disk
//	round          a period in which at most one node of a fleet does a piece of work
//	token, term    fencing numbers: they only grow, so a late holder is recognized by its number
//	transfer       the fetching of one share on one node, from start to verified on disk
//	source, child  a peer we fetch from; a peer that fetches from us
//	account        a holder of storage leases at a depot: a name, a quota and any number of keys
//	fleet          nodes of one owner that cooperate: each byte enters the fleet once
//
// # Map
//
// Imports go down only. The pure packages decide: values and the time in, values out, without I/O,
// goroutines, a clock or randomness of their own. Around them, actors, p2p and store are the shells
// that do the I/O; this package wires them, and cmd/fetcher and daemon use it. simnet and
// simnet/bubble run the same program on a simulated network, in virtual time; your tests may use them too.
//
// docs/architecture.md lists every package and explains how they work together; docs/formats.md
// specifies every format that they promise.
package fetcher
