package backendtest

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// fenceCases are for connections that check fences. Cases that need atomic fencing are skipped
// for other connections.
func fenceCases() []ConnCase {
	return []ConnCase{
		{"fence-create", "the creation of an object under a fence that does not hold is refused", fencing(backend.FencingEventual, "create", fenceCreate)},
		{"fence-other", "a fence is about the ledger that it names", fencing(backend.FencingEventual, "other", fenceOther)},
		{"fence-write", "no write is accepted once the ledger is another", fencing(backend.FencingAtomic, "write", fenceWrite)},
		{"fence-gone", "no write is accepted once the ledger is gone, or was made again", fencing(backend.FencingAtomic, "gone", fenceGone)},
		{"fence-race", "the fence is compared in the same step as the write is made", fencing(backend.FencingAtomic, "race", fenceRace)},
	}
}

// fenced is an object that is written under the fence of a ledger.
type fenced struct {
	subject
	placement string
	touch     int
}

// fencing runs a case only for connections whose fencing is at least the given one.
func fencing(least backend.Fencing, name string, run func(ctx context.Context, f *fenced) error) func(context.Context, backend.Conn) error {
	return func(ctx context.Context, c backend.Conn) error {
		if backend.FencingOf(c) < least {
			return nil
		}
		return withMap("fence-"+name, func(ctx context.Context, s subject) error {
			f := &fenced{subject: s, placement: s.id.Name}
			return f.withLedger(ctx, f.ledger(), func() error { return run(ctx, f) })
		})(ctx, c)
	}
}

// withLedger runs a function with a namespace for the ledger, and removes the ledger before and
// after.
func (f *fenced) withLedger(ctx context.Context, id snapshot.ID, run func() error) error {
	ns := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": id.Namespace},
	}}
	if _, err := f.conn.Apply(ctx, ns, backend.ApplyOptions{Manager: "slipway"}); err != nil {
		return fmt.Errorf("namespace %s: %w", id.Namespace, err)
	}
	ledger := subject{f.conn, id}
	if err := ledger.gone(ctx); err != nil {
		return err
	}
	return errors.Join(run(), ledger.gone(context.WithoutCancel(ctx)))
}

// ledger returns the ID under which the engine keeps the ledger of a placement.
func (f *fenced) ledger() snapshot.ID {
	return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "slipway-system", Name: f.placement}
}

// take writes the ledger like a leader of that epoch and returns its fence.
func (f *fenced) take(ctx context.Context, epoch int) (backend.Fence, error) {
	f.touch++
	id := f.ledger()
	text := fmt.Sprintf(`{"format":1,"placement":%q,"epoch":%d,"phase":"Applying","touch":%d}`, f.placement, epoch, f.touch)
	got, err := subject{f.conn, id}.applied(ctx, one, "ledger", text)
	if err != nil {
		return backend.Fence{}, fmt.Errorf("ledger: %w", err)
	}
	return backend.Fence{
		Ledger: id, UID: string(got.GetUID()), ResourceVersion: got.GetResourceVersion(),
		Annotation: "epoch.slipway.dev/" + f.placement, Mark: fmt.Sprintf("%d.%d.%s", epoch, f.touch, got.GetUID()),
	}, nil
}

// under writes the object under a fence, like the engine writes placed objects.
func (f *fenced) under(ctx context.Context, fence backend.Fence, p backend.Precondition) (*unstructured.Unstructured, error) {
	return f.named(ctx, f.id.Name, fence, p)
}

func (f *fenced) named(ctx context.Context, name string, fence backend.Fence, p backend.Precondition) (*unstructured.Unstructured, error) {
	obj := f.configMap("a", "1")
	obj.SetName(name)
	return f.conn.Apply(ctx, obj, backend.ApplyOptions{Manager: one, Precondition: p, Fence: fence})
}

// isRefused reports whether an error says that a fence does not hold.
func isRefused(err error) bool {
	return (errors.Is(err, backend.ErrConflict) || errors.Is(err, backend.ErrFenced)) &&
		!errors.Is(err, backend.ErrPermanent) && !errors.Is(err, backend.ErrNotFound)
}

func wantRefused(what string, err error) error {
	if isRefused(err) {
		return nil
	}
	return fmt.Errorf("%s: the error is %q, want %q or %q", what, fmt.Sprint(err), backend.ErrConflict, backend.ErrFenced)
}

// refuses returns nil if no object is created under a fence: at once or, if the fencing is only
// eventual, soon.
func (f *fenced) refuses(ctx context.Context, fence backend.Fence) error {
	create := func() error {
		_, err := f.under(ctx, fence, backend.Precondition{Absent: true})
		return err
	}
	err := create()
	if backend.FencingOf(f.conn) == backend.FencingEventual {
		late := eventually(ctx, "the refusal of a creation", func() bool {
			if err == nil && f.gone(ctx) == nil {
				err = create()
			}
			return err != nil
		})
		if late != nil {
			return late
		}
	}
	return errors.Join(wantRefused("create under a fence that does not hold", err), f.missing(ctx))
}

// accepts returns nil if the object is created under a fence; it is deleted again.
func (f *fenced) accepts(ctx context.Context, fence backend.Fence) error {
	if _, err := f.under(ctx, fence, backend.Precondition{Absent: true}); err != nil {
		return fmt.Errorf("create under a fence that holds: %w", err)
	}
	return f.gone(ctx)
}

