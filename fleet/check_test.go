package fleet_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
)

// A store that an engine has written is read whole, and each record that is damaged is named by the one that needs it.
func TestCheckNamesWhatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSmallEnv(t, 3)
		e := w.newEngine(fleet.Config{Name: "A"})
		w.declare(e, smallPlacement("p"))
		w.create(e, fleet.RunSpec{Name: "r", Placement: "p", Strategy: allAtOnce(2)})
		stop := running(t, e)
		w.wait("r")
		stop()
		for _, unreadable := range w.check() {
			t.Errorf("%s: %v", unreadable.Record, unreadable.Err)
		}
		for record, err := range w.store.List(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			kind, _, _ := strings.Cut(record.Key, "/")
			want, is := map[string]string{"placement": "placement/p", "run": "run/r", "plan": "run/r", "content": "placement/p"}[kind]
			if !is {
				continue
			}
			damaged := w.replace(record.Key, record.Revision, []byte("{"))
			if found := w.check(); !slices.ContainsFunc(found, func(u fleet.Unreadable) bool { return u.Record == want }) {
				t.Errorf("with %s damaged: %v", record.Key, found)
			}
			w.replace(record.Key, damaged, record.Value)
		}
		if err := e.DeleteRun(t.Context(), "r", fleet.DeleteRunOptions{}); err != nil {
			t.Fatal(err)
		}
		if found := w.check(); len(found) != 0 {
			t.Errorf("after a run was deleted: %v", found)
		}
	})
}

func (w *engineEnv) check() []fleet.Unreadable {
	w.t.Helper()
	found, err := w.newEngine(fleet.Config{Name: "check"}).Check(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func (w *engineEnv) replace(key string, at backend.Revision, value []byte) backend.Revision {
	w.t.Helper()
	at, err := w.store.Put(w.t.Context(), key, value, at)
	if err != nil {
		w.t.Fatal(err)
	}
	return at
}
