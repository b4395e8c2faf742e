package faulty

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// ErrCrashed is the error of every call after a crash. It matches none of the kinds of package
// backend.
var ErrCrashed = errors.New("the process crashed")

// errInjected is the fault of a rule without an error: a transient one.
var errInjected = errors.New("injected fault")

// Call describes a call to a rule.
type Call struct {
	// Op is get, put, delete, list or watch for a store, and dial, get, apply, delete or watch for a
	// cluster. Closing a connection is not a call; it always works.
	Op string
	// Key is the key, or the prefix of a list or watch. For a cluster it is the cluster's name, and
	// for an object cluster/Kind/namespace/name without empty parts; a watch of objects has the
	// cluster's key.
	Key string
	// N counts the calls of the plan from 1.
	N int
	// Write counts the calls that may change something (put, delete, apply) from 1, whether they
	// succeed or not; it is 0 for other calls.
	Write int
}

// Fault is the fault of a call. The zero Fault has no effect.
type Fault struct {
	// Delay is a wait before anything else, or until the context ends.
	Delay time.Duration
	// Hang blocks until the context ends. There is no effect.
	Hang bool
	// Before fails the call without an effect.
	Before error
	// After fails the call after it had its effect: the result is ambiguous. A call that fails
	// itself returns its own error. For a list or a watch it ends the sequence after the first
	// element.
	After error
	// Late makes a call that may change something fail immediately and take effect later: after
	// LateDelay, or if LateDelay is 0, right before the LateCalls-th of the plan's following
	// calls; 0 means the next call. The backend checks preconditions such as a revision at that
	// time, so the effect may silently never happen. The end of the context does not prevent the
	// effect; a crash prevents only an effect that waits for calls. A call that changes nothing
	// just fails.
	Late      error
	LateDelay time.Duration
	LateCalls int
	// Crash makes this call and all later ones fail with ErrCrashed: this one before its effect, or
	// after it if After is set too.
	Crash bool
}

func (f Fault) none() bool {
	return f.Delay <= 0 && !f.Hang && f.Before == nil && f.After == nil && f.Late == nil && !f.Crash
}

// Rule returns the fault of a call. It may be called concurrently.
type Rule func(Call) Fault

// On is the rule that applies f to matching calls.
func On(match func(Call) bool, f Fault) Rule {
	return func(c Call) Fault {
		if match(c) {
			return f
		}
		return Fault{}
	}
}

// Nth is the rule that applies f to the nth call, from 1.
func Nth(n int, f Fault) Rule {
	return On(func(c Call) bool { return c.N == n }, f)
}

// NthWrite is the rule that applies f to the nth write, from 1.
func NthWrite(n int, f Fault) Rule {
	return On(func(c Call) bool { return c.Write == n }, f)
}

// CrashBefore is a crash right before the nth write, from 1.
func CrashBefore(n int) Rule { return NthWrite(n, Fault{Crash: true}) }

// CrashAfter is a crash right after the effect of the nth write, from 1.
func CrashAfter(n int) Rule { return NthWrite(n, Fault{Crash: true, After: ErrCrashed}) }

// Before is a fault that fails a call without an effect; nil is a transient error.
func Before(err error) Fault { return Fault{Before: orInjected(err)} }

// After is a fault that fails a call after its effect; nil is a transient error.
func After(err error) Fault { return Fault{After: orInjected(err)} }

// Late is a fault that fails a write with an effect later, after d; nil is a transient error.
func Late(err error, d time.Duration) Fault { return Fault{Late: orInjected(err), LateDelay: d} }

// LateCalls is a fault that fails a write with an effect right before the nth further call; nil
// is a transient error.
func LateCalls(err error, n int) Fault { return Fault{Late: orInjected(err), LateCalls: n} }

func orInjected(err error) error {
	if err == nil {
		return errInjected
	}
	return err
}

// Plan decides about the faults of the calls of one process, and counts the calls.
type Plan struct {
	rules []Rule

	mu      sync.Mutex
	calls   int
	writes  int
	crashed bool
	late    []lateWrite
	cut     map[*context.CancelCauseFunc]struct{}
}

// NewPlan returns a plan with these rules. The first rule with a fault for a call decides.
// Without rules nothing fails and the plan only counts calls.
func NewPlan(rules ...Rule) *Plan {
	return &Plan{rules: rules, cut: map[*context.CancelCauseFunc]struct{}{}}
}

// Calls returns the number of calls before a crash.
func (p *Plan) Calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls
}

// Writes returns the number of calls before a crash that may change something, including the call
// of the crash.
func (p *Plan) Writes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writes
}

// Crashed reports whether the process has crashed.
func (p *Plan) Crashed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

// Crash crashes the process now: watches end, waiting calls return, and calls that already run
// complete.
func (p *Plan) Crash() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.crashed = true
	for cancel := range p.cut {
		(*cancel)(ErrCrashed)
	}
}

// count registers a call.
func (p *Plan) count(op, key string) (Call, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.crashed {
		return Call{}, ErrCrashed
	}
	p.calls++
	c := Call{Op: op, Key: key, N: p.calls}
	if op == "put" || op == "delete" || op == "apply" {
		p.writes++
		c.Write = p.writes
	}
	return c, nil
}

func (p *Plan) fault(c Call) Fault {
	for _, rule := range p.rules {
		if f := rule(c); !f.none() {
			return f
		}
	}
	return Fault{}
}

// enter admits a call, or returns its error. The returned fault is for leave.
func (p *Plan) enter(ctx context.Context, op, key string) (Fault, error) {
	c, err := p.count(op, key)
	if err != nil {
		return Fault{}, &backend.Error{Op: op, Object: key, Err: err}
	}
	p.land(c.N)
	f := p.fault(c)
	err = p.suffer(ctx, f)
	if err == nil && c.Write == 0 {
		err = f.Late
	}
	if err != nil {
		return Fault{}, &backend.Error{Op: op, Object: key, Err: err}
	}
	return f, nil
}

// suffer performs the part of a fault before the effect.
func (p *Plan) suffer(ctx context.Context, f Fault) error {
	if f.Delay > 0 || f.Hang {
		if err := p.block(ctx, f); err != nil {
			return err
		}
	}
	if f.Crash && f.After == nil {
		p.Crash()
		return ErrCrashed
	}
	return f.Before
}

// block waits for the delay, or for ever, until the context or the process ends.
func (p *Plan) block(ctx context.Context, f Fault) error {
	ctx, release := p.attach(ctx)
	defer release()
	var expired <-chan time.Time
	if !f.Hang {
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-expired:
		return nil
	}
}

// leave returns the result of a call after its effect.
func (p *Plan) leave(f Fault, op, key string, err error) error {
	switch {
	case f.Crash:
		p.Crash()
		return &backend.Error{Op: op, Object: key, Err: ErrCrashed}
	case err == nil && f.After != nil:
		return &backend.Error{Op: op, Object: key, Err: f.After}
	case p.Crashed():
		return &backend.Error{Op: op, Object: key, Err: ErrCrashed}
	}
	return err
}

// attach returns a context that ends when the process crashes.
func (p *Plan) attach(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut[&cancel] = struct{}{}
	if p.crashed {
		cancel(ErrCrashed)
	}
	return ctx, func() { p.detach(&cancel) }
}

func (p *Plan) detach(cancel *context.CancelCauseFunc) {
	(*cancel)(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.cut, cancel)
}
