package member

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
)

// newKitG returns a kit with a revision G of one object in a namespace that is not removed.
func newKitG(t *testing.T) *kit {
	k := newKit(t)
	k.revision("G", configMap("default", "g", "1"))
	return k
}

// TestAdoptionIsRecordedBeforeTheApply checks that an object belongs to another client that created
// it first, even if the leader dies at any later call, whichever engine finds it.
func TestAdoptionIsRecordedBeforeTheApply(t *testing.T) {
	for n := 1; ; n++ {
		k := newKitG(t)
		plan, done := faulty.NewPlan(faulty.Nth(n, faulty.Fault{Crash: true, After: faulty.ErrCrashed})), false
		u := k.leader(func(c backend.Conn) backend.Conn {
			return plan.Conn(&hookedConn{c, func(op string, id snapshot.ID) {
				if op == "apply" && id.Name == "g" && !done {
					done = true
					k.exists(configMap("default", "g", "theirs"))
				}
			}}, "c1")
		})
		_, _ = u.Update(t.Context(), k.want("G", 1, "r1"))
		k.place("", 2, "r2")
		if _, there := k.objects()["ConfigMap/default/g"]; done && !there {
			t.Fatalf("crash at call %d: what another client created was deleted", n)
		}
		if !plan.Crashed() {
			return
		}
	}
}

// TestLateCreateDuringTheTakeover checks that the new leader notices an object that the old leader
// creates during the takeover, on a member without fences.
func TestLateCreateDuringTheTakeover(t *testing.T) {
	k := newKitG(t)
	g := newGate(6) // the creation of default/g
	end := g.start(t.Context(), k.leader(hookUnfenced(g.before)), k.want("G", 1, "old"))
	g.reached(end)
	looks := 0
	u := k.leader(hook(func(op string, id snapshot.ID) {
		if op == "get" && id.Name == "g" {
			if looks++; looks == 2 { // the new leader's intent is written
				close(g.release)
				<-end
			}
		}
	}))
	r := k.must(u, k.want("", 2, "new"))
	if looks < 2 {
		close(g.release)
		<-end
	}
	if _, there := k.objects()["ConfigMap/default/g"]; there || !r.Healthy {
		t.Errorf("%+v, %v", r, k.objects())
	}
}

// TestRefusalFences checks that a run which is refused or cannot read its revision still fences
// older runs.
func TestRefusalFences(t *testing.T) {
	k := newKit(t)
	k.place("A", 1, "r0")
	x := configMap("default", "x", "theirs")
	x.SetAnnotations(map[string]string{digestMark + "shop": "d"})
	k.exists(x)
	k.revs["lost"] = snapshot.Digest([]byte("lost"))
	for i, rev := range []string{"C", "lost"} {
		epoch := int64(10 * (i + 1))
		if _, err := k.leader(nil).Update(t.Context(), k.want(rev, epoch, "r2")); !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%s: %v", rev, err)
		}
		if _, err := k.leader(nil).Update(t.Context(), k.want("B", epoch-1, "r1")); !errors.Is(err, backend.ErrFenced) {
			t.Errorf("an older leader after %s: %v", rev, err)
		}
	}
	if l := k.ledger(); l.Phase != ledgerApplied || l.Revision != k.revs["A"] {
		t.Errorf("the ledger must go on proving what is there: %+v", l)
	}
}

// TestTerminatingObjectIsWaitedFor checks that an object which is being deleted is applied again
// once it is gone.
func TestTerminatingObjectIsWaitedFor(t *testing.T) {
	k := newKitG(t)
	held := configMap("default", "g", "theirs")
	held.SetFinalizers([]string{"example.com/hold"})
	k.exists(held)
	if err := k.member.Delete(configMapID("default", "g")); err != nil {
		t.Fatal(err)
	}
	before := k.state()["ConfigMap.v1 default/g"].GetResourceVersion()
	u, a := k.leader(nil), k.want("G", 1, "r1")
	if r := k.must(u, a); r.Applied || r.Healthy || !strings.Contains(r.Message, "default/g") {
		t.Errorf("%+v", r)
	}
	now, err := k.member.Get(configMapID("default", "g"))
	if err != nil {
		t.Fatal(err)
	}
	if now.GetResourceVersion() != before {
		t.Error("an object that is being deleted was written")
	}
	now.SetFinalizers(nil)
	k.exists(now)
	if r := k.must(u, a); !r.Applied || !r.Healthy {
		t.Errorf("once it is gone: %+v", r)
	}
}

// TestTakeoverReleaseKeepsValues checks that a release in a takeover changes the resourceVersion
// and no value, even if another client removed our marks from the object.
func TestTakeoverReleaseKeepsValues(t *testing.T) {
	k := newKit(t)
	k.place("C", 1, "r0")
	k.exists(configMap("default", "x", "ours")) // the marks go, the value is still owned
	plan := faulty.NewPlan(faulty.CrashAfter(1))
	old := k.leader(func(c backend.Conn) backend.Conn { return plan.Conn(c, "c1") })
	if _, err := old.Update(t.Context(), k.want("A", 2, "r1")); err == nil {
		t.Fatal("the leader was to crash")
	}
	before := k.state()["ConfigMap.v1 default/x"].GetResourceVersion()
	k.place("A", 3, "r1")
	x := k.state()["ConfigMap.v1 default/x"]
	if v, _, _ := unstructured.NestedString(x.Object, "data", "v"); v != "ours" {
		t.Errorf("the released value is %q", v)
	}
	if x.GetResourceVersion() == before {
		t.Error("the old leader's apply would still find what it read")
	}
	if carries(x, kitPlacement) || annotation(x, epochMark+kitPlacement) != "" {
		t.Errorf("marks: %v", x.GetAnnotations())
	}
}

