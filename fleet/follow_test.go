package fleet_test

import (
	"context"
	"encoding/base64"
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

// history returns an environment with finished runs in two placements.
func history(t *testing.T) (*engineEnv, *fleet.Engine) {
	w, e := declared(t, func(p *fleet.Placement) { p.AllowCoOwnership = true })
	other := tutorialPlacement()
	other.Name, other.AllowCoOwnership = ep+"-2", true
	if err := e.PutPlacement(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	stop := running(t, e)
	defer stop()
	for i := range 2 {
		w.capture(e, fmt.Sprint("v", i))
		must(e.Placement(other.Name).Capture(t.Context()))(t)
		spec := specOf(fmt.Sprintf("other-%d", i), i)
		spec.Placement = other.Name
		ranTo(t, e, spec, stages.Completed)
		ranTo(t, e, specOf(fmt.Sprintf("run-%d", i), i), stages.Completed)
		time.Sleep(time.Minute)
	}
	return w, e
}

// follow follows a placement, or all of them if it is "".
func follow(e *fleet.Engine, placement, after string) (*fleet.Follower, error) {
	if placement == "" {
		return e.Follow(after)
	}
	return e.Placement(placement).Follow(after)
}

// collected returns at most n existing events after a cursor.
func collected(t *testing.T, e *fleet.Engine, placement, cursor string, n int) (out []string, next string) {
	t.Helper()
	f := must(follow(e, placement, cursor))(t)
	if n == 0 {
		return nil, f.Cursor()
	}
	for ev, err := range f.Past(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if out = append(out, line(ev)+" "+ev.Placement); len(out) == n {
			break
		}
	}
	return out, f.Cursor()
}

// From the beginning and from every cursor, a follower of everything or of one placement reads
// exactly the remaining events, in the same order.
func TestFollowFromEveryCursor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e := history(t)
		for _, placement := range []string{"", ep, ep + "-2"} {
			all, _ := collected(t, e, placement, "", -1)
			if len(all) < 20 {
				t.Fatalf("%d events of %q", len(all), placement)
			}
			for n := 0; n <= len(all); n += apart(5) {
				first, cursor := collected(t, e, placement, "", n)
				rest, end := collected(t, e, placement, cursor, -1)
				if d := cmp.Diff(all, append(first, rest...)); d != "" {
					t.Fatalf("of %q, interrupted after %d events:\n%s", placement, n, d)
				}
				if more, _ := collected(t, e, placement, end, -1); len(more) != 0 {
					t.Fatalf("after the end of %q there is %v", placement, more)
				}
			}
			for _, l := range all {
				if placement != "" && !strings.HasSuffix(l, " "+placement) {
					t.Errorf("following %s tells %s", placement, l)
				}
			}
		}
	})
}

// live follows until ctx ends and returns the delivered events.
func live(ctx context.Context, t *testing.T, e *fleet.Engine, placement, cursor string) <-chan []string {
	f := must(follow(e, placement, cursor))(t)
	out := make(chan []string, 1)
	go func() {
		var all []string
		for ev, err := range f.Events(ctx) {
			if err != nil && ctx.Err() == nil {
				all = append(all, err.Error())
			}
			if err == nil {
				all = append(all, line(ev)+" "+ev.Placement)
			}
		}
		out <- all
	}()
	return out
}

// perRun groups the events of a live follower by run and placement, because only these are in
// order.
func perRun(all []string) map[string][]string {
	out := map[string][]string{}
	for _, l := range all {
		f := strings.Fields(l)
		key := f[2]
		if f[1] == "RunCreated" || f[1] == "SnapshotTaken" || f[1] == "SelectionChanged" {
			key = "of " + f[len(f)-1]
		}
		out[key] = append(out[key], l)
	}
	return out
}

// Several followers see everything live, each event exactly once. So does a follower whose store
// fails now and then and whose watches end.
func TestFollowLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, nil)
		w.capture(e, "v0")
		stop := running(t, e)
		ctx, cancel := context.WithCancel(t.Context())
		flaky := &flakyStore{Store: w.store}
		flaky.cutWatches.Store(true)
		polled := &hookedStore{w.store, func(string, string) {}}
		followers := []<-chan []string{
			live(ctx, t, e, "", ""), live(ctx, t, e, ep, ""),
			live(ctx, t, w.engine(flaky, "flaky"), "", ""), live(ctx, t, w.engine(polled, "polled"), ep, ""),
		}
		for i := range 3 {
			flaky.down.Store(i == 1)
			ranTo(t, e, specOf(fmt.Sprintf("run-%d", i), 0), stages.Completed)
			time.Sleep(time.Minute)
			w.capture(e, fmt.Sprint("v", i+1))
		}
		flaky.down.Store(false)
		time.Sleep(time.Hour)
		want, _ := collected(t, e, "", "", -1)
		cancel()
		for i, f := range followers {
			if d := cmp.Diff(perRun(want), perRun(<-f)); d != "" {
				t.Errorf("follower %d:\n%s", i, d)
			}
		}
		stop()
	})
}

// A follower at the end of the events waits without constant polling.
func TestFollowerDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := history(t)
		log := &logStore{Store: w.store}
		e := w.engine(log.hooked(), "follows")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		all := <-live(ctx, t, e, "", "")
		if n := log.count("list"); len(all) < 20 || n > 1200 {
			t.Errorf("%d lists for %d events in an hour in which nothing happens", n, len(all))
		}
	})
}

