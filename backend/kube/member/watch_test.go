package member_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

// sight is a watch and the changes that it saw.
type sight struct {
	t     *testing.T
	signs atomic.Int64
	stop  context.CancelFunc
	ended chan error
}

// watch watches and waits for the first sign.
func watch(t *testing.T, c backend.Conn, ids ...snapshot.ID) *sight {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &sight{t: t, stop: stop, ended: make(chan error, 1)}
	go func() {
		var last error
		for _, err := range c.(backend.ConnWatcher).Watch(ctx, ids) {
			last = err
			s.signs.Add(1)
		}
		s.ended <- last
	}()
	t.Cleanup(stop)
	kubetest.Eventually(t, "the first sign", func() bool { return s.signs.Load() > 0 })
	return s
}

// after performs a change and waits until the watch announces it.
func (s *sight) after(what string, do func()) {
	s.t.Helper()
	before := s.signs.Load()
	do()
	kubetest.Eventually(s.t, "a sign of "+what, func() bool { return s.signs.Load() > before })
}

// counted returns a connection whose requests are counted, and may be spoiled.
func counted(t *testing.T, cfg *rest.Config) (backend.Conn, *kubeenv.Counts, *kubeenv.Faults) {
	t.Helper()
	var counts kubeenv.Counts
	var faults kubeenv.Faults
	cfg.Wrap(counts.Wrap)
	cfg.Wrap(faults.Wrap)
	c, err := member.NewConn(cfg, member.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, &counts, &faults
}

// TestWatchesOfOneConnShareOneForEachKindInANamespace watches the objects of many placements.
func TestWatchesOfOneConnShareOneForEachKindInANamespace(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	c, counts, _ := counted(t, s.Config())
	var ids []snapshot.ID
	for i := range 20 {
		obj := configMap(ns, fmt.Sprint("a", i), "v", "1")
		applied(t, c, obj, backend.Precondition{})
		ids = append(ids, snapshot.IDOf(obj))
	}
	secret := configMap(ns, "s")
	secret.SetKind("Secret")
	applied(t, c, secret, backend.Precondition{})
	counts.Reset()
	sights := []*sight{}
	for i := range 20 {
		sights = append(sights, watch(t, c, ids[i], snapshot.IDOf(secret)))
	}
	if n := counts.Watches(); n != 2 {
		t.Errorf("20 watches of two kinds opened %d, want 2: %v", n, counts.Calls())
	}
	for i, w := range sights {
		w.after("its object", func() { applied(t, c, configMap(ns, fmt.Sprint("a", i), "v", "2"), backend.Precondition{}) })
	}
	for i, w := range sights {
		if n := w.signs.Load(); n > 3 {
			t.Errorf("watch %d told of %d changes, want 1 of its own", i, n-1)
		}
	}
	sights = append(sights, watch(t, c))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for _, w := range sights {
		if err := <-w.ended; err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("a watch of a closed connection ended with %v", err)
		}
	}
	if n := counts.OpenWatches(); n != 0 {
		t.Errorf("%d watches are open after Close", n)
	}
}

