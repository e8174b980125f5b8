// Package actors is the running program: the actors of a node, the messages between
// them, and what they need of the world around them. It promises nothing to
// outsiders.
//
// Each actor has a file; its messages are at the end of that file or in the one
// named beside it:
//
//	node.go           Node: the API's commands; the ranking of peers; parent of all others
//	                  FetchShare, ToTransfer, PeerLied, PeerMeasured, AskRank, ServeOn
//	seeder.go         Seeder: children, announcements, upload admission
//	                  seedersets.go: what the sets of children mean for them;
//	                  accounts.go: what children have taken
//	                  seedermessages.go: OfferShare, PieceAvailable, WithdrawShare, AdmitRequest,
//	                  ServeDone, ServeParked; wire.Subscribe, wire.Unsubscribe
//	finder.go         Finder: where sources are
//	                  FindSources, StopFinding, PeersNamed, SourceCame
//	beacon.go         Beacon: beacon's actor, remembers for others who has which share
//	                  wire.Announce, wire.Seek, wire.Say, BeaconQuery
//	beacons.go        Beacons: announces to beacons what this node has, and asks them for sources
//	                  SeekAt, MeetingsChanged; wire.Announced, wire.Found
//	speaker.go        speaker: spoken's actor, one exchange of a ticket for a code; Speak, wire.Heard
//	mirror.go         Mirror: tells the sources of a share that it can be had here too
//	transfer.go       Transfer: transfer's actor, the fetch of one share
//	                  transfermessages.go: SourceFound, SourceStatus, SourceLied, PeerBanned,
//	                  BlocksVerified, PieceDone, SetPriority, SetDownloadRate, OpenReader, MoveReader, StopTransfer
//	leasemanager.go   LeaseManager: leasemgr's actor
//	                  SourceUp, SourceHas, SourceSent, LeaseRequest, LeaseProgress, LeaseReturned,
//	                  SourceExcused, SourceBusy, PieceVerified, RankSource, PauseLeases, SetPriorities, SetReader, PlanQuery
//	fetchpool.go      FetchPool, per source: fetchpool's actor; poollink.go: at its link
//	                  fetchpoolmessages.go: LeaseResponse, LeasesAvailable, LeaseRevoked,
//	                  PieceStates, BlocksChecked, and what a Link says; wire.SubscribeResult,
//	                  wire.HaveMap, wire.Have, wire.ShareGone, wire.Goodbye
//	pieceverifier.go  PieceVerifier: verifier's actor
//	                  AskPieces, CheckProof, CheckBlocks
//	coordinator.go    the actor of fleet's Coordinator
//	leaseclient.go    the actor of fleet's Member; fleet.go starts both
//	office.go         the actor of fleet's Office, which starts an elected coordinator;
//	                  ballot.go: its requests to the store of the fleet
//	listers.go        who in a fleet gets the list of files from outside
//
//	depot.go          Depot: keeps shares for accounts; depotask.go answers these,
//	                  depotarrival.go fetches, depotremove.go removes, crawler.go checks
//	                  what is there, depotcommands.go has the owner's commands, ledger.go what it
//	                  needs of the world; wire.Hold, wire.Renew, wire.Release, wire.Holdings, wire.Usage
//	depotcall.go      depotCall: one request of this node to a depot; AskDepot
//	renewal.go        renewals: renewal's actor, what depots keep for this node;
//	                  renewalcommands.go: KeepHold, DropHold, DropShare, AwaitVisits, SetBudget, VisitDepot,
//	                  DepotAt, HoldsQuery
//
// A message belongs to its receiver once it is sent. Between nodes the messages of package
// wire are sent, as they are.
//
//	events.go         what the program tells whoever started it
//	deps.go           the network and the disk that they need, as interfaces
//	program.go        the edge between the actors and everything else; inspect.go
//	                  is the edge for tests and simulations
//	budget.go         blocks in flight, shared fairly by the pools of a node
//	ration.go         the download limit
//	ranking.go        the Node keeps the ranking of peers on the disk
//
// All of it runs on package system, whose rules are those of every actor here.
package actors
