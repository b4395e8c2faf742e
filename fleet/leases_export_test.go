package fleet

import (
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// ShiftLease returns the record of a run with its lease ending later; any other
// record as it is.
func ShiftLease(rec backend.Record, by time.Duration) []byte {
	var rr record.Run
	if record.Decode(rec, &rr) != nil || rr.Lease.Until == 0 {
		return rec.Value
	}
	rr.Lease.Until = rr.Lease.Until.Add(by)
	return record.Encode(&rr)
}
