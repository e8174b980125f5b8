// Package fetcher moves files between nodes: it shares folders and fetches
// them from many peers at once, every block proven against a content address on
// arrival. It is the one package to embed; the command is a thin layer of flags
// on it.
//
//	node, err := fetcher.Open(ctx, fetcher.Config{})              // zero values work
//	s, err := node.Share(ctx, path, fetcher.ShareOptions{})       // s.Ticket() is what others need
//	t, err := node.Fetch(ctx, ticket, fetcher.FetchOptions{})     // starts
//	r, err := t.Open(ctx, "a/file")                               // reads it while it comes in
//	err = t.Wait(ctx)                                             // or watch t.Progress()
//	err = node.Close()                                            // ends what is under way, then stops
//
// Nothing is global: any number of nodes fit in one process.
//
//	node.ShareFS(ctx, files, opt)           what lies on no disk: an fs.FS
//	FetchOptions.Only, Skip, Select         some files, and which of them first
//	FetchOptions.OnDemand                   nothing but what is read
//	FetchOptions.Keep                       served on when it is here
//	Config.Allow, and that of each share    for named peers only
//	Config.Catalog, node.Resume             what was asked of a node, after its restart
//	node.Shares, Transfers, Entries         what there is
//	t.Events(ctx), Config.OnEntry, OnChild  what happens
//
// Whatever has a Stop ends by it, and every Stop(ctx) waits until that is done, or for as
// long as ctx lasts: then it ends all the same. Errors that callers branch on are those
// of package share, and the variables here.
//
// # Words
//
// One word, one thing. "Lease" alone is never enough: write the adjective.
//
//	share          an immutable, content-addressed set of files, named by its share ID
//	manifest       the list of a share's files with sizes and hash roots; the share ID is its CID
//	ticket         one string: share ID and where to find it; what a person copies
//	piece          the unit of leasing, of have-maps and of resume: 1 MiB by default, never across files
//	block          the unit of verification: 64 KiB, proven against its piece on arrival
//	piece lease    the right of one source's pool to fetch one piece, for a bounded time; in memory
//	storage lease  an account's claim that a depot keeps a share until a date; on disk
//	round          a period in which at most one node of a fleet does a piece of work
//	token, term    fencing numbers: they only grow, and a late holder is known by them
//	transfer       the fetching of one share on one node, from start to verified on disk
//	source, child  a peer we fetch from; a peer that fetches from us
//	account        who holds storage leases: a peer ID, proven by the connection itself
//	fleet          nodes of one owner that cooperate: each byte enters it once
//
// Storage leases, accounts and rounds are words of what is not built yet.
//
// # Map
//
// Arrows of imports go down only; arch_test.go is this map as a test.
//
//	pure: values and the time in, values out; no I/O, no goroutine, no clock, no chance of their own
//	  share      what is fetched: manifest, all geometry, sets, hash tree, ticket
//	  peers      who takes part: IDs, ranking, upload admission
//	  leasemgr   who may fetch which piece, and until when
//	  fetchpool  one source: window, requests in flight, deadlines, back-off
//	  verifier   blocks in; verdicts, blame and finished pieces out
//	  wire       the bytes between nodes: framing, messages, limits
//	shells: the only places that touch the world
//	  actors     the running program, one file per actor
//	  p2p        libp2p host, links, serving
//	  store      share bytes on disk, verified bits, block hashes, resume
//	  fetcher    this package: wires all of the above, by hand
//	  cmd/fetcher  flags in, Open, exit code out
//	for tests, of yours too
//	  simnet     scenarios: nodes on a simulated network, in virtual time
//	  simnet/bubble  the same with whole nodes: test an app that embeds fetcher
//
// docs/architecture.md tells how they work together, docs/formats.md every byte
// they promise.
package fetcher