// endingConn ends its leader right after one apply has taken effect.
type endingConn struct {
	backend.Conn
	of  string
	end func()
}

func (e *endingConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	got, err := e.Conn.Apply(context.WithoutCancel(ctx), obj, o)
	if obj.GetName() == e.of {
		e.end()
	}
	return got, err
}

// TestAnotherRunTakesOverAtTheSameEpoch checks that another run of the same engine and epoch is
// fenced, too.
func TestAnotherRunTakesOverAtTheSameEpoch(t *testing.T) {
	k := newKit(t)
	k.place("C", 1, "r0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held, release := make(chan struct{}), make(chan struct{})
	u := k.leader(func(c backend.Conn) backend.Conn {
		return &endingConn{&hookedConn{c, func(op string, id snapshot.ID) {
			if op == "apply" && id.Name == "a" {
				close(held)
				<-release
			}
		}}, "a", cancel}
	})
	end := new(gate).start(ctx, u, k.want("B", 2, "r1"))
	<-held
	k.place("C", 2, "r2")
	before := k.state()
	close(release)
	<-end
	pausedTrial{}.compare(t, k, before)
	wantObjects(t, k, k.expected("C", false))
}

// TestBodyOfAnotherObject checks that a set is refused if its pages give an object the body of
// another object.
func TestBodyOfAnotherObject(t *testing.T) {
	k := newKit(t)
	set, err := snapshot.NewSet([]*unstructured.Unstructured{configMap("default", "a", "1"), configMap("default", "b", "1")})
	if err != nil {
		t.Fatal(err)
	}
	set.Items[0].Digest, set.Bodies[0] = set.Items[1].Digest, set.Bodies[1]
	set.Digest = snapshot.Digest(set.Root().Encode())
	k.sets[set.Digest], k.revs["X"] = set, set.Digest
	if _, err := k.leader(nil).Update(t.Context(), k.want("X", 1, "r1")); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "default/a") {
		t.Error(err)
	}
}

func TestCovers(t *testing.T) {
	type m = map[string]any
	for _, c := range []struct {
		live, want any
		ok         bool
	}{
		{m{"a": "1", "b": "2"}, m{"a": "1"}, true},
		{m{"a": "1"}, m{"a": "1", "b": "2"}, false},
		{m{"a": int64(3)}, m{"a": float64(3)}, true},
		{m{"a": float64(3)}, m{"a": int64(3)}, true},
		{m{"a": int64(3)}, m{"a": 3.5}, false},
		{m{"a": int64(1<<53 + 1)}, m{"a": float64(1 << 53)}, false},
		{m{"a": "3"}, m{"a": int64(3)}, false},
		{m{}, m{"a": m{}, "b": nil}, true},
		{m{"b": "x"}, m{"b": nil}, false},
		{m{"l": []any{m{"n": "a", "default": true}}}, m{"l": []any{m{"n": "a"}}}, true},
		{m{"l": []any{"a", "b"}}, m{"l": []any{"a"}}, false},
		{m{"l": []any{"a"}}, m{"l": []any{"b"}}, false},
		{m{"a": "x"}, m{"a": m{"b": "c"}}, false},
		{nil, true, false},
	} {
		if got := covers(c.live, c.want); got != c.ok {
			t.Errorf("covers(%v, %v) = %v", c.live, c.want, got)
		}
	}
}

// TestHostileStatus checks that a probe and a comparison end without a panic for any content of an
// object.
func TestHostileStatus(t *testing.T) {
	deep := map[string]any{}
	for range 10_000 {
		deep = map[string]any{"x": deep}
	}
	for _, status := range []any{"text", []any{"x"}, map[string]any{"conditions": "x"}, map[string]any{"conditions": []any{"x", nil, map[string]any{"type": int64(1)}}}, map[string]any{"observedGeneration": "x"}, deep} {
		for _, kind := range []string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "Pod", "Service", "PersistentVolumeClaim", "CustomResourceDefinition", "Widget"} {
			for _, apiVersion := range []string{"v1", "apps/v1", "batch/v1", "apiextensions.k8s.io/v1"} {
				obj := &unstructured.Unstructured{Object: map[string]any{
					"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "x", "generation": "x"}, "spec": status, "status": status,
				}}
				if h, err := (probes{}).probe(t.Context(), "c1", nil, obj); err != nil && !errors.Is(err, backend.ErrPermanent) {
					t.Errorf("%s %s: %+v, %v", apiVersion, kind, h, err)
				}
			}
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	if got := guard.Clip(strings.Repeat("a\n\x1b", 1000)); len(got) != 256 || strings.ContainsAny(got, "\n\x1b") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
