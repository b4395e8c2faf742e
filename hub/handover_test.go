package hub_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/hub"
)

// interrupted is the store of a hub that loses the lead in the middle of a write. Instead of
// writing it calls the function meanwhile.
type interrupted struct {
	backend.Store
	prefix    string
	meanwhile func()
}

func (s *interrupted) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	if do := s.meanwhile; do != nil && strings.HasPrefix(key, s.prefix) {
		s.meanwhile = nil
		do()
		return "", fmt.Errorf("put %s: %w", key, context.Canceled)
	}
	return s.Store.Put(ctx, key, value, prev)
}

// A hub loses its lead while it begins a run, and removes its record. The next hub has seen the
// removal, and begins the run nevertheless, because no user withdrew it.
func TestRunRemovedByAnEarlierHubIsStarted(t *testing.T) {
	s := newStale(t)
	way := &interrupted{Store: s.store, prefix: "placement/"}
	before := staleOn(s.hubEnv, "before", s.store, way)
	s.place("v1")
	s.staged("")
	s.sync("crp", s.name, s.SyncPlacement)
	before.sync("crp", s.name, before.SyncPlacement)
	// the hub before takes no snapshot, and only records the run
	if _, err := s.engine.Placement(s.name).Capture(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := s.runOf(s.name, "")
	run.Object["spec"].(map[string]any)["state"] = "Initialize"
	s.create(run)
	looks := 0
	way.meanwhile = func() {
		for range 3 {
			s.seen("csur", s.name)
			if err := s.SyncRun(t.Context(), s.name); err != nil {
				t.Errorf("the next hub: %v", err)
			}
			looks++
		}
	}
	s.eventually("the hub before to lose its lead", func() error {
		before.seen("csur", s.name)
		err := before.SyncRun(t.Context(), s.name)
		if looks == 0 {
			return fmt.Errorf("it has it: %w", err)
		}
		return nil
	})
	if _, err := s.engine.Run(s.name).Status(t.Context()); err == nil {
		t.Error("the hub before did not take back what it had recorded: the test does not test enough")
	}
	s.eventually("the run to be begun", func() error {
		s.seen("csur", s.name)
		if err := s.SyncRun(t.Context(), s.name); err != nil {
			return err
		}
		return s.condition("csur", s.name, "Initialized", "True")
	})
}

// TestARunThatHasEndedIsNotBegunAgain: a hub without the records of its predecessor, as after a
// give-back, does not begin runs that have ended by their status. It reports that, and rolls out a
// new run.
func TestARunThatHasEndedIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 1)
	one := w.start("one")
	w.place("v1")
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.await("csur", w.name, "Succeeded", "True")
	w.end(one)
	w.change("v2")
	w.patch("csur", w.name, `{"metadata":{"annotations":{"slipway.dev/run-uid":null,"slipway.dev/seal":null},"finalizers":null}}`)
	before, err := w.at("csur").Get(t.Context(), w.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	two := w.start("two", func(c *hub.Config) { c.Store = memory.NewStore() })
	w.eventually("the hub to say so", func() error {
		list, err := w.kube.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + w.name + ",reason=RunNotBegun"})
		if err == nil && len(list.Items) != 1 {
			err = fmt.Errorf("there are %d Events", len(list.Items))
		}
		return err
	})
	time.Sleep(2 * time.Second)
	if names, err := two.Engine().Placement(w.name).RunNames(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("the engine has the runs %v: %v", names, err)
	}
	if err := w.holds(w.members[0], "v1"); err != nil {
		t.Error(err)
	}
	after, err := w.at("csur").Get(t.Context(), w.name, metav1.GetOptions{})
	if err != nil || !reflect.DeepEqual(before.Object["status"], after.Object["status"]) {
		t.Errorf("the status was %v, and is %v: %v", before.Object["status"], after.Object["status"], err)
	}
}
