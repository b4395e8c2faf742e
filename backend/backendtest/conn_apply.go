package backendtest

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// otherUID is a uid that no object has.
const otherUID = "00000000-0000-4000-8000-000000000000"

func getMissingObject(ctx context.Context, s subject) error { return s.missing(ctx) }

func applyCreate(ctx context.Context, s subject) error {
	obj, err := s.applied(ctx, one, "a", "1")
	if err != nil {
		return err
	}
	if err := hasData(obj, "a", "1"); err != nil {
		return err
	}
	got, err := s.conn.Get(ctx, s.id)
	if err != nil {
		return err
	}
	if precondition(got) != precondition(obj) {
		return fmt.Errorf("Get says %v, Apply returned %v", precondition(got), precondition(obj))
	}
	return hasData(got, "a", "1")
}

func applyBrief(ctx context.Context, s subject) error {
	obj, err := s.conn.Apply(ctx, s.configMap("a", "1"), backend.ApplyOptions{Manager: one, Brief: true})
	if err != nil {
		return err
	}
	got, err := s.conn.Get(ctx, s.id)
	if err != nil {
		return err
	}
	if snapshot.IDOf(obj) != s.id || precondition(got) != precondition(obj) {
		return fmt.Errorf("Get says %v %v, Apply returned %v %v", s.id, precondition(got), snapshot.IDOf(obj), precondition(obj))
	}
	return s.holds(ctx, "a", "1")
}

func applyAbsent(ctx context.Context, s subject) error {
	absent := backend.Precondition{Absent: true}
	if _, err := s.apply(ctx, one, absent, "a", "1"); err != nil {
		return fmt.Errorf("apply what is absent: %w", err)
	}
	_, err := s.apply(ctx, one, absent, "a", "2")
	return errors.Join(want("apply what exists", err, backend.ErrConflict), s.holds(ctx, "a", "1"))
}

func applyUID(ctx context.Context, s subject) error {
	obj, err := s.applied(ctx, one, "a", "1")
	if err != nil {
		return err
	}
	_, err = s.apply(ctx, one, backend.Precondition{UID: otherUID}, "a", "2")
	if err := errors.Join(want("apply with another uid", err, backend.ErrConflict), s.holds(ctx, "a", "1")); err != nil {
		return err
	}
	if _, err := s.apply(ctx, one, backend.Precondition{UID: string(obj.GetUID())}, "a", "3"); err != nil {
		return fmt.Errorf("apply with the uid: %w", err)
	}
	return s.holds(ctx, "a", "3")
}

func applyVersion(ctx context.Context, s subject) error {
	old, err := s.applied(ctx, one, "a", "1")
	if err != nil {
		return err
	}
	if _, err := s.apply(ctx, one, precondition(old), "a", "2"); err != nil {
		return fmt.Errorf("apply with the resourceVersion: %w", err)
	}
	_, err = s.apply(ctx, one, backend.Precondition{ResourceVersion: old.GetResourceVersion()}, "a", "3")
	return errors.Join(want("apply with a stale resourceVersion", err, backend.ErrConflict), s.holds(ctx, "a", "2"))
}

func applyMissing(ctx context.Context, s subject) error {
	var errs []error
	for _, p := range []backend.Precondition{{UID: otherUID}, {ResourceVersion: "1"}, {UID: otherUID, ResourceVersion: "1"}} {
		_, err := s.apply(ctx, one, p, "a", "1")
		errs = append(errs, want(fmt.Sprintf("apply what is missing with %+v", p), err, backend.ErrConflict), s.missing(ctx))
	}
	return errors.Join(errs...)
}

func applyUnchanged(ctx context.Context, s subject) error {
	first, err := s.applied(ctx, one, "a", "1")
	if err != nil {
		return err
	}
	second, err := s.applied(ctx, one, "a", "1")
	if err != nil {
		return err
	}
	if precondition(first) != precondition(second) {
		return fmt.Errorf("the object went from %v to %v", precondition(first), precondition(second))
	}
	third, err := s.applied(ctx, one, "a", "2")
	if err == nil && third.GetResourceVersion() == second.GetResourceVersion() {
		err = errors.New("an apply that changes something keeps the resourceVersion")
	}
	return err
}