// A long journal is read completely. From a late cursor, only its end is read.
func TestLongJournals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) { p.RunHistory = 200 })
		most := sampled(500)
		for i := range most {
			w.capture(e, fmt.Sprint("v", i))
		}
		f := must(e.Follow(""))(t)
		n, late := 0, ""
		for ev, err := range f.Past(t.Context()) {
			if err != nil || *ev.Index != n {
				t.Fatalf("event %d is %v %v", n, *ev.Index, err)
			}
			if n++; n == most-5 {
				late = f.Cursor()
			}
		}
		pages := len(w.keys("journal/"))
		if n != most || pages < most/25 {
			t.Fatalf("%d events in %d pages", n, pages)
		}
		log := &logStore{Store: w.store}
		rest, _ := collected(t, w.engine(log.hooked(), "late"), "", late, -1)
		if read := log.count("get journal/"); len(rest) != 5 || read > 1 {
			t.Errorf("%d events were read from %d of %d pages", len(rest), read, pages)
		}
	})
}

// An invalid cursor, or a cursor of another placement, is an error.
func TestBadCursors(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v")
	_, other := collected(t, e, ep, "", -1)
	enc := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, cursor := range []string{"x", "!", enc("null"), enc("{}"), enc("7"), enc(`{"r":{"a":-1}}`), enc(`{"r":{"a":"b"}}`), enc(`{"r":null}`), other} {
		if _, err := e.Follow(cursor); err == nil || !strings.Contains(err.Error(), "cursor") {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
	if _, err := e.Placement("No Name").Follow(""); err == nil || !strings.Contains(err.Error(), "placement") {
		t.Errorf("a placement that cannot be: %v", err)
	}
}

// An unreadable record is reported once. The events of other records continue, and its own events
// continue after it becomes readable.
func TestFollowReportsUnreadableRecords(t *testing.T) {
	for what, break_ := range map[string]struct {
		key  string
		edit func(string) string
	}{
		"a newer run": {"run/run-1", newerFormat}, "a damaged run": {"run/run-1", damage},
		"a newer placement": {"placement/" + ep, newerFormat}, "a damaged page": {"journal/", damage},
	} {
		t.Run(strings.ReplaceAll(what, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, e := history(t)
				for i := range 40 { // events enough for a page
					w.capture(e, fmt.Sprint("v", i))
				}
				want, _ := collected(t, e, "", "", -1)
				key := break_.key
				if key == "journal/" {
					key = w.keys("journal/")[0]
				}
				original := dump(t, w.store)[key]
				edit(t, w.store, key, break_.edit)
				ctx, cancel := context.WithCancel(t.Context())
				told := live(ctx, t, e, "", "")
				time.Sleep(time.Hour)
				if key != "journal/" && !strings.HasPrefix(key, "journal/") {
					edit(t, w.store, key, func(string) string { return original })
				}
				time.Sleep(time.Hour)
				cancel()
				all := <-told
				errs := slices.DeleteFunc(slices.Clone(all), func(l string) bool { return !strings.Contains(l, key) })
				if len(errs) != 1 {
					t.Errorf("%s is told as %v", key, errs)
				}
				if missing := len(want) - (len(all) - len(errs)); strings.HasPrefix(key, "journal/") == (missing == 0) {
					t.Errorf("%d events are missing", missing)
				}
			})
		})
	}
}

// The deletion of a run ends its events, and no others.
func TestFollowAcrossADeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := history(t)
		ctx, cancel := context.WithCancel(t.Context())
		told := live(ctx, t, e, "", "")
		synctest.Wait()
		if err := e.Run("run-1").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		cancel()
		if all := <-told; !strings.Contains(all[len(all)-1], "RunDeleted run-1") {
			t.Errorf("the last event is %s", all[len(all)-1])
		}
		if _, cursor := collected(t, e, "", "", -1); len(cursor) > 60*(len(w.keys("run/"))+2) {
			t.Errorf("the cursor has %d characters for %d runs", len(cursor), len(w.keys("run/")))
		}
		if err := e.Run("run-1").Delete(t.Context(), forced); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

// TestRunCreatedPrecedesAllEventsOfTheRun checks the order of events for different clocks of the
// engine that creates the run and the engine that drives it.
func TestRunCreatedPrecedesAllEventsOfTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineEnv(t)
		ahead := func() time.Time { return time.Now().Add(time.Hour) }
		host, engine := w.newEngine(fleet.Config{Name: "host", Clock: ahead}), w.newEngine(fleet.Config{Name: "one"})
		if err := host.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
			t.Fatal(err)
		}
		defer running(t, engine)()
		if s := runTo(t, host, "one", inOneStage()); s.Run.State != stages.Completed {
			t.Fatalf("the run is %s", s.Run.State)
		}
		f, err := host.Follow("")
		if err != nil {
			t.Fatal(err)
		}
		var of []stages.EventType
		for e, err := range f.Past(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Run == "one" {
				of = append(of, e.Type)
			}
		}
		if len(of) < 5 || of[0] != stages.RunCreated || of[1] != stages.RunTaken {
			t.Errorf("the events of the run are %v", of)
		}
	})
}
