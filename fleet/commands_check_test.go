package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// atApproval calls do for a run that waits for two approvals by sre after its only stage: once
// while an engine drives it, and once after that engine has stopped.
func atApproval(t *testing.T, do func(t *testing.T, w *engineEnv, e *fleet.Engine)) {
	t.Helper()
	for name, live := range map[string]bool{"an engine": true, "no engine": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSmallEnv(t, 2)
				e := w.newEngine(fleet.Config{})
				w.declare(e, smallPlacement("web"))
				two := approval.Policy{Quorums: []approval.Quorum{{Group: "sre", Count: 2}}}
				w.create(e, fleet.RunSpec{Name: "r", Placement: "web", Strategy: allAtOnce(1, stages.Task{Type: stages.Approval, Approval: &two})})
				stop := running(t, e)
				time.Sleep(time.Minute)
				if live {
					defer stop()
				} else {
					stop()
				}
				do(t, w, e)
				settle()
				if n := w.happened("r", stages.CommandRefused); n != 0 {
					t.Errorf("%d commands were stored and refused by the engine", n)
				}
			})
		})
	}
}

// A command that does not fit the plan or the state of the run is refused before it is stored, with
// and without an engine.
func TestACommandThatDoesNotFit(t *testing.T) {
	atApproval(t, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		for want, c := range map[string]stages.Command{
			"the plan has no stage nope (all)":          {Verb: stages.Skip, Scope: stages.SkipStage, Name: "nope"},
			"the plan has no cluster nope (c00, c01)":   {Verb: stages.Skip, Scope: stages.SkipCluster, Name: "nope"},
			"cluster c00 has ended already":             {Verb: stages.Skip, Scope: stages.SkipCluster, Name: "c00"},
			"the plan has no group nope (no stage has ": {Verb: stages.Skip, Scope: stages.SkipGroup, Name: "nope"},
			"stage all has no wait after it":            {Verb: stages.Skip, Scope: stages.SkipAfterWait, Name: "all"},
			"has no failed or skipped clusters":         {Verb: stages.Retry},
			"no scheduled start is open before all":     {Verb: stages.CompleteGate, Name: "all"},
			"7 days at most":                            {Verb: stages.BypassWindows, Message: "now", Until: time.Now().Add(30 * 24 * time.Hour)},
		} {
			for door, send := range map[string]func(stages.Command) error{
				"Command":      func(c stages.Command) error { return e.Run("r").Command(t.Context(), c) },
				"CheckCommand": func(c stages.Command) error { return e.Run("r").CheckCommand(t.Context(), c) },
			} {
				err := send(c)
				refused, is := errors.AsType[*stages.RefusedError](err)
				if !is || refused.State != stages.Running || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "run r: ") {
					t.Errorf("%s %s: %v, want %q", door, c.Verb, err, want)
				}
			}
		}
		if n := len(w.keys("command/")); n != 0 {
			t.Errorf("%d refused commands are stored", n)
		}
	})
}

// A person decides once, also if the first decision is stored and no engine has executed it, and if
// the decisions are sent at the same time. A decision after the last missing one is refused, too.
func TestASecondDecision(t *testing.T) {
	decide := func(t *testing.T, e *fleet.Engine, id, name string) error {
		return e.Run("r").Command(t.Context(), stages.Command{
			ID: id, Verb: stages.Decide, Name: "r-after-all", By: approval.Identity{Name: name, Groups: []string{"sre"}}, Decision: &approval.Decision{Verdict: approval.Approve},
		})
	}
	atApproval(t, func(t *testing.T, w *engineEnv, e *fleet.Engine) {
		slow := faulty.NewPlan(faulty.On(func(c faulty.Call) bool {
			if c.Op == "put" && strings.HasPrefix(c.Key, "command/") {
				time.Sleep(time.Second)
			}
			return false
		}, faulty.Before(nil)))
		e = w.newEngine(fleet.Config{Name: "host", Store: slow.Store(w.store)})
		var all sync.WaitGroup
		errs := make([]error, 5)
		for i := range errs {
			all.Go(func() { errs[i] = decide(t, e, fmt.Sprint("ann-", i), "ann") })
		}
		all.Wait()
		accepted := 0
		for _, err := range errs {
			if err == nil {
				accepted++
			} else if !errors.Is(err, approval.ErrRefused) || !strings.Contains(err.Error(), "the same identity has decided already") {
				t.Error(err)
			}
		}
		if accepted != 1 {
			t.Errorf("%d of ann's decisions are accepted, want 1", accepted)
		}
		if err := decide(t, e, "joe", "joe"); err != nil {
			t.Error(err)
		}
		if err := decide(t, e, "joe", "joe"); err != nil && !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("the same decision once more: %v", err)
		}
		if err := decide(t, e, "eve", "eve"); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("a decision after the last one: %v", err)
		}
	})
}

