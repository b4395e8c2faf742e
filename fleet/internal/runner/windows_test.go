package runner

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

func newTestWindows(t *testing.T, rules func(context.Context) (calendar.Rules, error)) *windows {
	_, plan, _, _ := started(t, memory.NewStore(), "")
	return &windows{
		rules: rules, plan: plan, run: "r", poll: time.Minute, patience: 3 * time.Second,
		wake: func() {}, log: slog.New(slog.DiscardHandler), told: newLatest[stages.Calendar](), stop: func() {},
	}
}

// frozen are rules with a freeze that lasts.
func frozen() calendar.Rules {
	return calendar.Rules{Run: calendar.Level{Freezes: []calendar.Freeze{{From: "1999-01-01T00:00:00Z"}}}}
}

// told returns the window of a calendar now.
func told(c stages.Calendar) stages.Window { return c.Window(0, time.Now()) }

// A run begins with the windows that its host reports, and receives each change of the windows
// once.
func TestARunFollowsItsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newTestWindows(t, func(context.Context) (calendar.Rules, error) {
			if time.Since(began) < 15*time.Minute {
				return calendar.Rules{}, nil
			}
			return frozen(), nil
		})
		if first := told(w.open(t.Context())); first.Limited || time.Since(began) != 0 {
			t.Errorf("the first calendar after %v: %+v", time.Since(began), first)
		}
		time.Sleep(14 * time.Minute)
		if c, isNew := w.told.take(); isNew {
			t.Errorf("unchanged windows were told again: %+v", told(c))
		}
		time.Sleep(time.Hour)
		if c, isNew := w.told.take(); !isNew || !told(c).Limited {
			t.Errorf("the changed windows: %v, %t", c, isNew)
		}
		time.Sleep(time.Hour)
		if c, isNew := w.told.take(); isNew {
			t.Errorf("the changed windows were told twice: %+v", told(c))
		}
		w.cancel()
		w.wait()
	})
}

// A run whose windows are not known starts no cluster, and says why. Windows that were known before
// count on while the host fails.
func TestARunWithUnknownWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := newTestWindows(t, func(ctx context.Context) (calendar.Rules, error) {
			switch after := time.Since(began); {
			case after < 5*time.Second:
				time.Sleep(10 * time.Second)
				return calendar.Rules{}, errors.New("timed out")
			case after < time.Hour:
				return calendar.Rules{}, nil
			default:
				return calendar.Rules{}, errors.New("down")
			}
		})
		first := told(w.open(t.Context()))
		if time.Since(began) != w.patience || !first.Limited || first.Reason != notKnown+"the host has not answered yet" {
			t.Errorf("after %v: %+v", time.Since(began), first)
		}
		time.Sleep(10 * time.Second)
		if c, isNew := w.told.take(); !isNew || !told(c).Limited || told(c).Reason != notKnown+"timed out" {
			t.Errorf("after an error: %v, %t", c, isNew)
		}
		time.Sleep(30 * time.Minute)
		if c, isNew := w.told.take(); !isNew || told(c).Limited {
			t.Errorf("after an answer: %v, %t", c, isNew)
		}
		time.Sleep(3 * time.Hour)
		if c, isNew := w.told.take(); isNew {
			t.Errorf("after another error: %+v", told(c))
		}
		w.cancel()
		w.wait()
	})
}
