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

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// endOfWait is the result of RunHandle.Wait.
type endOfWait struct {
	status fleet.Status
	err    error
}

// waitFor waits for a run until RunHandle.Wait returns.
func waitFor(ctx context.Context, e *fleet.Engine, run string) <-chan endOfWait {
	out := make(chan endOfWait, 1)
	go func() {
		s, err := e.Run(run).Wait(ctx)
		out <- endOfWait{s, err}
	}()
	return out
}

// typesOf returns the types of the events of a run among lines.
func typesOf(lines []string, run string) (out []string) {
	for _, l := range lines {
		if f := strings.Fields(l); f[2] == run {
			out = append(out, f[1])
		}
	}
	return out
}

// The events of a run, and Wait for it, end only after its rollback has ended: when a host returns
// then, no cluster has the change any more. This holds for each way to request a rollback, for each
// name of the rollback, for a rollback that fails, and for one that is refused.
func TestFollowRunEndsWithTheRollback(t *testing.T) {
	named := func(run, title string, n int) string { return fmt.Sprintf("back-%d.%s", n, run) }
	for name, c := range map[string]struct {
		names func(run, title string, n int) string
		// before prepares the clusters, and ask requests a rollback of the unfinished run r1.
		before func(t *testing.T, w *engineEnv, e *fleet.Engine)
		ask    func(t *testing.T, e *fleet.Engine) error
		by     string
		end    stages.EventType
		values map[string]string
	}{
		"a failed cluster":   {by: "r1-rollback", end: stages.RunCompleted, values: everywhere("v0")},
		"a name of the host": {names: named, by: "back-1.r1", end: stages.RunCompleted, values: everywhere("v0")},
		"a command with a name": {
			before: func(_ *testing.T, w *engineEnv, _ *fleet.Engine) { w.fleet.Hang("s2a", true) },
			ask: func(t *testing.T, e *fleet.Engine) error {
				_, err := e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{Name: "undo"})
				return err
			},
			by: "undo", end: stages.RunCompleted,
		},
		"a rollback that fails": {
			before: func(_ *testing.T, w *engineEnv, _ *fleet.Engine) { w.failsAt("s1a", "v0") },
			by:     "r1-rollback", end: stages.RunFailed,
		},
		"a rollback that is refused": {
			before: func(t *testing.T, _ *engineEnv, e *fleet.Engine) {
				must(0, e.Placement(ep).SetIrreversible(t.Context(), 1, true, "ann"))(t)
			},
			end: stages.RollbackRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := rollingNamed(t, c.names)
				ranTo(t, e, inAll("r0"), stages.Completed)
				w.failsAt("s2a", "v1")
				w.holds("v1")
				w.capture(e, "v1")
				if c.before != nil {
					c.before(t, w, e)
				}
				create(t, e, inAll("r1"))
				told := []<-chan followed{
					followRun(t.Context(), t, e, "r1", ""),
					followRun(t.Context(), t, w.engine(w.store, "host"), "r1", ""),
					followRun(t.Context(), t, w.engine(&hookedStore{w.store, func(string, string) {}}, "polls"), "r1", ""),
				}
				ended := waitFor(t.Context(), w.engine(w.store, "waits"), "r1")
				if c.ask != nil {
					time.Sleep(time.Minute)
					if err := c.ask(t, e); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					w.fleet.Hang("s2a", false)
				}
				got := <-ended
				if got.err != nil || got.status.Run.Name != "r1" || got.status.Run.State != stages.Failed {
					t.Errorf("waited for %s, which is %s: %v", got.status.Run.Name, got.status.Run.State, got.err)
				}
				back := must(e.Run("r1").RollbackStatus(t.Context()))(t)
				if back.By != c.by || back.Pending || c.by != "" && back.State != stages.Completed && back.State != stages.Failed {
					t.Errorf("the rollback is %+v", back)
				}
				if c.values != nil {
					wantValues(t, w, c.values)
				}
				for i := range told {
					f := <-told[i]
					if f.err != nil {
						t.Fatal(f.err)
					}
					own, theirs := typesOf(f.events, "r1"), typesOf(f.events, c.by)
					if !slices.Contains(own, string(stages.RunFailed)) {
						t.Errorf("follower %d: events of r1: %q", i, own)
					}
					if c.by != "" && (len(theirs) < 3 || theirs[len(theirs)-1] != string(c.end) || len(own)+len(theirs) != len(f.events)) {
						t.Errorf("follower %d: events of %s: %q", i, c.by, theirs)
					}
					again := <-followRun(t.Context(), t, e, "r1", f.cursor)
					if len(again.events) > 0 || again.err != nil {
						t.Errorf("after the last cursor: %+v", again)
					}
				}
			})
		})
	}
}

