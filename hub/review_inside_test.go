package hub

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// All members are looked up by one list of the inventory; one that is new is found.
func TestLookingUpAllMembersListsThemOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, names := 0, 100
		inventory := backend.InventoryFunc(func(context.Context) iter.Seq2[placement.Cluster, error] {
			lists++
			return func(yield func(placement.Cluster, error) bool) {
				for i := range names {
					if !yield(placement.Cluster{Name: fmt.Sprint(i), UID: fmt.Sprint(lists)}, nil) {
						return
					}
				}
			}
		})
		var r roster
		find := func(name int, uid string) {
			t.Helper()
			if c, err := r.find(t.Context(), inventory, fmt.Sprint(name)); err != nil || c.UID != uid {
				t.Errorf("%d is %+v (%v), want list %s", name, c, err, uid)
			}
		}
		for i := range names {
			find(i, "1")
		}
		names++
		find(100, "2")
		time.Sleep(rosterAge)
		find(0, "3")
	})
}

// A request that is never answered holds up a round for a while, and no other object.
func TestARoundThatHangsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failed error
		l := newLoop("test", func(ctx context.Context, _ key) (time.Duration, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, func(_ key, err error) { failed = err })
		l.add(key{Name: "a"})
		begun := time.Now()
		if !l.next(t.Context()) || !errors.Is(failed, context.DeadlineExceeded) || time.Since(begun) != longestRound {
			t.Errorf("it ended after %v with %v", time.Since(begun), failed)
		}
		l.queue.ShutDown()
	})
}

// An approval that was taken back before it counted does not count; a rejection does.
func TestAnApprovalThatWasTakenBackDoesNotCount(t *testing.T) {
	for status, want := range map[string]int{"True": 2, "False": 1, "": 1} {
		obj := &unstructured.Unstructured{Object: map[string]any{}}
		s := map[string]any{"decisions": []any{
			map[string]any{"verdict": "Approve", "by": map[string]any{"username": "alice"}},
			map[string]any{"verdict": "Reject", "by": map[string]any{"username": "bob"}},
		}}
		if status != "" {
			s["conditions"] = []any{map[string]any{"type": "Approved", "status": status, "reason": "NotYet"}}
		}
		obj.Object["status"] = s
		got, err := answersOf(obj, true)
		if err != nil || len(got) != want || got[len(got)-1].Verdict != approval.Reject {
			t.Errorf("Approved=%s: %+v (%v), want %d answers", status, got, err, want)
		}
	}
}

// nameless is a cluster whose namespace kube-system has the uid that it is.
type nameless struct {
	backend.Conn
	uid string
}

func (n nameless) Get(context.Context, snapshot.ID) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetUID(types.UID(n.uid))
	return u, nil
}

func (nameless) Close() error { return nil }

// A member that does not say which cluster it is, or says too much, is not trusted.
func TestT7AMemberWithoutAnIdentityIsRefused(t *testing.T) {
	for uid, refused := range map[string]bool{"": true, strings.Repeat("x", 1<<20): true, "9d1c": false} {
		store := memory.NewStore()
		d := pinned{store: store, next: backend.DialerFunc(func(context.Context, placement.Cluster) (backend.Conn, error) {
			return nameless{uid: uid}, nil
		})}
		_, err := d.Dial(t.Context(), placement.Cluster{Name: "one"})
		_, none := store.Get(t.Context(), pinKey("one"))
		if errors.Is(err, backend.ErrPermanent) != refused || errors.Is(none, backend.ErrNotFound) != refused {
			t.Errorf("a uid of %d characters: %v, record: %v", len(uid), err, none)
		}
	}
}