func applyPrivate(ctx context.Context, s subject) error {
	obj := s.configMap("a", "1")
	before := obj.DeepCopy()
	returned, err := s.conn.Apply(ctx, obj, backend.ApplyOptions{Manager: one})
	if err != nil {
		return err
	}
	scribble(returned)
	if fmt.Sprint(obj.Object) != fmt.Sprint(before.Object) {
		return errors.New("Apply changed its argument, or returned part of it")
	}
	return s.holds(ctx, "a", "1")
}

func getPrivate(ctx context.Context, s subject) error {
	if _, err := s.applied(ctx, one, "a", "1"); err != nil {
		return err
	}
	got, err := s.conn.Get(ctx, s.id)
	if err != nil {
		return err
	}
	scribble(got)
	return s.holds(ctx, "a", "1")
}

// scribble changes every part of an object that a test can change.
func scribble(obj *unstructured.Unstructured) {
	if data, ok := obj.Object["data"].(map[string]any); ok {
		data["a"] = "scribbled"
		data["b"] = "scribbled"
	}
	obj.SetLabels(map[string]string{"scribbled": "true"})
	obj.SetResourceVersion("0")
}

func applyNamespace(ctx context.Context, c backend.Conn) error {
	s := subject{c, snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "slipway-test-no-namespace", Name: "a"}}
	_, err := s.apply(ctx, one, backend.Precondition{}, "a", "1")
	return errors.Join(want("apply", err, backend.ErrNotFound), s.missing(ctx))
}

func applyInvalid(ctx context.Context, c backend.Conn) error {
	nameless := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	kindless := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "metadata": map[string]any{"name": "slipway-test-kindless", "namespace": "default"},
	}}
	_, noName := c.Apply(ctx, nameless, backend.ApplyOptions{Manager: one})
	_, noKind := c.Apply(ctx, kindless, backend.ApplyOptions{Manager: one})
	return errors.Join(
		want("apply without a name", noName, backend.ErrPermanent),
		want("apply without a kind", noKind, backend.ErrPermanent))
}

func generation(ctx context.Context, c backend.Conn) error {
	id := snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "default", Name: "slipway-test-generation"}
	return with(id, func(ctx context.Context, s subject) error {
		var got []int64
		for _, obj := range []*unstructured.Unstructured{deployment(id, 1, "a"), deployment(id, 1, "b"), deployment(id, 2, "b")} {
			applied, err := c.Apply(ctx, obj, backend.ApplyOptions{Manager: one})
			if err != nil {
				return err
			}
			got = append(got, applied.GetGeneration())
		}
		if got[0] < 1 || got[1] != got[0] || got[2] <= got[1] {
			return fmt.Errorf("the generations after creating, labelling and scaling are %v", got)
		}
		return nil
	})(ctx, c)
}

func deployment(id snapshot.ID, replicas int64, label string) *unstructured.Unstructured {
	app := map[string]any{"app": id.Name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": id.Name, "namespace": id.Namespace, "labels": map[string]any{"test": label}},
		"spec": map[string]any{
			"replicas": replicas,
			"selector": map[string]any{"matchLabels": app},
			"template": map[string]any{
				"metadata": map[string]any{"labels": app},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": "registry.invalid/none:1"}}},
			},
		},
	}}
}

func applyRace(ctx context.Context, s subject) error {
	for round := range 5 {
		before, err := s.applied(ctx, one, "round", strconv.Itoa(round))
		if err != nil {
			return err
		}
		var won atomic.Int32
		err = together(racers, func(i int) error {
			_, err := s.apply(ctx, one, precondition(before), "winner", strconv.Itoa(i))
			if err == nil {
				won.Add(1)
				return nil
			}
			return want("apply at once", err, backend.ErrConflict)
		})
		if err != nil {
			return err
		}
		if won.Load() != 1 {
			return fmt.Errorf("%d of %d applied at the same resourceVersion", won.Load(), racers)
		}
	}
	return nil
}