func fenceCreate(ctx context.Context, f *fenced) error {
	fence, err := f.take(ctx, 9)
	if err != nil {
		return err
	}
	for _, epoch := range []int{10, 10, 11} { // the same epoch may belong to another run
		if err := f.accepts(ctx, fence); err != nil {
			return err
		}
		next, err := f.take(ctx, epoch)
		if err != nil {
			return err
		}
		if err := f.refuses(ctx, fence); err != nil {
			return fmt.Errorf("epoch %d: %w", epoch, err)
		}
		fence = next
	}
	return f.accepts(ctx, fence)
}

func fenceOther(ctx context.Context, f *fenced) error {
	fence, err := f.take(ctx, 5)
	if err != nil {
		return err
	}
	other := &fenced{subject: f.subject, placement: f.placement + "-more"}
	return f.withLedger(ctx, other.ledger(), func() error {
		if _, err := other.take(ctx, 6); err != nil {
			return err
		}
		return f.accepts(ctx, fence)
	})
}

// writes tries every operation on an existing object.
func (f *fenced) writes(ctx context.Context, fence backend.Fence) error {
	live, err := f.conn.Get(ctx, f.id)
	if err != nil {
		return err
	}
	p := precondition(live)
	_, same := f.under(ctx, fence, p)
	_, changed := f.conn.Apply(ctx, f.configMap("a", "2"), backend.ApplyOptions{Manager: two, Precondition: p, Fence: fence})
	release := f.conn.Delete(ctx, f.id, backend.DeleteOptions{Manager: one, Release: true, Precondition: p, Fence: fence})
	gone := f.conn.Delete(ctx, f.id, backend.DeleteOptions{Manager: one, Precondition: p, Fence: fence})
	after, err := f.conn.Get(ctx, f.id)
	if err == nil && precondition(after) != p {
		err = fmt.Errorf("the object went from %v to %v", p, precondition(after))
	}
	return errors.Join(wantRefused("apply what is there already", same), wantRefused("apply", changed),
		wantRefused("release", release), wantRefused("delete", gone), err)
}

func fenceWrite(ctx context.Context, f *fenced) error {
	fence, err := f.take(ctx, 5)
	if err != nil {
		return err
	}
	if _, err := f.under(ctx, fence, backend.Precondition{Absent: true}); err != nil {
		return fmt.Errorf("create under a fence that holds: %w", err)
	}
	next, err := f.take(ctx, 6)
	if err != nil {
		return err
	}
	if err := f.writes(ctx, fence); err != nil {
		return err
	}
	if err := f.conn.Delete(ctx, f.id, backend.DeleteOptions{Manager: one, Fence: next}); err != nil {
		return fmt.Errorf("delete under a fence that holds: %w", err)
	}
	return f.vanishes(ctx)
}

func fenceGone(ctx context.Context, f *fenced) error {
	fence, err := f.take(ctx, 5)
	if err != nil {
		return err
	}
	if _, err := f.under(ctx, fence, backend.Precondition{}); err != nil {
		return fmt.Errorf("apply under a fence that holds: %w", err)
	}
	if err := (subject{f.conn, f.ledger()}).gone(ctx); err != nil {
		return err
	}
	if err := f.writes(ctx, fence); err != nil {
		return fmt.Errorf("the ledger is gone: %w", err)
	}
	f.touch--
	if _, err := f.take(ctx, 5); err != nil {
		return err
	}
	if err := f.writes(ctx, fence); err != nil {
		return fmt.Errorf("the ledger was made again: %w", err)
	}
	return nil
}

// fenceRace lets several racers create objects while the ledger is written: an object that does
// not exist right afterwards must not appear any more.
func fenceRace(ctx context.Context, f *fenced) error {
	for range 20 {
		fence, err := f.take(ctx, 5)
		if err != nil {
			return err
		}
		began, all := make(chan struct{}, racers), make(chan error, 1)
		go func() {
			all <- together(racers, func(i int) error {
				began <- struct{}{}
				_, err := f.named(ctx, fmt.Sprint(f.id.Name, "-", i), fence, backend.Precondition{Absent: true})
				if err != nil {
					return wantRefused("create", err)
				}
				return nil
			})
		}()
		for range racers {
			<-began
		}
		_, err = f.take(ctx, 5)
		before := f.counted(ctx)
		err = errors.Join(err, <-all)
		if after := f.counted(ctx); err == nil && after != before {
			err = fmt.Errorf("%d objects were there when the ledger was written, and then %d", before, after)
		}
		if err != nil {
			return errors.Join(err, f.sweep(context.WithoutCancel(ctx)))
		}
		if err := f.sweep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// racer is one of the objects of a race.
func (f *fenced) racer(i int) subject {
	id := f.id
	id.Name = fmt.Sprint(f.id.Name, "-", i)
	return subject{f.conn, id}
}

// counted returns how many objects of a race exist.
func (f *fenced) counted(ctx context.Context) (n int) {
	for i := range racers {
		if _, err := f.conn.Get(ctx, f.racer(i).id); err == nil {
			n++
		}
	}
	return n
}

func (f *fenced) sweep(ctx context.Context) error {
	return together(racers, func(i int) error { return f.racer(i).gone(ctx) })
}
