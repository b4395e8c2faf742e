package fleet

import (
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
)

// ShiftLease returns the record of a run or a session with a later end of its lease, and any other
// record unchanged.
func ShiftLease(rec backend.Record, by time.Duration) []byte {
	if strings.HasPrefix(rec.Key, record.EnginesPrefix) {
		var session record.Engine
		if record.Decode(rec, &session) != nil || session.Until == 0 {
			return rec.Value
		}
		session.At, session.Until = session.At.Add(by), session.Until.Add(by)
		return record.Encode(&session)
	}
	var rr record.Run
	if record.Decode(rec, &rr) != nil || rr.Lease.Until == 0 {
		return rec.Value
	}
	rr.Lease.Until = rr.Lease.Until.Add(by)
	return record.Encode(&rr)
}
