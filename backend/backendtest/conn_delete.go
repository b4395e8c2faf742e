package backendtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// step is an apply, and the expected data afterwards.
type step struct {
	manager     string
	apply, want []string
}

func (s subject) play(ctx context.Context, steps ...step) error {
	for i, st := range steps {
		obj, err := s.applied(ctx, st.manager, st.apply...)
		if err != nil {
			return err
		}
		if err := errors.Join(hasData(obj, st.want...), s.holds(ctx, st.want...)); err != nil {
			return fmt.Errorf("step %d, %s applies %v: %w", i+1, st.manager, st.apply, err)
		}
	}
	return nil
}

func mergeManagers(ctx context.Context, s subject) error {
	return s.play(ctx,
		step{one, []string{"a", "1"}, []string{"a", "1"}},
		step{two, []string{"b", "2"}, []string{"a", "1", "b", "2"}},
		step{one, []string{"a", "3"}, []string{"a", "3", "b", "2"}})
}

func removedFields(ctx context.Context, s subject) error {
	return s.play(ctx,
		step{one, []string{"a", "1", "b", "1"}, []string{"a", "1", "b", "1"}},
		step{one, []string{"b", "1"}, []string{"b", "1"}},
		step{two, []string{"c", "2", "d", "2"}, []string{"b", "1", "c", "2", "d", "2"}},
		step{two, []string{"d", "2"}, []string{"b", "1", "d", "2"}},
		step{one, []string{"e", "1"}, []string{"d", "2", "e", "1"}})
}

func sharedFields(ctx context.Context, s subject) error {
	return s.play(ctx,
		step{one, []string{"a", "1", "b", "1"}, []string{"a", "1", "b", "1"}},
		step{two, []string{"a", "1"}, []string{"a", "1", "b", "1"}},
		step{one, []string{"b", "1"}, []string{"a", "1", "b", "1"}},
		step{two, []string{"c", "2"}, []string{"b", "1", "c", "2"}})
}

func forcedFields(ctx context.Context, s subject) error {
	return s.play(ctx,
		step{one, []string{"a", "1", "b", "1"}, []string{"a", "1", "b", "1"}},
		step{two, []string{"a", "2"}, []string{"a", "2", "b", "1"}},
		step{two, []string{"c", "2"}, []string{"b", "1", "c", "2"}},
		step{two, []string{"a", "2"}, []string{"a", "2", "b", "1"}},
		step{one, []string{"b", "1"}, []string{"a", "2", "b", "1"}},
		step{one, []string{"a", "3"}, []string{"a", "3"}},
		step{two, []string{"c", "2"}, []string{"a", "3", "c", "2"}})
}

func refusedConflicts(ctx context.Context, s subject) error {
	refusing := func(pairs ...string) error {
		_, err := s.conn.Apply(ctx, s.configMap(pairs...), backend.ApplyOptions{Manager: two, RefuseConflicts: true})
		return err
	}
	if _, err := s.applied(ctx, one, "a", "1", "b", "1"); err != nil {
		return err
	}
	refused := refusing("a", "2", "c", "2")
	if err := want("apply another value for a field of another manager", refused, backend.ErrPermanent); err != nil {
		return err
	}
	if conflict := (*backend.FieldConflictError)(nil); !errors.As(refused, &conflict) || !slices.Equal(conflict.Managers, []string{one}) {
		return fmt.Errorf("want a FieldConflictError with the manager %s: %w", one, refused)
	}
	if err := s.holds(ctx, "a", "1", "b", "1"); err != nil {
		return err
	}
	if err := refusing("a", "1", "c", "2"); err != nil {
		return fmt.Errorf("apply the same value, and a field without an owner: %w", err)
	}
	return s.holds(ctx, "a", "1", "b", "1", "c", "2")
}

func deleteObject(ctx context.Context, s subject) error {
	obj, err := s.applied(ctx, one, "a", "1")
	if err != nil {
		return err
	}
	if err := s.conn.Delete(ctx, s.id, backend.DeleteOptions{Manager: one, Precondition: precondition(obj)}); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	if err := s.vanishes(ctx); err != nil {
		return err
	}
	again, err := s.applied(ctx, one, "a", "1")
	if err == nil && again.GetUID() == obj.GetUID() {
		err = errors.New("an object that is created again has the uid of the first one")
	}
	return err
}

func deleteMissingObject(ctx context.Context, s subject) error {
	return errors.Join(
		want("delete", s.conn.Delete(ctx, s.id, backend.DeleteOptions{}), backend.ErrNotFound),
		want("release", s.conn.Delete(ctx, s.id, backend.DeleteOptions{Manager: one, Release: true}), backend.ErrNotFound))
}

func deleteStaleObject(ctx context.Context, s subject) error { return s.refusesStale(ctx, false) }

func releaseStale(ctx context.Context, s subject) error { return s.refusesStale(ctx, true) }

