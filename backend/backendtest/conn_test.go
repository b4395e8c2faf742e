package backendtest_test

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// flawed is a connection with one flaw.
type flawed struct {
	backend.ConnWatcher
	flaw string

	mu    sync.Mutex
	n     int
	cache map[string]*unstructured.Unstructured
}

func newFlawed(flaw string) backend.Conn {
	c := memory.NewCluster("c").Conn().(backend.ConnWatcher)
	return &flawed{ConnWatcher: c, flaw: flaw, cache: map[string]*unstructured.Unstructured{}}
}

func (f *flawed) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.n
}

func (f *flawed) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if f.flaw == "ignores context" {
		ctx = context.WithoutCancel(ctx)
	}
	obj, err := f.ConnWatcher.Get(ctx, id)
	if err != nil || f.flaw != "shares what it returns" {
		return obj, err
	}
	if f.cache[obj.GetName()] == nil {
		f.cache[obj.GetName()] = obj
	}
	return f.cache[obj.GetName()], nil
}

func (f *flawed) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	o = f.options(ctx, obj, o)
	o.Fence = f.fence(ctx, o.Fence, o.Absent)
	out, err := f.ConnWatcher.Apply(ctx, obj, o)
	if err != nil {
		if f.flaw == "wrong kind" {
			return nil, fmt.Errorf("%w: %s", backend.ErrPermanent, err.Error())
		}
		return nil, err
	}
	switch f.flaw {
	case "brief without a uid":
		if o.Brief {
			out.SetUID("")
		}
	case "always a new version":
		out.SetResourceVersion("9" + strconv.Itoa(f.count()))
	case "changes its argument":
		obj.SetLabels(map[string]string{"changed": "true"})
	case "no generation":
		out.SetGeneration(1)
	case "generation of everything":
		out.SetGeneration(int64(f.count()))
	}
	return out, nil
}

func (f *flawed) DryRun(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	switch f.flaw {
	case "dry run writes":
		return f.Apply(ctx, obj, o)
	case "dry run of nothing":
		return f.Get(ctx, snapshot.IDOf(obj))
	}
	return backend.DryRun(ctx, f.ConnWatcher, obj, o)
}

func (f *flawed) List(ctx context.Context, namespace string) iter.Seq2[*unstructured.Unstructured, error] {
	switch f.flaw {
	case "lists nothing":
		return func(func(*unstructured.Unstructured, error) bool) {}
	case "lists all namespaces":
		namespace = ""
	}
	return backend.ListNamespace(ctx, f.ConnWatcher, namespace)
}

func (f *flawed) options(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) backend.ApplyOptions {
	switch f.flaw {
	case "ignores absent":
		o.Absent = false
	case "ignores uid":
		o.UID = ""
	case "ignores version":
		o.ResourceVersion = ""
	case "creates anyway":
		gvk := obj.GroupVersionKind()
		id := snapshot.ID{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
		if _, err := f.ConnWatcher.Get(ctx, id); err != nil {
			o.Precondition = backend.Precondition{}
		}
	case "one manager":
		o.Manager = "everybody"
	case "many managers":
		o.Manager = strconv.Itoa(f.count())
	}
	return o
}

func (f *flawed) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	switch {
	case f.flaw == "deletes anyway":
		o.Precondition = backend.Precondition{}
	case f.flaw == "release deletes":
		o.Release = false
	case f.flaw == "keeps marks":
		o.Marks = nil
	case f.flaw == "keeps ownership" && o.Release:
		o.Manager = "stranger"
	case f.flaw == "does not delete" && o.UID != "":
		return nil
	}
	if f.flaw == "deletes under any fence" {
		o.Fence = backend.Fence{}
	}
	o.Fence = f.fence(ctx, o.Fence, false)
	return f.ConnWatcher.Delete(ctx, id, o)
}

