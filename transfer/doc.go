// Package transfer decides how one share is fetched, from the first source to the
// whole share on disk: which peers to ask for the list of files and to fetch from, which
// parts of the share are wanted and who reads them meanwhile, when to sync, when the disk
// is too full, and when to give up. It always knows why nothing moves. It promises nothing
// to outsiders.
//
// # Driving it
//
// A [Transfer] is told what happened, by a method with the time it happened, and is then
// asked what to do: after each event, and at Todo.Wake, the owner calls Next and does
// what the Todo says, in its order. It has no clock, no goroutine, no connection and no
// disk; the same events give the same answers. It has one owner.
//
//	      Finder ──SourceFound──▶ ┌──────────┐ ──StartPool, StopPool──▶ a pool per source
//	                              │          │ ◀──SourceStatus, SourceLied, PoolFailed──┘
//	   who reads ──OpenReader───▶ │          │ ──StartLeases, Prioritise, Steer──▶ LeaseManager
//	             ◀─ReaderReady─── │ Transfer │ ◀──PieceDone, LeasesEnded, Planned──┘
//	the disk's work ◀──OnDisk──── │          │ ◀──BlocksVerified── PieceVerifiers
//	             ──Synced, ...──▶ │          │ ──Offer, Available──▶ Seeder
//	                              └──────────┘ ──Tell──▶ whoever asked for the share
//
// Its parts are the sources (sources.go, places.go, manifest.go), which content is wanted and here
// (content.go), readers (readers.go), the work of the disk (disk.go) and what is reported
// while nothing moves (quiet.go). Package leasemgr decides which piece is fetched from
// which source.
//
// # What holds, whatever happens
//
//   - Only one of opening, syncing, looking for room, finishing and closing is under way
//     at a time. The disk is closed after the last verifier has ended.
//   - Whatever began ends: there is one Over, and by then there is no pool, no worker,
//     no open question and no waiting reader. After it questions are still answered and
//     lies passed on, and nothing else is done.
//   - Every byte of content is verified by others before it counts here; a piece that was
//     done is forgotten only when the place on disk is opened anew.
//   - At most Config.MaxSources pools run. A banned source is given up. A source that was
//     given up comes back only when its ban ends, or if the reason was that it could not be reached, or if it
//     comes by itself and the reason was that it did not give the share.
//   - Every wait has an end: a time, a message that is owed, or Config.Stall.
//
// Its actor: actors/transfer.go.
package transfer
