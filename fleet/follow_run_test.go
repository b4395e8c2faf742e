package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// followed holds all that a follower of one run has yielded by its end.
type followed struct {
	events []string
	err    error
	cursor string
}

// last is the type of the last event.
func (f followed) last() string {
	if len(f.events) == 0 {
		return ""
	}
	return strings.Fields(f.events[len(f.events)-1])[1]
}

// followRun follows a run after a cursor until the follower ends.
func followRun(ctx context.Context, t *testing.T, e *fleet.Engine, run, cursor string) <-chan followed {
	f := must(e.Run(run).Follow(cursor))(t)
	out := make(chan followed, 1)
	go func() {
		var got followed
		for ev, err := range f.Events(ctx) {
			if got.err = err; err == nil {
				got.events = append(got.events, line(ev))
			}
		}
		got.cursor = f.Cursor()
		out <- got
	}()
	return out
}

// following returns an environment with a running engine and a snapshot.
func following(t *testing.T) (*engineEnv, *fleet.Engine) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	t.Cleanup(running(t, e))
	return w, e
}

// gatedSpec returns a run with an approval at its end.
func gatedSpec(name string) fleet.RunSpec {
	spec := specOf(name, 0)
	spec.Strategy.Stages[0].After = []stages.Task{{Type: stages.Approval}}
	return spec
}

// answerGate answers the only open request of a run.
func answerGate(t *testing.T, e *fleet.Engine, run string, v approval.Verdict) {
	t.Helper()
	open := must(e.Run(run).Requests(t.Context()))(t)
	if len(open) != 1 {
		t.Fatalf("open requests of %s: %+v", run, open)
	}
	if err := e.Run(run).Command(t.Context(), stages.Command{Verb: stages.Decide, Name: open[0].Name, By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: v}}); err != nil {
		t.Fatal(err)
	}
}

// A follower of one run ends after the last event, when the run has ended and released its
// placement, and not before: not at a gate, and not while the run is stopped.
func TestFollowRunEndsWithTheRun(t *testing.T) {
	for want, end := range map[stages.EventType]func(*testing.T, *fleet.Engine){
		stages.RunCompleted: func(t *testing.T, e *fleet.Engine) { answerGate(t, e, "r", approval.Approve) },
		stages.RunFailed:    func(t *testing.T, e *fleet.Engine) { answerGate(t, e, "r", approval.Reject) },
		stages.RunAborted:   func(t *testing.T, e *fleet.Engine) { command(t, e, "r", stages.Abort) },
		stages.RunSuperseded: func(t *testing.T, e *fleet.Engine) {
			p := tutorialPlacement()
			p.Admission = "Supersede"
			if err := e.PutPlacement(t.Context(), p); err != nil {
				t.Fatal(err)
			}
			create(t, e, specOf("next", 0))
		},
	} {
		t.Run(string(want), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, e := following(t)
				create(t, e, gatedSpec("r"))
				told := followRun(t.Context(), t, e, "r", "")
				time.Sleep(time.Hour)
				command(t, e, "r", stages.Stop)
				time.Sleep(time.Hour)
				command(t, e, "r", stages.Start)
				if len(told) > 0 {
					t.Fatalf("the run waits at its gate, and the follower has ended: %+v", <-told)
				}
				end(t, e)
				got := <-told
				if got.err != nil || got.last() != string(want) {
					t.Errorf("ended by %q, %v, want %s; all: %v", got.last(), got.err, want, got.events)
				}
				if s := must(e.Run("r").Status(t.Context()))(t); !s.Run.IsEnded() || s.Holder != "" {
					t.Errorf("the follower has ended, and the run is %s, driven by %q", s.Run.State, s.Holder)
				}
			})
		})
	}
}

