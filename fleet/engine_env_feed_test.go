package fleet_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// feed reads all events of a store from the beginning, either live or by occasional polls, which
// are cheaper.
type feed struct {
	t        *testing.T
	follower *fleet.Follower
	events   []stages.Event
	more     chan stages.Event // nil if not live
	stop     context.CancelFunc
}

func (w *engineEnv) follow(live bool) *feed {
	f, err := w.newEngine(fleet.Config{Name: "observer"}).Follow("")
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	fd := &feed{t: w.t, follower: f, stop: cancel}
	if live {
		fd.more = make(chan stages.Event)
		go fd.pump(ctx)
	}
	return fd
}

func (f *feed) pump(ctx context.Context) {
	defer close(f.more)
	for ev, err := range f.follower.Events(ctx) {
		if err != nil {
			return
		}
		select {
		case f.more <- ev:
		case <-ctx.Done():
			return
		}
	}
}

// read reads new events and reports whether there were any.
func (f *feed) read() bool {
	n := len(f.events)
	if f.more == nil {
		for ev, err := range f.follower.Past(f.t.Context()) {
			if err != nil {
				f.t.Fatal(err)
			}
			f.events = append(f.events, ev)
		}
		return len(f.events) > n
	}
	for {
		synctest.Wait()
		select {
		case ev, ok := <-f.more:
			if !ok {
				return len(f.events) > n
			}
			f.events = append(f.events, ev)
		default:
			return len(f.events) > n
		}
	}
}

// wait waits until there may be more events, or until late.
func (f *feed) wait(pause time.Duration, late <-chan time.Time) bool {
	tick := time.NewTimer(pause)
	defer tick.Stop()
	select {
	case ev, ok := <-f.more:
		if ok {
			f.events = append(f.events, ev)
		}
		return ok
	case <-tick.C:
		return true
	case <-late:
		return false
	}
}

// patience is the longest wait of a test for an expected event.
const patience = 6 * time.Hour

// await returns the first past or future event that matches.
func (f *feed) await(what string, match func(stages.Event) bool) stages.Event {
	f.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for pause := time.Millisecond; ; pause = min(2*pause, time.Minute) {
		if f.read() {
			pause = time.Millisecond
		}
		if i := slices.IndexFunc(f.events, match); i >= 0 {
			return f.events[i]
		}
		if f.more != nil {
			pause = patience
		}
		if !f.wait(pause, late.C) {
			f.t.Fatalf("waited in vain until %s; the events are\n%s", what, f)
		}
	}
}

// of waits for an event of a run and returns it.
func (f *feed) of(run string, types ...stages.EventType) stages.Event {
	f.t.Helper()
	return f.await(fmt.Sprintf("%v of run %s", types, run), func(ev stages.Event) bool {
		return ev.Run == run && slices.Contains(types, ev.Type)
	})
}

var endings = []stages.EventType{stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded}

// end waits for the end of a run.
func (f *feed) end(run string) stages.Event {
	f.t.Helper()
	return f.of(run, endings...)
}

func (f *feed) String() string {
	var b strings.Builder
	for _, ev := range f.events {
		fmt.Fprintln(&b, line(ev))
	}
	return b.String()
}

func line(ev stages.Event) string {
	return strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s %s %d %d %s", ev.Time.Format("15:04:05.000"), ev.Type, ev.Run, ev.Stage, ev.Cluster, ev.By, ev.Attempt, ev.Epoch, ev.Message)), " ")
}
