package members

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/internal/objects"
	"github.com/slipway-dev/slipway/hub/internal/queues"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/placement"
)

// TestRecheckDuringACheck: a member's answer may be older than the request to ask
// again.
func TestRecheckDuringACheck(t *testing.T) {
	t.Parallel()
	r := New(&Reconciler{Queues: &queues.Queues{Members: reconcile.New(reconcile.Options[api.Key]{})}})
	obj := &unstructured.Unstructured{}
	obj.SetName("m")
	asked := func() { r.setChecked("m", &check{at: time.Now(), next: time.Now().Add(time.Hour)}) }
	steps := []struct {
		name string
		do   func()
		due  bool
	}{
		{"at first", func() {}, true},
		{"once it is asked", func() { r.begin("m"); asked() }, false},
		{"once it is to be asked again", func() { r.AskAgain("m") }, true},
		{"once that is done", func() { r.begin("m"); asked() }, false},
		{"once it is to be asked again while it is being asked", func() { r.begin("m"); r.AskAgain("m"); asked() }, true},
		{"once that is done, too", func() { r.begin("m"); asked() }, false},
	}
	for _, s := range steps {
		s.do()
		if due := r.lastCheck(obj) == nil; due != s.due {
			t.Errorf("%s: due %t, want %t", s.name, due, s.due)
		}
	}
}

// If an inventory lacks a new member, it only lags behind the cache of the hub, which is no
// problem. If it lacks an older member or cannot be read, that is a problem.
func TestAnInventoryMayLackANewMember(t *testing.T) {
	t.Parallel()
	empty := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
		return func(func(placement.Cluster, error) bool) {}
	})
	_, missing := (&objects.Clusters{Inventory: empty}).Find(t.Context(), "m")
	for _, c := range []struct {
		err  error
		age  time.Duration
		want bool
	}{
		{missing, 0, true},
		{missing, time.Minute, false},
		{errors.New("the inventory is down"), 0, false},
		{nil, 0, false},
	} {
		if got := isLag(c.err, c.age); got != c.want {
			t.Errorf("%v after %v: a lag is %t, want %t", c.err, c.age, got, c.want)
		}
	}
}