// From the beginning and from every cursor, the follower of a run reads exactly the remaining
// events of the run, and no event of other runs, not even of a run whose name begins with its name.
// If the run has ended, the follower ends at once.
func TestFollowRunFromEveryCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := following(t)
		for _, run := range []string{"web-1", "web", "web-10"} {
			ranTo(t, e, specOf(run, 0), stages.Completed)
		}
		all, _ := collected(t, e, "", "", -1)
		want := slices.DeleteFunc(all, func(l string) bool {
			f := strings.Fields(l)
			return f[1] == string(stages.RunCreated) || f[2] != "web"
		})
		for i, l := range want {
			want[i] = strings.TrimSuffix(l, " "+ep)
		}
		for n := range len(want) + 1 {
			f := must(e.Run("web").Follow(""))(t)
			var got []string
			if n > 0 {
				for ev := range f.Events(t.Context()) {
					if got = append(got, line(ev)); len(got) == n {
						break
					}
				}
			}
			rest := <-followRun(t.Context(), t, e, "web", f.Cursor())
			if d := cmp.Diff(want, append(got, rest.events...)); d != "" || rest.err != nil || len(want) < 5 {
				t.Fatalf("interrupted after %d events: %v\n%s", n, rest.err, d)
			}
		}
	})
}

// A failed run that is started again is followed from the cursor on.
func TestFollowRunThatIsStartedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := following(t)
		w.fleet.Hang("member1", true)
		spec := specOf("r", 0)
		spec.Strategy.Profile, spec.Strategy.ProgressDeadline.Duration = stages.ClusterUpdate, time.Minute
		create(t, e, spec)
		first := <-followRun(t.Context(), t, e, "r", "")
		w.fleet.Hang("member1", false)
		command(t, e, "r", stages.Start)
		again := <-followRun(t.Context(), t, e, "r", first.cursor)
		if first.last() != string(stages.RunFailed) || again.last() != string(stages.RunCompleted) || again.err != nil {
			t.Errorf("at first %v, and then %v", first, again)
		}
		if n := len(again.events); n < 3 || !strings.Contains(again.events[1], string(stages.RunResumed)) {
			t.Errorf("after the cursor: %v", again.events)
		}
	})
}

// The events end with an error that says why, if there is no such run or it is deleted. It makes no
// difference whether the run had events before the deletion, and whether a new run gets its name.
func TestFollowRunOfMissingAndDeletedRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		if got := <-followRun(t.Context(), t, e, "missing", ""); !errors.Is(got.err, backend.ErrNotFound) || !strings.Contains(got.err.Error(), "missing") {
			t.Errorf("a run that does not exist: %v", got.err)
		}
		for _, err := range must(e.Run("missing").Follow(""))(t).Past(t.Context()) {
			if !errors.Is(err, backend.ErrNotFound) {
				t.Errorf("the past of a run that does not exist: %v", err)
			}
		}
		if _, err := e.Run("No Name").Follow(""); err == nil || !strings.Contains(err.Error(), "run") {
			t.Errorf("a run that cannot be: %v", err)
		}
		for _, begun := range []bool{false, true} {
			for _, again := range []bool{false, true} {
				create(t, e, gatedSpec("r"))
				stop := func() {}
				if begun {
					stop = running(t, e)
				}
				told := followRun(t.Context(), t, e, "r", "")
				time.Sleep(time.Minute)
				stop()
				if err := e.Run("r").Delete(t.Context(), forced); err != nil {
					t.Fatal(err)
				}
				if again {
					create(t, e, gatedSpec("r"))
				}
				got := <-told
				if !errors.Is(got.err, backend.ErrNotFound) || begun != (len(got.events) > 0) {
					t.Errorf("begun %v, made again %v: %v after %v", begun, again, got.err, got.events)
				}
				if again {
					if old := <-followRun(t.Context(), t, e, "r", got.cursor); !errors.Is(old.err, backend.ErrNotFound) || len(old.events) > 0 {
						t.Errorf("begun %v: the cursor of the run that was deleted reads %+v", begun, old)
					}
					if err := e.Run("r").Delete(t.Context(), forced); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// A cursor from the follower of something else is an error.
func TestFollowRunWithABadCursor(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	create(t, e, specOf("r", 0))
	create(t, e, specOf("s", 0))
	f := must(e.Run("r").Follow(""))(t)
	_, placement := collected(t, e, ep, "", -1)
	for _, c := range []struct{ run, cursor, want string }{
		{"s", f.Cursor(), "run r"}, {"r", placement, "placement " + ep}, {"r", "x", "cursor"},
	} {
		if _, err := e.Run(c.run).Follow(c.cursor); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("run %s after cursor %q: %v", c.run, c.cursor, err)
		}
	}
	if _, err := e.Placement(ep).Follow(f.Cursor()); err == nil || !strings.Contains(err.Error(), "run r") {
		t.Errorf("placement after the cursor of a run: %v", err)
	}
}

// A second run on the same store, and a second program, follow their own run from its first event,
// whatever the result of earlier runs.
func TestFollowRunBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := following(t)
		create(t, e, gatedSpec("rejected"))
		told := followRun(t.Context(), t, e, "rejected", "")
		time.Sleep(time.Hour)
		answerGate(t, e, "rejected", approval.Reject)
		<-told
		for i := range 3 {
			name := fmt.Sprint("run-", i)
			create(t, e, gatedSpec(name))
			told := followRun(t.Context(), t, w.engine(w.store, "host"), name, "")
			time.Sleep(time.Hour)
			answerGate(t, e, name, approval.Approve)
			got := <-told
			if got.err != nil || got.last() != string(stages.RunCompleted) {
				t.Errorf("%s ended by %q, %v", name, got.last(), got.err)
			}
			for _, l := range got.events {
				if strings.Fields(l)[2] != name {
					t.Errorf("following %s yields %s", name, l)
				}
			}
		}
	})
}

