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
	// calls are those that have not returned, by what they are about. A channel is closed when the call has returned.
	mu    sync.Mutex
	calls map[approval.Binding]chan struct{}
}

// newMembers gives authorities without a name their number, from 1.
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

// answer is what came of asking a member: nothing yet, no verdict, a verdict, or an error.
type answer struct {
	by *member
	approval.Decision
	err  error
	came bool
}

func (a *answer) approves() bool { return a.err == nil && a.Verdict == approval.Approve }

func (a *answer) rejects() bool { return a.err == nil && a.Verdict == approval.Reject }

// errEnded is the error of a member that does not return because it ends its goroutine.
var errEnded = errors.New("it ended its goroutine")

// ask asks members until all have answered, settled reports that the others make no difference, or ctx ends. It returns
// an answer for each member, in their order.
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

// decide asks the member once its call before, about the same, has returned.
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

// problems are the errors of members, and of those that have not answered, with their names.
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

// The intervals at which a member is asked that does not say when, beside one that does.
const (
	firstAsk = time.Second
	longAsk  = 10 * time.Second
)

// nextOf returns when the first of members wants to be asked, and 0 where none says.
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

// usualAsk is as long as the request has been open: intervals double.
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
