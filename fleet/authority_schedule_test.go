package fleet_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// timedAuthority never answers, and records the times of its questions, in seconds since the
// request opened.
type timedAuthority struct{ asked chan time.Duration }

func (a timedAuthority) Decide(_ context.Context, r approval.Request) (approval.Decision, error) {
	a.asked <- time.Since(r.Opened).Round(time.Millisecond)
	return approval.Decision{}, nil
}

// scheduler is an authority that asks to be called again after next.
type scheduler struct {
	timedAuthority
	next func(r approval.Request) time.Duration
}

func (s scheduler) NextAsk(r approval.Request) time.Duration { return s.next(r) }

// An authority is asked at the times that the documentation of the package promises.
func TestAuthoritySchedule(t *testing.T) {
	t.Parallel()
	const s = time.Second
	person := approval.Identity{Name: "ann"}
	for name, c := range map[string]struct {
		next func(r approval.Request) time.Duration
		want []time.Duration
	}{
		"intervals double": {nil, []time.Duration{0, 1 * s, 3 * s, 7 * s, 15 * s, 20 * s, 21 * s, 23 * s, 27 * s}},
		"later": {
			func(approval.Request) time.Duration { return 12 * s },
			[]time.Duration{0, 12 * s, 20 * s, 32 * s, 44 * s},
		},
		"at most ten times as often": {
			func(approval.Request) time.Duration { return 1 },
			[]time.Duration{0, s / 10, 2 * s / 10, 3 * s / 10},
		},
		"a wish that ends": {
			func(r approval.Request) time.Duration {
				if time.Since(r.Opened) < 4*s {
					return 4 * s
				}
				return 0
			},
			[]time.Duration{0, 4 * s, 5 * s, 7 * s, 11 * s, 19 * s, 20 * s},
		},
		"a panic": {
			func(approval.Request) time.Duration { panic("no") },
			[]time.Duration{0, 1 * s, 3 * s, 7 * s},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSmallEnv(t, 1)
				plain := timedAuthority{make(chan time.Duration, 1000)}
				cfg := fleet.Config{Name: "one", Authority: plain}
				if c.next != nil {
					cfg.Authority = scheduler{plain, c.next}
				}
				e := w.newEngine(cfg)
				w.declare(e, smallPlacement("p"))
				strategy := allAtOnce(1)
				strategy.Stages[0].Before = []stages.Task{{Type: stages.Approval, Approval: &approval.Policy{Quorums: []approval.Quorum{{Count: 2}}}}}
				w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: strategy})
				defer running(t, e)()
				time.Sleep(20 * s) // after another decision, the authority is asked at once
				if err := w.newEngine(fleet.Config{Name: "host"}).Run("r").Command(t.Context(), stages.Command{
					Verb: stages.Decide, Name: "r-before-all", By: person, Decision: &approval.Decision{Verdict: approval.Approve},
				}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * s)
				var got []time.Duration
				for len(got) < len(c.want) {
					got = append(got, <-plain.asked)
				}
				if d := cmp.Diff(c.want, got); d != "" {
					t.Error(d)
				}
			})
		})
	}
}
