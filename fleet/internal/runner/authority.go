package runner

import (
	"context"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
)

// guarded protects the engine from an authority of the host that hangs.
func guarded(g *guard.Guard, a approval.Authority) approval.Authority {
	safe := guardedAuthority{a, g}
	if s, ok := a.(approval.Scheduler); ok {
		return guardedScheduler{safe, s}
	}
	return safe
}

type guardedAuthority struct {
	approval.Authority
	guard *guard.Guard
}

// Decide calls Decide of the host's authority.
func (a guardedAuthority) Decide(ctx context.Context, r approval.Request) (approval.Decision, error) {
	return guard.Call(ctx, a.guard, "authority", authorityKey(&r), func(ctx context.Context) (approval.Decision, error) {
		return a.Authority.Decide(ctx, r)
	})
}

type guardedScheduler struct {
	guardedAuthority
	scheduler approval.Scheduler
}

func (a guardedScheduler) nextAsk(ctx context.Context, r approval.Request) (time.Duration, error) {
	return guard.Call(ctx, a.guard, "authority", authorityKey(&r), func(context.Context) (time.Duration, error) {
		return a.scheduler.NextAsk(r), nil
	})
}

func authorityKey(r *approval.Request) string { return r.Run + "/" + r.RunUID + "/" + r.Name }
