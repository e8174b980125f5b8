package actors

import (
	"testing"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/wire"
)

func TestMessagesOfTheInsideDoNotTravel(t *testing.T) {
	for _, m := range []any{LeaseRequest{}, LeaseResponse{}, LeaseProgress{}, LeaseReturned{}, LeasesAvailable{}, LeaseRevoked{}, PieceDone{}, SourceHas{},
		SourceHasMore{}, SourceDown{}, SourceBusy{}, SourceExcused{}, StopTransfer{}, CoordinateShare{}, StopCoordinating{}, FleetQuery{}, system.WakeDue{}, nil} {
		if typ, _, ok := (wire.Codec{}).Encode(m); ok {
			t.Errorf("%T travels as type %d", m, typ)
		}
	}
}