// From every cursor, the follower of a run reads exactly the remaining events of the run and of its
// rollback.
func TestFollowRunFromEveryCursorOfARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, nil)
		ranTo(t, e, inAll("r0"), stages.Completed)
		w.failsAt("s2a", "v1")
		w.holds("v1")
		create(t, e, inAll("r1"))
		all := <-followRun(t.Context(), t, e, "r1", "")
		if all.err != nil || len(typesOf(all.events, "r1")) < 5 || len(typesOf(all.events, "r1-rollback")) < 5 {
			t.Fatalf("%+v", all)
		}
		for n := range all.events {
			f := must(e.Run("r1").Follow(""))(t)
			var got []string
			for ev := range f.Events(t.Context()) {
				if got = append(got, line(ev)); len(got) == n+1 {
					break
				}
			}
			rest := <-followRun(t.Context(), t, e, "r1", f.Cursor())
			if d := cmp.Diff(all.events, append(got, rest.events...)); d != "" || rest.err != nil {
				t.Fatalf("interrupted after %d events: %v\n%s", n+1, rest.err, d)
			}
		}
	})
}

// stoppedRollback returns a run r1 whose rollback was stopped in the middle.
func stoppedRollback(t *testing.T) (*engineEnv, *fleet.Engine) {
	w, e := rolling(t, nil)
	ranTo(t, e, inAll("r0"), stages.Completed)
	w.failsAt("s2a", "v1")
	w.failsAt("s1a", "v0")
	w.holds("v1")
	patient := inAll("r1")
	patient.Strategy.Attempts = 0
	create(t, e, patient)
	time.Sleep(time.Minute)
	must(e.Run("r1").Rollback(t.Context(), fleet.RollbackOptions{}))(t)
	time.Sleep(time.Minute)
	command(t, e, "r1-rollback", stages.Stop)
	if s := must(e.Run("r1-rollback").Status(t.Context()))(t); s.Run.IsEnded() {
		t.Fatalf("the rollback is %s", s.Run.State)
	}
	w.fleet.Cluster("s1a").Refuse(nil)
	return w, e
}

// A stopped rollback has not ended. A follower waits for it without constant polling, until it is
// started again or deleted.
func TestAStoppedRollbackIsWaitedFor(t *testing.T) {
	for end, change := range map[string]func(*testing.T, *fleet.Engine) error{
		"started": func(t *testing.T, e *fleet.Engine) error {
			return e.Run("r1-rollback").Command(t.Context(), stages.Command{Verb: stages.Start})
		},
		"deleted": func(t *testing.T, e *fleet.Engine) error { return e.Run("r1-rollback").Delete(t.Context(), forced) },
	} {
		t.Run(end, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := stoppedRollback(t)
				log := &logStore{Store: w.store}
				host := w.engine(log.hooked(), "host")
				told, ended := followRun(t.Context(), t, host, "r1", ""), waitFor(t.Context(), host, "r1")
				time.Sleep(time.Hour)
				if len(told) > 0 || len(ended) > 0 {
					t.Fatal("the rollback is stopped, and is not waited for")
				}
				if n := log.count(""); n > 12_000 { // two watches that poll each second, because the lease is renewed
					t.Errorf("%d calls in an hour in which nothing happens", n)
				}
				if err := change(t, e); err != nil {
					t.Fatal(err)
				}
				if got := <-ended; got.err != nil {
					t.Error(got.err)
				}
				if got := <-told; got.err != nil {
					t.Error(got.err)
				}
			})
		})
	}
}

// If a run is deleted during its rollback, its events end with an error, and Wait returns without
// one, because the run has ended.
func TestARunThatIsDeletedWhileItIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := stoppedRollback(t)
		told, ended := followRun(t.Context(), t, e, "r1", ""), waitFor(t.Context(), e, "r1")
		time.Sleep(time.Minute)
		if err := e.Run("r1").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		if got := <-told; !errors.Is(got.err, backend.ErrNotFound) {
			t.Errorf("the events end with %v", got.err)
		}
		command(t, e, "r1-rollback", stages.Start)
		if got := <-ended; got.err != nil || got.status.Run.State != stages.Failed {
			t.Errorf("waited for %s, %v", got.status.Run.State, got.err)
		}
	})
}

// An unreadable rollback is reported once, and followed after it becomes readable.
func TestFollowRunReportsAnUnreadableRollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := rolling(t, nil)
		ranTo(t, e, inAll("r0"), stages.Completed)
		w.failsAt("s2a", "v1")
		w.holds("v1")
		create(t, e, inAll("r1"))
		endOf(t, e, "r1")
		time.Sleep(time.Minute)
		original := dump(t, w.store)["run/r1-rollback"]
		edit(t, w.store, "run/r1-rollback", newerFormat)
		host := w.engine(w.store, "host")
		f := must(host.Run("r1").Follow(""))(t)
		var lines, errs []string
		for ev, err := range f.Events(t.Context()) {
			if err != nil {
				if errs = append(errs, err.Error()); len(errs) == 1 {
					time.AfterFunc(time.Hour, func() { edit(t, w.store, "run/r1-rollback", func(string) string { return original }) })
				}
				continue
			}
			lines = append(lines, line(ev))
		}
		theirs := typesOf(lines, "r1-rollback")
		if len(errs) != 1 || !strings.Contains(errs[0], "run/r1-rollback") || len(theirs) == 0 || theirs[len(theirs)-1] != string(stages.RunCompleted) {
			t.Errorf("errors %v, events of the rollback %v", errs, theirs)
		}
	})
}
