package watch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/watch"
)

// reel is a source that advances a simulated run by a minute with every call, except for failing
// calls.
type reel struct {
	calls int
	fails map[int]error
}

// Run returns the reel, whatever the name.
func (r *reel) Run(string) *reel { return r }

func (r *reel) History(_ context.Context, after int64) (fleet.History, error) {
	r.calls++
	if err := r.fails[r.calls]; err != nil {
		return fleet.History{}, err
	}
	p, err := simulate.NewPlan(rollout(), fleetOf())
	if err != nil {
		return fleet.History{}, err
	}
	w := simulate.Environment{Until: time.Duration(r.calls) * time.Minute, Orders: toProd(), Default: simulate.Member{Take: 2 * time.Minute}}
	h := fleet.History{After: after}
	end, err := simulate.Run(p, w, func(e simulate.Event) error {
		if h.Next++; h.Next > after {
			h.Events = append(h.Events, e.Event)
		}
		return nil
	})
	h.Status = fleet.Status{Plan: p, Run: end.Run}
	return h, err
}

func (r *reel) RollbackStatus(context.Context) (fleet.Rollback, error) {
	return fleet.Rollback{Run: "run"}, nil
}

func TestOutputWithoutATerminalIsOneLinePerEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		src := &reel{fails: map[int]error{3: errors.New("connection refused\nby \x1b[2Jsomething"), 4: errors.New("connection refused\nby \x1b[2Jsomething")}}
		status, err := watch.Run(t.Context(), src, "run", nil, &out, watch.Options{Getenv: func(string) string { return "" }})
		if err != nil || status.Run.State != stages.Completed {
			t.Fatalf("%s, %v", status.Run.State, err)
		}
		var want strings.Builder
		h, err := (&reel{calls: src.calls - 1}).History(t.Context(), 0)
		if err != nil || !h.Status.Run.IsEnded() {
			t.Fatalf("%s, %v", h.Status.Run.State, err)
		}
		for _, e := range h.Events {
			want.WriteString(watch.Line(e) + "\n")
		}
		got := ""
		unread := 0
		for line := range strings.Lines(out.String()) {
			if strings.Contains(line, " Unread ") && strings.Contains(line, "connection refused by ?[2Jsomething") {
				unread++
				continue
			}
			got += line
		}
		if got != want.String() || unread != 1 {
			t.Errorf("%d lines say that the source was not read, and the rest is\n%s\nwant\n%s", unread, got, want.String())
		}
	})
}

// A wait with a hint has its own line, once; in a frame the hint follows the wait. Events before
// After print no lines.
func TestHintOfAWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hint := func(a stages.Awaited) string {
			if a.Kind != stages.AwaitDecision {
				return ""
			}
			return "approve run " + a.Name
		}
		var out strings.Builder
		src := &reel{}
		o := watch.Options{After: 2, Hint: hint, Getenv: func(string) string { return "" }}
		if _, err := watch.Run(t.Context(), src, "run", nil, &out, o); err != nil {
			t.Fatal(err)
		}
		h, err := (&reel{calls: src.calls - 1}).History(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		var hints []string
		events := 0
		for line := range strings.Lines(out.String()) {
			if _, wait, is := strings.Cut(line, " Waiting "); is {
				hints = append(hints, strings.TrimSpace(wait))
			} else {
				events++
			}
		}
		if events != len(h.Events) {
			t.Errorf("%d events are lines, want %d", events, len(h.Events))
		}
		want := []string{
			"run  waits for approval run-after-canary: 2 more approvals by sre needed; approve run run-after-canary",
			"run  waits for approval run-before-prod: 1 more approval needed; approve run run-before-prod",
		}
		for i, got := range hints {
			if len(hints) != len(want) || !strings.HasSuffix(got, want[i]) {
				t.Fatalf("%q, want %q", hints, want)
			}
		}
	})
	for _, hint := range []string{"", "approve it"} {
		s := scene{strategy: rollout(), clusters: fleetOf(), at: 2 * time.Hour}
		m := s.model(t)
		m.Hint = func(stages.Awaited) string { return hint }
		if got := watch.Frame(m, 120, 30, watch.Style{}); hint != "" && !strings.Contains(got, "; approve it\n") || strings.Contains(got, "; \n") {
			t.Errorf("with %q:\n%s", hint, got)
		}
	}
}

func TestARunThatIsNotThere(t *testing.T) {
	t.Parallel()
	for call, want := range map[int]error{1: errors.New("connection refused"), 5: backend.ErrNotFound} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			_, err := watch.Run(t.Context(), &reel{fails: map[int]error{call: want}}, "run", nil, &out, watch.Options{})
			if !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

func TestAWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var out strings.Builder
		status, err := watch.Run(ctx, &reel{}, "run", nil, &out, watch.Options{})
		if !errors.Is(err, context.DeadlineExceeded) || status.Run.State != stages.Running {
			t.Errorf("%s, %v", status.Run.State, err)
		}
	})
}

// brokenPipe refuses all writes.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	_, err := watch.Run(t.Context(), &reel{}, "run", nil, brokenPipe{}, watch.Options{})
	if err == nil || err.Error() != "broken pipe" {
		t.Error(err)
	}
}

func TestALineHasNoControlCharacters(t *testing.T) {
	t.Parallel()
	e := stages.Event{
		Time: time.Date(2026, time.March, 3, 9, 0, 0, 5e6, time.FixedZone("", 3600)), Type: stages.ApprovalRejected,
		Run: "web-1", Stage: "canary", Group: "eu", Request: "web-1-after-canary-eu", By: "mallory\x1b[2J", Message: "no\nway",
	}
	const want = `2026-03-03T08:00:00.005Z ApprovalRejected  web-1/canary/eu  request=web-1-after-canary-eu by=mallory?[2J message="no\nway"`
	if got := watch.Line(e); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestFrameFitsTheWindow(t *testing.T) {
	t.Parallel()
	s := many()
	m := s.model(t)
	m.Footer = []string{"one", "two", "three"}
	for _, style := range []watch.Style{{}, {ASCII: true}} {
		for width := 0; width < 90; width += 7 {
			for height := range 30 {
				frame := watch.Frame(m, width, height, style)
				if width == 0 || height == 0 {
					if frame != "" {
						t.Errorf("%dx%d: %q", width, height, frame)
					}
					continue
				}
				lines := strings.Split(frame, "\n")
				if len(lines) > height {
					t.Errorf("%dx%d: %d lines", width, height, len(lines))
				}
				for _, line := range lines {
					if n := len([]rune(line)); n > width {
						t.Errorf("%dx%d: %d columns: %s", width, height, n, line)
					}
				}
				if height > 24 && len(lines) != height {
					t.Errorf("%dx%d: %d lines, and there is more to show", width, height, len(lines))
				}
			}
		}
	}
}
