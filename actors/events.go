package actors

import "github.com/piecelease/fetcher/transfer"

// What a transfer is told to do and tells is package transfer's.
type (
	TransferConfig = transfer.Config
	FleetConfig    = transfer.Fleet

	Event         = transfer.Event
	Planned       = transfer.Planned
	Progress      = transfer.Progress
	Source        = transfer.Source
	SourceChanged = transfer.SourceChanged
	Stalled       = transfer.Stalled
	Ended         = transfer.Ended
	Leases        = transfer.Leases
	SourceState   = transfer.SourceState
)

const (
	Opening   = transfer.Opening
	DiskFull  = transfer.DiskFull
	Finishing = transfer.Finishing
	Complete  = transfer.Complete
	Failed    = transfer.Failed

	Connecting = transfer.Connecting
	Joining    = transfer.Joining
	Active     = transfer.Active
	Resting    = transfer.Resting
	Left       = transfer.Left
	Banned     = transfer.Banned
)

var (
	ErrStopped   = transfer.ErrStopped
	ErrFinishing = transfer.ErrFinishing
	ErrOpening   = transfer.ErrOpening
	ErrSkipped   = transfer.ErrSkipped
)
