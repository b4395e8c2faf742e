package member

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// calls lists the calls of a leader, "get a" for example.
func (k *kit) calls(into *[]string) *Applier {
	return k.leader(hook(func(op string, id snapshot.ID) { *into = append(*into, op+" "+id.Name) }))
}

// What is applied in another version needs no read of the member, what is to stay
// as it is does.
func TestAnObjectThatIsKeptIsNotLookedAtBeforeItIsApplied(t *testing.T) {
	k := newKit(t)
	var calls []string
	u := k.calls(&calls)
	k.must(u, k.want("A", 1, "first"))
	calls = nil
	if r := k.must(u, k.want("B", 2, "second")); !r.Current || !r.Healthy {
		t.Errorf("%+v", r)
	}
	all := strings.Join(calls, ", ")
	if strings.Contains(all, "get a,") || !strings.Contains(all, "get app") || !strings.Contains(all, "apply a,") {
		t.Error(all)
	}
	if got := k.objects()["ConfigMap/app/a"]; got != "2+ours" {
		t.Errorf("a is %q", got)
	}
}

// An object that another client wrote since it was kept is read when its apply is
// refused, and dealt with as it is then.
func TestAnObjectThatIsNotAsItIsKeptIsLookedAt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(k *kit, a *unstructured.Unstructured)
		err    error
		want   string
	}{
		"changed": {func(k *kit, a *unstructured.Unstructured) {
			a.Object["data"] = map[string]any{"v": "theirs"}
			k.exists(a)
		}, nil, "2+ours"},
		"deleted": {func(k *kit, a *unstructured.Unstructured) {
			k.delete(snapshot.IDOf(a))
		}, nil, "2+ours"},
		"made again": {func(k *kit, a *unstructured.Unstructured) {
			k.delete(snapshot.IDOf(a))
			k.exists(configMap("app", "a", "theirs"))
		}, nil, "2+ours"},
		"another placement's": {func(k *kit, a *unstructured.Unstructured) {
			a.SetAnnotations(map[string]string{digestMark + kitPlacement: annotation(a, digestMark+kitPlacement), digestMark + "other": "x"})
			k.exists(a)
		}, backend.ErrPermanent, "1+ours"},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			u := k.leader(nil)
			k.must(u, k.want("A", 1, "first"))
			a, err := k.member.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "app", Name: "a"})
			if err != nil {
				t.Fatal(err)
			}
			c.change(k, a)
			if _, err := u.Update(t.Context(), k.want("B", 2, "second")); !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if got := k.objects()["ConfigMap/app/a"]; got != c.want {
				t.Errorf("a is %q, want %q", got, c.want)
			}
			if adopted := name == "made again"; c.err == nil && k.entry("a").Adopted != adopted {
				t.Errorf("adopted: %v, want %v", !adopted, adopted)
			}
		})
	}
}

func (k *kit) delete(id snapshot.ID) {
	k.t.Helper()
	if err := k.member.Conn().Delete(k.t.Context(), id, backend.DeleteOptions{}); err != nil {
		k.t.Fatal(err)
	}
}

// entry is what the ledger says of an object.
func (k *kit) entry(name string) ledgerObject {
	k.t.Helper()
	for _, o := range k.ledger().Objects {
		if o.Name == name {
			return o
		}
	}
	k.t.Fatalf("the ledger does not have %s", name)
	return ledgerObject{}
}

// Objects are kept as long as there is room, which is free again when they are
// forgotten.
func TestThereIsRoomForSoManyKeptObjects(t *testing.T) {
	of := func(name string, bytes int) *target {
		obj := configMap("app", name, strings.Repeat("x", bytes))
		obj.SetAnnotations(map[string]string{digestMark + "web": "d"})
		return &target{id: snapshot.IDOf(obj), live: obj, want: &revisionItem{Item: snapshot.Item{Digest: "d"}}}
	}
	l := closedLedger(t, "web", 0)
	var room atomic.Int64
	room.Store(10_000)
	k := newLedgerCache(&room)
	k.keep(l, []*target{of("a", 4000), of("b", 4000), of("c", 4000), of("large", objectKeptMost)})
	kept, _ := k.kept.Get("web")
	if got := len(kept.objects.byID); got != 2 || room.Load() < 0 || room.Load() > 2000 {
		t.Errorf("%d objects are kept, and there is room for %d", got, room.Load())
	}
	k.keep(l, []*target{of("a", 10)})
	if _, ok := k.take("web"); !ok || room.Load() != 10_000 {
		t.Errorf("there is room for %d", room.Load())
	}
	k.keep(l, []*target{of("a", 10)})
	k.close()
	if k.keep(l, []*target{of("a", 10)}); room.Load() != 10_000 {
		t.Errorf("after it was closed there is room for %d", room.Load())
	}
}