// refusesStale deletes or releases the object with preconditions that do not hold.
func (s subject) refusesStale(ctx context.Context, release bool) error {
	old, err := s.applied(ctx, one, "a", "1")
	if err != nil {
		return err
	}
	current, err := s.applied(ctx, one, "a", "2")
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range []backend.Precondition{precondition(old), {UID: otherUID}} {
		err := s.conn.Delete(ctx, s.id, backend.DeleteOptions{Manager: one, Release: release, Precondition: p})
		errs = append(errs, want(fmt.Sprintf("give up with %+v", p), err, backend.ErrConflict))
	}
	got, err := s.conn.Get(ctx, s.id)
	if err == nil && precondition(got) != precondition(current) {
		err = errors.New("a call with a stale precondition changed the object")
	}
	return errors.Join(append(errs, err)...)
}

func releaseObject(ctx context.Context, s subject) error {
	obj := s.configMap("a", "1")
	obj.SetAnnotations(map[string]string{mark: "x", "keep": "annotation"})
	obj.SetLabels(map[string]string{mark: "x", "keep": "label"})
	if _, err := s.conn.Apply(ctx, obj, backend.ApplyOptions{Manager: one}); err != nil {
		return err
	}
	if err := s.conn.Delete(ctx, s.id, backend.DeleteOptions{Manager: one, Release: true, Marks: []string{mark}}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	got, err := s.conn.Get(ctx, s.id)
	if err != nil {
		return fmt.Errorf("get what was released: %w", err)
	}
	return errors.Join(hasData(got, "a", "1"),
		hasKept("annotations", got.GetAnnotations(), "annotation"),
		hasKept("labels", got.GetLabels(), "label"))
}

func hasKept(what string, values map[string]string, kept string) error {
	if _, marked := values[mark]; marked || values["keep"] != kept {
		return fmt.Errorf("the %s are %v after the release", what, values)
	}
	return nil
}

func releaseOwnership(ctx context.Context, s subject) error {
	if _, err := s.applied(ctx, one, "a", "1", "b", "1"); err != nil {
		return err
	}
	if err := s.conn.Delete(ctx, s.id, backend.DeleteOptions{Manager: one, Release: true}); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return s.play(ctx, step{one, []string{"a", "2"}, []string{"a", "2", "b", "1"}})
}

func connContext(ctx context.Context, s subject) error {
	if _, err := s.applied(ctx, one, "a", "1"); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, getErr := s.conn.Get(ended, s.id)
	_, applyErr := s.apply(ended, one, backend.Precondition{}, "a", "2")
	deleteErr := s.conn.Delete(ended, s.id, backend.DeleteOptions{})
	return errors.Join(wantTransient("get", getErr), wantTransient("apply", applyErr), wantTransient("delete", deleteErr))
}

// watchProbe follows a watch and counts its items.
type watchProbe struct {
	n    atomic.Int64
	done chan error
}

func (s subject) watch(ctx context.Context) *watchProbe {
	g := &watchProbe{done: make(chan error, 1)}
	go func() {
		var last error
		for _, err := range backend.WatchConn(ctx, s.conn, []snapshot.ID{s.id}, poll) {
			last = err
			g.n.Add(1)
		}
		g.done <- last
	}()
	return g
}

// after runs f and waits for a signal of the watch. Signals of earlier changes may still arrive,
// so it first waits a short time for silence.
func (g *watchProbe) after(ctx context.Context, what string, f func() error) error {
	before := g.n.Load()
	for range 5 {
		pause := time.NewTimer(2 * poll)
		<-pause.C
		if n := g.n.Load(); n == before {
			break
		} else {
			before = n
		}
	}
	if err := f(); err != nil {
		return err
	}
	return eventually(ctx, "a sign of "+what, func() bool { return g.n.Load() > before })
}

func watchObject(ctx context.Context, s subject) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g := s.watch(ctx)
	if err := eventually(ctx, "the first sign", func() bool { return g.n.Load() > 0 }); err != nil {
		return err
	}
	var obj *unstructured.Unstructured
	for _, value := range []string{"1", "2"} {
		err := g.after(ctx, "an apply", func() (err error) {
			obj, err = s.applied(ctx, one, "a", value)
			return err
		})
		if err != nil {
			return err
		}
	}
	return g.after(ctx, "a deletion", func() error {
		return s.conn.Delete(ctx, s.id, backend.DeleteOptions{Precondition: precondition(obj)})
	})
}

func watchObjectEnd(ctx context.Context, s subject) error {
	ctx, cancel := context.WithCancel(ctx)
	g := s.watch(ctx)
	err := eventually(ctx, "the first sign", func() bool { return g.n.Load() > 0 })
	cancel()
	if last := <-g.done; err == nil && !errors.Is(last, context.Canceled) {
		err = fmt.Errorf("the watch ended with %q, want the error of its context", fmt.Sprint(last))
	}
	return err
}