// A command that is slow to be stored delays no command to another run.
func TestASlowCommandDelaysNoOtherRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 2)
		slow := faulty.NewPlan(faulty.On(func(c faulty.Call) bool {
			if c.Op == "put" && strings.HasPrefix(c.Key, "command/") {
				time.Sleep(time.Second)
			}
			return false
		}, faulty.Before(nil)))
		e := w.newEngine(fleet.Config{Store: slow.Store(w.store)})
		w.declare(e, smallPlacement("web"))
		for _, run := range []string{"a", "b"} {
			w.create(e, fleet.RunSpec{Name: run, Placement: "web", Strategy: allAtOnce(1)})
		}
		begun := time.Now()
		var both sync.WaitGroup
		for _, run := range []string{"a", "b"} {
			both.Go(func() { must(0, e.Run(run).Command(t.Context(), stages.Command{Verb: stages.Abort}))(t) })
		}
		both.Wait()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("commands to two runs take %s, want 1s", took)
		}
	})
}

// The commands that no engine has executed count as executed, a command with the ID of a stored one
// is accepted again, and Recorded lists the stored commands.
func TestCommandsWithoutAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 1)
		w.refusing("c00", true)
		e := w.newEngine(fleet.Config{})
		w.declare(e, smallPlacement("web"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "web", Strategy: startable()})
		stop := running(t, e)
		w.within(time.Minute, "r", stages.Failed)
		stop()
		send := func(id string, verb stages.Verb) error {
			time.Sleep(time.Second)
			return e.Run("r").Command(t.Context(), stages.Command{ID: id, Verb: verb, By: approval.Identity{Name: "ann"}})
		}
		for _, c := range []struct {
			id   string
			verb stages.Verb
			want string
		}{
			{"a", stages.Stop, "the run has failed"},
			{"b", stages.Start, ""},
			{"c", stages.Stop, ""},
			{"b", stages.Start, ""},
			{"d", stages.Stop, "it has been stopped already"},
			{"b", stages.Stop, "it was given to another command before"},
			{"e", stages.Abort, ""},
			{"f", stages.Retry, "command Retry is refused: the run has ended as Aborted; a catch-up run updates the clusters that it has not updated (after the recorded commands start by ann, stop by ann, abort by ann)"},
		} {
			if err := send(c.id, c.verb); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s %s: %v, want %q", c.id, c.verb, err, c.want)
			}
		}
		var got []string
		for _, c := range must(e.Run("r").Recorded(t.Context()))(t) {
			got = append(got, step.CommandText(&c))
		}
		if want := "start by ann, stop by ann, abort by ann"; strings.Join(got, ", ") != want {
			t.Errorf("recorded are %q, want %q", got, want)
		}
		w.refusing("c00", false)
		defer running(t, e)()
		settle()
		w.stateIs(e, "r", stages.Aborted)
		if n := len(must(e.Run("r").Recorded(t.Context()))(t)); n != 0 {
			t.Errorf("%d commands are recorded after the engine has executed them", n)
		}
	})
}