func (f *flawed) Watch(ctx context.Context, ids []snapshot.ID) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		n := 0
		for v, err := range f.ConnWatcher.Watch(ctx, ids) {
			if n++; n > 1 && f.flaw == "watches once" && err == nil {
				continue
			}
			if f.flaw == "silent end" && err != nil {
				return
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

func TestSuiteAcceptsCorrectConns(t *testing.T) {
	type plain struct{ backend.Conn }
	cluster := memory.NewCluster("c")
	for name, open := range map[string]func() (backend.Conn, error){
		"memory":      func() (backend.Conn, error) { return newFlawed(""), nil },
		"one cluster": func() (backend.Conn, error) { return cluster.Conn(), nil },
		"no fences":   func() (backend.Conn, error) { return newFlawed("no fences"), nil },
		"late fences": func() (backend.Conn, error) { return newFlawed("late fences"), nil },
		"no watch":    func() (backend.Conn, error) { return plain{cluster.Conn()}, nil },
	} {
		if got := violations(t, func(ctx context.Context) error { return backendtest.CheckConn(ctx, open) }); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestSuiteCatchesBrokenConns(t *testing.T) {
	for flaw, name := range map[string]string{
		"ignores absent":           "apply-absent",
		"ignores uid":              "apply-uid",
		"ignores version":          "apply-version",
		"creates anyway":           "apply-missing",
		"one manager":              "merge",
		"many managers":            "removed",
		"always a new version":     "apply-unchanged",
		"brief without a uid":      "apply-brief",
		"dry run writes":           "dry-run",
		"lists nothing":            "list",
		"lists all namespaces":     "list",
		"dry run of nothing":       "dry-run",
		"changes its argument":     "apply-private",
		"shares what it returns":   "get-private",
		"wrong kind":               "apply-namespace",
		"no generation":            "generation",
		"generation of everything": "generation",
		"deletes anyway":           "delete-stale",
		"does not delete":          "delete",
		"release deletes":          "release",
		"keeps marks":              "release",
		"keeps ownership":          "release-owner",
		"ignores fences":           "fence-create",
		"ignores fences later":     "fence-create",
		"ledger of any version":    "fence-create",
		"one fence for all":        "fence-other",
		"fences creations":         "fence-write",
		"deletes under any fence":  "fence-write",
		"needs no ledger":          "fence-gone",
		"fence first":              "fence-race",
		"ignores context":          "context",
		"watches once":             "watch",
		"silent end":               "watch-end",
	} {
		t.Run(flaw, func(t *testing.T) {
			got := violations(t, func(ctx context.Context) error {
				return checkOne(ctx, name, backendtest.ConnCases(), newFlawed(flaw))
			})
			if got == "" {
				t.Errorf("case %s does not catch it", name)
			}
		})
	}
}

func TestSuiteCatchesBrokenInventories(t *testing.T) {
	a, b := placement.Cluster{Name: "a"}, placement.Cluster{Name: "b"}
	for flaw, clusters := range map[string][]placement.Cluster{
		"twice":   {a, b, b},
		"missing": {a},
		"strange": {a, b, {Name: "c"}},
		"labels":  {a, {Name: "b", Labels: map[string]string{"x": "y"}}},
	} {
		inv := backend.InventoryFunc(func(ctx context.Context) iter.Seq2[placement.Cluster, error] {
			return func(yield func(placement.Cluster, error) bool) {
				if err := ctx.Err(); err != nil {
					yield(placement.Cluster{}, err)
					return
				}
				for _, c := range clusters {
					if !yield(c, nil) {
						return
					}
				}
			}
		})
		if err := backendtest.CheckInventory(t.Context(), inv, a, b); err == nil {
			t.Errorf("%s is not caught", flaw)
		}
	}
}

func TestSuiteCatchesADialerThatReachesAnything(t *testing.T) {
	open := backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		return memory.NewCluster(c.Name).Conn(), ctx.Err()
	})
	if err := backendtest.CheckDialer(t.Context(), open, placement.Cluster{Name: "a"}); err == nil {
		t.Error("it is not caught")
	}
}
