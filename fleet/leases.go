package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/stages"
)

// Lease is the lease of a run, with the engine that holds it.
type Lease struct {
	// Run is the run's name.
	Run       string       `json:"run"`
	Placement string       `json:"placement,omitempty"`
	State     stages.State `json:"state,omitempty"`
	// Holder is the name of the engine that drives the run. If it is "", the run waits for an
	// engine or for a command.
	Holder string `json:"holder,omitempty"`
	// Epoch is the epoch of the last takeover.
	Epoch int64 `json:"epoch"`
	// Until is when the lease ends, by the holder's clock, unless the lease or the session of the
	// holder is renewed; zero without a holder, and if the holder released the run.
	Until time.Time `json:"until,omitzero"`
	// Overdue reports whether the lease ended longer ago than Config.Skew, by this engine's clock:
	// the next engine that reads it takes the run over.
	Overdue bool `json:"overdue,omitempty"`
	// Err is set for a record that cannot be read; then only Run is known.
	Err error `json:"-"`
}

// Leases returns the leases of the runs that have not ended or whose end has not been recorded with
// the placement, ascending by name. It reads the store only, so every engine returns the same,
// whether it drives runs or not. A run whose record is damaged, or newer than this package knows,
// is included with the error. Leases itself fails only if the store does.
func (e *Engine) Leases(ctx context.Context) ([]Lease, error) {
	var out []Lease
	now := e.state.Now()
	sessions := map[string]*record.Engine{}
	for rec, err := range e.store.List(ctx, record.EnginesPrefix) {
		if err != nil {
			return nil, err
		}
		var session record.Engine
		if record.Decode(rec, &session) == nil { // a session that cannot be read extends nothing
			sessions[rec.Key] = &session
		}
	}
	for rec, err := range e.store.List(ctx, record.RunKey("")) {
		if err != nil {
			return nil, err
		}
		if l, ok := leaseOf(rec, sessions, now, e.cfg.Skew); ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// leaseOf returns the lease of a run's record, and reports whether an engine must drive the run.
func leaseOf(rec backend.Record, sessions map[string]*record.Engine, now time.Time, skew time.Duration) (Lease, bool) {
	name := strings.TrimPrefix(rec.Key, record.RunKey(""))
	var rr record.Run
	err := record.Decode(rec, &rr)
	if err == nil {
		err = record.CheckName(rec.Key, name, rr.Run.Name)
	}
	if err != nil {
		return Lease{Run: name, Err: err}, true
	}
	l := Lease{Run: name, Placement: rr.Run.Placement, State: rr.Run.State, Holder: rr.Lease.Holder, Epoch: rr.Lease.Epoch}
	if session := sessions[record.EngineKey(rr.Lease.Holder)]; session != nil {
		rr.Lease = rr.Lease.Extended(session, rec.Key)
	}
	if rr.Lease.Holder != "" {
		l.Overdue = rr.Lease.FreeAt(now, skew)
		if rr.Lease.Until != 0 {
			l.Until = rr.Lease.Until.Time()
		}
	}
	return l, !rr.Run.IsEnded() || rr.Lease.Holder != ""
}