// The follower of a run waits while the store fails, yields each event once, polls a store that
// cannot be watched, and ends with ctx.
func TestFollowRunOnStoresOfAllKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := following(t)
		create(t, e, gatedSpec("r"))
		flaky, polled := &flakyStore{Store: w.store}, &hookedStore{w.store, func(string, string) {}}
		flaky.down.Store(true)
		flaky.cutWatches.Store(true)
		told := []<-chan followed{
			followRun(t.Context(), t, e, "r", ""),
			followRun(t.Context(), t, w.engine(flaky, "flaky"), "r", ""),
			followRun(t.Context(), t, w.engine(polled, "polled"), "r", ""),
		}
		time.Sleep(time.Hour)
		flaky.down.Store(false)
		time.Sleep(time.Hour)
		flaky.down.Store(true)
		answerGate(t, e, "r", approval.Approve)
		time.Sleep(time.Hour)
		flaky.down.Store(false)
		want := <-told[0]
		for i, other := range told[1:] {
			got := <-other
			if d := cmp.Diff(want.events, got.events); d != "" || got.err != nil || got.last() != string(stages.RunCompleted) {
				t.Errorf("follower %d: %v\n%s", i+1, got.err, d)
			}
		}
		create(t, e, gatedSpec("s"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if got := <-followRun(ctx, t, e, "s", ""); !errors.Is(got.err, context.DeadlineExceeded) {
			t.Errorf("a run that does not end: %+v", got)
		}
	})
}

// The follower of a run without new events waits without constant polling.
func TestFollowRunDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		create(t, e, specOf("r", 0))
		log := &logStore{Store: w.store}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		<-followRun(ctx, t, w.engine(log.hooked(), "follows"), "r", "")
		if n := log.count(""); n > 600 {
			t.Errorf("%d calls in an hour in which nothing happens", n)
		}
	})
}

// An unreadable record of a run is reported once, and the events continue after it becomes
// readable.
func TestFollowRunReportsAnUnreadableRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		create(t, e, specOf("r", 0))
		stop := running(t, e)
		endOf(t, e, "r")
		stop()
		original := dump(t, w.store)["run/r"]
		edit(t, w.store, "run/r", newerFormat)
		f := must(e.Run("r").Follow(""))(t)
		var lines, errs []string
		for ev, err := range f.Events(t.Context()) {
			if err != nil {
				if errs = append(errs, err.Error()); len(errs) == 1 {
					time.AfterFunc(time.Hour, func() { edit(t, w.store, "run/r", func(string) string { return original }) })
				}
				continue
			}
			lines = append(lines, string(ev.Type))
		}
		if len(errs) != 1 || !strings.Contains(errs[0], "run/r") || len(lines) == 0 || lines[len(lines)-1] != string(stages.RunCompleted) {
			t.Errorf("errors %v, events %v", errs, lines)
		}
	})
}