// TestWatchIgnoresTheLabelsOfAnObject is about objects that are not there yet, that were
// there before, and whose labels other clients change.
func TestWatchIgnoresTheLabelsOfAnObject(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	c, counts, _ := counted(t, s.Config())
	person := connTo(t, s)
	edit := func(obj *unstructured.Unstructured) {
		if _, err := person.Apply(t.Context(), obj, backend.ApplyOptions{Manager: "person"}); err != nil {
			t.Error(err)
		}
	}
	edit(configMap(ns, "bare", "v", "1"))
	edit(labelled(configMap(ns, "labelled", "v", "1")))
	w := watch(t, c, settingsIn(ns, "bare"), settingsIn(ns, "labelled"), settingsIn(ns, "missing"))
	w.after("a change of what was there", func() { edit(configMap(ns, "bare", "v", "2")) })
	w.after("a creation", func() { edit(configMap(ns, "missing", "v", "1")) })
	w.after("a label being taken", func() { edit(configMap(ns, "labelled", "v", "1")) })
	w.after("a change after that", func() { edit(configMap(ns, "labelled", "v", "2")) })
	w.after("a deletion", func() {
		if err := person.Delete(t.Context(), settingsIn(ns, "labelled"), backend.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if n := counts.Watches(); n != 1 {
		t.Errorf("one watch of three objects of a namespace opened %d: %v", n, counts.Calls())
	}
}

// TestAKindInManyPlacesIsWatchedAsAWhole checks the limit of watches for a member with many
// placements.
func TestAKindInManyPlacesIsWatchedAsAWhole(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	c, counts, _ := counted(t, s.Config())
	namespace := func(name string) snapshot.ID { return snapshot.ID{Version: "v1", Kind: "Namespace", Name: name} }
	for i := range 40 {
		watch(t, c, settingsIn(fmt.Sprint(ns, "-", i), "a"), namespace(fmt.Sprint(ns, "-", i)))
	}
	last := watch(t, c, settingsIn(ns, "a"), namespace(ns+"-last"))
	if n := counts.Watches(); n != 32+1+8+1 {
		t.Errorf("41 watches of two kinds opened %d, want one for each of 32 namespaces and of 8 objects, and two of all: %v", n, counts.Calls())
	}
	last.after("a creation", func() { applied(t, c, configMap(ns, "a"), backend.Precondition{}) })
	last.after("a creation in no namespace", func() {
		applied(t, c, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": ns + "-last"},
		}}, backend.Precondition{})
	})
	if err := c.Delete(t.Context(), namespace(ns+"-last"), backend.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

func settingsIn(namespace, name string) snapshot.ID {
	return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

// TestManyObjectsAreWatchedTogether is about a large placement.
func TestManyObjectsAreWatchedTogether(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	c, counts, _ := counted(t, s.Config())
	var ids []snapshot.ID
	for i := range 100 {
		ids = append(ids, settingsIn(ns, fmt.Sprint("a", i)))
	}
	w := watch(t, c, ids...)
	if n := counts.Watches(); n != 1 {
		t.Errorf("100 objects are watched %d times: %v", n, counts.Calls())
	}
	w.after("a creation", func() { applied(t, c, configMap(ns, "a99"), backend.Precondition{}) })
}

// TestAWatchMissesNothingWhileItIsInterrupted breaks the stream in several ways.
func TestAWatchMissesNothingWhileItIsInterrupted(t *testing.T) {
	s := clusters.Server(t, "one")
	ns := s.Namespace(t)
	c, _, faults := counted(t, s.Config())
	person := connTo(t, s)
	version := 0
	change := func() {
		version++
		applied(t, person, configMap(ns, "a", "v", fmt.Sprint(version)), backend.Precondition{})
	}
	change()
	w := watch(t, c, settingsIn(ns, "a"))
	w.after("a change", change)
	w.after("a change after a cut", func() { faults.CutWatches(); change() })
	w.after("a change that no stream tells", func() {
		struck := faults.Add(kubeenv.Rule{Verb: "watch", Times: 1, Fault: kubeenv.ResetBefore()})
		faults.CutWatches()
		change()
		kubetest.Eventually(t, "the fault", func() bool { return struck() > 0 })
	})
	w.after("a list after 410", func() {
		faults.Add(kubeenv.Rule{Verb: "watch", Times: 1, Fault: kubeenv.Gone()})
		faults.CutWatches()
	})
	w.after("a change after 410", change)
	w.after("a list after 410 in the stream", func() {
		faults.Add(kubeenv.Rule{Verb: "watch", Times: 1, Fault: kubeenv.GoneEvent()})
		faults.CutWatches()
	})
	w.after("a change after 410 in the stream", change)
}

// TestSilentWatchEnds checks that a silent watch ends, so that the engine can
// report an unreachable cluster.
func TestSilentWatchEnds(t *testing.T) {
	s := clusters.Server(t, "one")
	c, _, faults := counted(t, s.Config())
	w := watch(t, c, settingsIn(s.Namespace(t), "a"))
	faults.Add(kubeenv.Rule{Times: -1, Fault: kubeenv.ResetBefore()})
	faults.CutWatches()
	err := <-w.ended
	for _, kind := range []error{nil, backend.ErrNotFound, backend.ErrConflict, backend.ErrPermanent, context.Canceled} {
		if errors.Is(err, kind) {
			t.Errorf("the watch ended with %v, want a transient error", err)
		}
	}
	faults.Heal()
	watch(t, c, settingsIn("default", "a")).stop()
}

// TestAWatchSeesAKindThatComesLater watches an object whose kind is not defined yet.
func TestAWatchSeesAKindThatComesLater(t *testing.T) {
	s := clusters.Server(t, "one")
	c, ns := connTo(t, s), s.Namespace(t)
	group := ns + ".example.com"
	w := watch(t, c, snapshot.IDOf(widget(group, "Widget", ns)), settingsIn(ns, "a"))
	w.after("an object of a new kind", func() {
		applied(t, c, crd(group, "widgets", "Widget"), backend.Precondition{})
		applied(t, c, widget(group, "Widget", ns), backend.Precondition{})
	})
}

// TestAWatchNeedsNoMoreThanTheRightsInItsNamespaces is about a user who may watch one namespace,
// and later none.
func TestAWatchNeedsNoMoreThanTheRightsInItsNamespaces(t *testing.T) {
	s := clusters.Server(t, "one")
	ns, admin := s.Namespace(t), connTo(t, s)
	install(t, admin, []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": map[string]any{"name": "watcher", "namespace": ns},
			"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"list", "watch"}}},
		}},
		{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": map[string]any{"name": "watcher", "namespace": ns},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "watcher"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ns}},
		}},
	})
	applied(t, admin, configMap(ns, "a", "v", "1"), backend.Precondition{})
	c, err := member.NewConn(s.ConfigFor(ns), member.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ended := func(id snapshot.ID) error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		var last error
		for _, err := range c.(backend.ConnWatcher).Watch(ctx, []snapshot.ID{id}) {
			last = err
		}
		return last
	}
	kubetest.Eventually(t, "the rights", func() bool { return errors.Is(ended(settingsIn(ns, "a")), context.DeadlineExceeded) })
	w := watch(t, c, settingsIn(ns, "a"))
	w.after("a change", func() { applied(t, admin, configMap(ns, "a", "v", "2"), backend.Precondition{}) })
	kubetest.Eventually(t, "the permanent error of a watch of another namespace", func() bool {
		return errors.Is(ended(settingsIn("default", "a")), backend.ErrPermanent)
	})
}
