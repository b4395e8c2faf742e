package faulty

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// lateWrite is a delayed effect that takes place right before a later call.
type lateWrite struct {
	before int
	effect func()
}

// postpone delays the effect of a write, and returns the immediate error of the call.
func (p *Plan) postpone(ctx context.Context, f Fault, op, key string, effect func(context.Context)) error {
	ctx = context.WithoutCancel(ctx)
	if f.LateDelay > 0 {
		time.AfterFunc(f.LateDelay, func() { effect(ctx) })
	} else {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.late = append(p.late, lateWrite{p.calls + max(1, f.LateCalls), func() { effect(ctx) }})
	}
	return &backend.Error{Op: op, Object: key, Err: f.Late}
}

// land performs the effects that are due before the nth call.
func (p *Plan) land(n int) {
	p.mu.Lock()
	var due, rest []lateWrite
	for _, w := range p.late {
		if w.before <= n {
			due = append(due, w)
		} else {
			rest = append(rest, w)
		}
	}
	p.late = rest
	p.mu.Unlock()
	for _, w := range due {
		w.effect()
	}
}
