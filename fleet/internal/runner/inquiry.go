package runner

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/commands"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/stages"
)

// inquiry is an open request that authorities are asked to decide.
type inquiry struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	// request is the request as the run has it; version counts its changes.
	request approval.Request
	version int
	parties []*party
}

// party is an authority that is asked about a request.
type party struct {
	approval.Authority
	// own reports whether the authority is the engine's own, for drift.
	own bool
	// wake makes consult ask the authority at once, because a change may affect its answer.
	wake chan struct{}
	// momentary is the authority's last answer if it is a momentary approval, and nil otherwise. It
	// is not stored: after a crash the authority is asked again.
	momentary *momentaryAnswer
}

// momentaryAnswer is a momentary approval, which is valid only at a point in time. It records its
// arrival by two clocks: the monotonic time of the process, which does not jump, and the engine's
// clock, which continues while the process is suspended.
type momentaryAnswer struct {
	stages.Answer
	came, clock time.Time
}

// age returns the time since the answer arrived, by the clock that measures more.
func (h *momentaryAnswer) age(clock time.Time) time.Duration {
	return max(time.Since(h.came), clock.Sub(h.clock))
}

func (q *inquiry) join(a approval.Authority, own bool) {
	q.parties = append(q.parties, &party{Authority: a, own: own, wake: make(chan struct{}, 1)})
}

// update stores the current request of the run. If it has changed, answers to the old request are
// void and all authorities are asked again at once.
func (q *inquiry) update(r *approval.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.request.Decisions) == len(r.Decisions) && q.request.NotBefore.Equal(r.NotBefore) {
		return
	}
	q.request = *r
	q.version++
	for _, p := range q.parties {
		p.momentary = nil
		backoff.Wake(p.wake)
	}
}

// put returns the request for one party and its version. The request includes the valid momentary
// answers of the other parties.
func (q *inquiry) put(to *party, clock time.Time) (approval.Request, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case <-to.wake:
	default:
	}
	r := q.request
	r.Decisions = slices.Clone(r.Decisions)
	for _, p := range q.parties {
		if p != to && p.holds(clock) {
			r.Decisions = append(r.Decisions, p.momentary.Decision)
		}
	}
	return r, q.version
}

func (p *party) holds(clock time.Time) bool {
	return p.momentary != nil && p.momentary.age(clock) <= approval.PointInTimeAge
}

// answered records a party's answer to a version of the request. d is nil if the answer is not a
// momentary approval. An answer to an older version is dropped, because the party is asked again.
// If the answer makes the party's approval valid, the parties without a valid approval are asked at
// once.
func (q *inquiry) answered(by *party, version int, d *approval.Decision, clock time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := by.holds(clock)
	by.momentary = nil
	if d == nil || version != q.version {
		return
	}
	by.momentary = &momentaryAnswer{Answer: stages.Answer{Request: q.request, Decision: *d}, came: time.Now(), clock: clock}
	for _, p := range q.parties {
		if !before && !p.holds(clock) {
			backoff.Wake(p.wake)
		}
	}
}

// answers returns the valid momentary answers. now is the time in the time of the run, clock the
// same moment by the engine's clock.
func (q *inquiry) answers(now, clock time.Time) (out []stages.Answer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.parties {
		if p.holds(clock) {
			a := p.momentary.Answer
			a.Decision.At = commands.Later(now.Add(-p.momentary.age(clock)), q.request.Opened)
			out = append(out, a)
		}
	}
	return out
}
