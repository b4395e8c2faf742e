package authority

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
)

// member is an authority in a combination.
type member struct {
	name string
	approval.Authority
	// calls are the calls that have not returned, by their requests. A channel is closed when its call
	// has returned.
	mu    sync.Mutex
	calls map[approval.Binding]chan struct{}
}

// newMembers returns members for authorities. Authorities without a name get their number, from 1.
func newMembers(all []approval.Authority) []*member {
	out := make([]*member, len(all))
	for i, a := range all {
		out[i] = newMember(nameOf(a, fmt.Sprintf("authority %d", i+1)), a)
	}
	return out
}

func newMember(name string, a approval.Authority) *member {
	return &member{name: name, Authority: a, calls: map[approval.Binding]chan struct{}{}}
}

func nameOf(a approval.Authority, otherwise string) string {
	if n, ok := a.(*named); ok {
		return n.by.Name
	}
	return otherwise
}

// answer is a member's answer: none yet, no verdict, a verdict, or an error.
type answer struct {
	by *member
	approval.Decision
	err  error
	came bool
}

func (a *answer) approves() bool { return a.err == nil && a.Verdict == approval.Approve }

func (a *answer) rejects() bool { return a.err == nil && a.Verdict == approval.Reject }

// errEnded is the error of a member whose call ended its goroutine and did not return.
var errEnded = errors.New("it ended its goroutine")

// ask asks members until all have answered, settled reports that the missing answers make no
// difference, or ctx ends. It returns an answer for each member, in their order.
func ask(ctx context.Context, members []*member, r approval.Request, settled func([]*answer) bool) []*answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type numbered struct {
		at int
		*answer
	}
	came := make(chan numbered, len(members))
	out := make([]*answer, len(members))
	for i, m := range members {
		out[i] = &answer{by: m}
		own := r
		own.Decisions = slices.Clone(r.Decisions)
		own.Policy.Quorums = slices.Clone(r.Policy.Quorums)
		go func() {
			a := &answer{by: m, err: errEnded, came: true}
			defer func() { came <- numbered{i, a} }()
			a.Decision, a.err = m.decide(ctx, own)
		}()
	}
	for range members {
		select {
		case a := <-came:
			out[a.at] = a.answer
		case <-ctx.Done():
			for len(came) > 0 {
				a := <-came
				out[a.at] = a.answer
			}
			return out
		}
		if settled(out) {
			return out
		}
	}
	return out
}

// decide asks the member once its earlier call about the same request has returned.
func (m *member) decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	for {
		m.mu.Lock()
		before, busy := m.calls[r.Binding]
		if !busy {
			break
		}
		m.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return approval.Decision{}, fmt.Errorf("an earlier call has not returned yet: %w", ctx.Err())
		}
	}
	done := make(chan struct{})
	m.calls[r.Binding] = done
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.calls, r.Binding)
		close(done)
	}()
	return guard.Recovered("Decide", func() (approval.Decision, error) { return m.Decide(ctx, r) })
}

// problems returns the errors of members, with their names. Members that have not answered have the
// error of ctx.
func problems(ctx context.Context, all []*answer) error {
	var errs []error
	for _, a := range all {
		err := a.err
		if !a.came {
			err = ctx.Err()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", a.by.name, err))
		}
	}
	return errors.Join(errs...)
}

// firstAsk and longAsk bound the interval for members that do not say when to ask, beside members
// that do.
const (
	firstAsk = time.Second
	longAsk  = 10 * time.Second
)

// nextOf returns when the first member asks to be called, or 0 if no member says.
func nextOf(members []*member, r approval.Request) time.Duration {
	first, silent := time.Duration(0), false
	for _, m := range members {
		d := wish(m.Authority, r)
		if d <= 0 {
			silent = true
		} else if first == 0 || d < first {
			first = d
		}
	}
	if silent && first > 0 {
		return min(first, usualAsk(r))
	}
	return first
}

// usualAsk returns the time that the request has been open, so that intervals double.
func usualAsk(r approval.Request) time.Duration {
	return min(max(time.Since(r.Opened), firstAsk), longAsk)
}

func wish(a approval.Authority, r approval.Request) time.Duration {
	s, ok := a.(approval.Scheduler)
	if !ok {
		return 0
	}
	d, err := guard.Recovered("NextAsk", func() (time.Duration, error) { return s.NextAsk(r), nil })
	if err != nil {
		return 0
	}
	return d
}
