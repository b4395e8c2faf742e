package member

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// failingConn fails the calls that fail selects.
type failingConn struct {
	backend.Conn
	fail func(op string, id snapshot.ID) error
}

func (f *failingConn) Get(ctx context.Context, id snapshot.ID) (*unstructured.Unstructured, error) {
	if err := f.fail("get", id); err != nil {
		return nil, err
	}
	return f.Conn.Get(ctx, id)
}

func (f *failingConn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	if err := f.fail("apply", snapshot.IDOf(obj)); err != nil {
		return nil, err
	}
	return f.Conn.Apply(ctx, obj, o)
}

func (f *failingConn) Delete(ctx context.Context, id snapshot.ID, o backend.DeleteOptions) error {
	if err := f.fail("delete", id); err != nil {
		return err
	}
	return f.Conn.Delete(ctx, id, o)
}

// errInternal is the answer of an API server that fails for an object.
var errInternal = &apierrors.StatusError{ErrStatus: metav1.Status{
	Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "planted",
}}

// failingKit is a kit with a leader whose member fails the calls in fails, by operation and name,
// and counts all calls.
type failingKit struct {
	*kit
	u     *Applier
	fails map[string]error
	calls int
	noted []string // the objects that were reported as failing
}

// newFailingKit returns a kit with the revision S: namespace s with the ConfigMaps a and b and the
// Deployment web, which belongs to a later phase. T is the same with another version of a.
func newFailingKit(t *testing.T) *failingKit {
	s := &failingKit{kit: newKit(t), fails: map[string]error{}}
	web := object("apps/v1", "Deployment", "s", "web")
	s.revision("S", namespaceObject("s"), configMap("s", "a", "1"), configMap("s", "b", "1"), web)
	s.revision("T", namespaceObject("s"), configMap("s", "a", "2"), configMap("s", "b", "1"), web)
	s.u = s.leader(func(c backend.Conn) backend.Conn {
		return &failingConn{c, func(op string, id snapshot.ID) error {
			s.calls++
			if err := s.fails["all"]; err != nil {
				return err
			}
			return s.fails[op+" "+id.Name]
		}}
	})
	s.u.noted = func(_ *Assignment, _ bool, objects []apply.FailingObject) {
		s.noted = nil
		for _, o := range objects {
			s.noted = append(s.noted, o.ID.String())
		}
	}
	return s
}

func (s *failingKit) has(name string) bool {
	_, ok := s.objects()[name]
	return ok
}

// update carries out a revision for an attempt.
func (s *failingKit) update(rev, run string, attempt int) (backend.Proof, error) {
	a := s.want(rev, 1, run)
	a.Attempt = attempt
	return s.u.Update(s.t.Context(), a)
}

const a = "ConfigMap.v1 s/a"

// waits carries out a revision n times, and expects that it waits for object a.
func (s *failingKit) waits(rev, run string, attempt, n int) {
	s.t.Helper()
	for i := range n {
		r, err := s.update(rev, run, attempt)
		if err != nil || r.Applied || !strings.Contains(r.Message, a) {
			s.t.Fatalf("update %d: %+v, %v", i, r, err)
		}
		if d := cmp.Diff([]string{a}, s.noted); d != "" {
			s.t.Fatalf("update %d: failing (-want +got):\n%s", i, d)
		}
	}
}

// refuses carries out a revision, and expects that object a counts as refused.
func (s *failingKit) refuses(rev, run string, attempt int) {
	s.t.Helper()
	_, err := s.update(rev, run, attempt)
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), a) || !strings.Contains(err.Error(), "planted") {
		s.t.Fatalf("%v, want a refusal of %s", err, a)
	}
}

// TestAnObjectThatFailsHoldsBackNoOther checks that an object delays only later phases, and only
// for a while, if the member answers its calls with 500. Then it counts as refused, by its name.
func TestAnObjectThatFailsHoldsBackNoOther(t *testing.T) {
	for name, failure := range map[string]error{
		"with 500": errInternal, "without an answer": context.DeadlineExceeded, "somehow": errors.New("planted"),
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(failure.Error(), "planted") {
				failure = fmt.Errorf("planted: %w", failure)
			}
			s := newFailingKit(t)
			s.fails["apply a"] = failure
			s.waits("S", "r1", 1, 1)
			if !s.has("ConfigMap/s/b") || s.has("Deployment/s/web") || s.ledger().Phase != ledgerApplying {
				t.Errorf("its phase goes on and later ones wait: %v, %s", s.objects(), s.ledger().Phase)
			}
			s.waits("S", "r1", 1, triesMost-1)
			s.refuses("S", "r1", 1)
			if !s.has("Deployment/s/web") || s.ledger().Phase != ledgerApplying {
				t.Errorf("later phases go on, and the intent stays open: %v, %s", s.objects(), s.ledger().Phase)
			}
			if d := cmp.Diff([]string{a}, s.noted); d != "" {
				t.Errorf("failing (-want +got):\n%s", d)
			}
			delete(s.fails, "apply a")
			if r, err := s.update("S", "r1", 1); err != nil || !r.Applied || !r.Current {
				t.Errorf("once it is accepted: %+v, %v", r, err)
			}
		})
	}
}

// TestFailuresOfAnObjectAreCountedInARow checks that the count restarts at zero after a success,
// for another version, and in another attempt.
func TestFailuresOfAnObjectAreCountedInARow(t *testing.T) {
	for name, between := range map[string]func(s *failingKit) (rev, run string, attempt int){
		"a success": func(s *failingKit) (string, string, int) {
			delete(s.fails, "apply a")
			s.fails["apply b"] = errInternal
			s.exists(configMap("s", "b", "edited"))
			if _, err := s.update("S", "r1", 1); err != nil {
				s.t.Fatal(err)
			}
			delete(s.fails, "apply b")
			s.fails["apply a"] = errInternal
			s.exists(configMap("s", "a", "edited"))
			return "S", "r1", 1
		},
		"another version": func(*failingKit) (string, string, int) { return "T", "r1", 1 },
		"another attempt": func(*failingKit) (string, string, int) { return "S", "r1", 2 },
		"another run":     func(*failingKit) (string, string, int) { return "S", "r2", 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFailingKit(t)
			s.fails["apply a"] = errInternal
			s.waits("S", "r1", 1, triesMost)
			rev, run, attempt := between(s)
			s.waits(rev, run, attempt, triesMost)
			s.refuses(rev, run, attempt)
		})
	}
}

// TestAMemberThatFailsRefusesNothing checks that the member fails if no object succeeds: the update
// is retried without end, and no object is refused.
func TestAMemberThatFailsRefusesNothing(t *testing.T) {
	for name, plant := range map[string]func(s *failingKit){
		"all calls": func(s *failingKit) { s.fails["all"] = errInternal },
		"all objects": func(s *failingKit) {
			s.fails["apply s"], s.fails["apply a"], s.fails["apply b"] = errInternal, errInternal, errInternal
		},
		"all deletes": func(s *failingKit) {
			s.fails["delete a"], s.fails["delete b"], s.fails["delete web"] = errInternal, errInternal, errInternal
		},
		"the ledger": func(s *failingKit) { s.fails["apply "+kitPlacement] = errInternal },
		"all readings": func(s *failingKit) {
			s.fails["get s"], s.fails["get a"], s.fails["get b"], s.fails["get web"] = errInternal, errInternal, errInternal, errInternal
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFailingKit(t)
			rev := "S"
			if name == "all deletes" {
				s.revision("W", configMap("s", "a", "1"), configMap("s", "b", "1"))
				s.exists(namespaceObject("s"))
				s.place("W", 1, "r0")
				rev = ""
			}
			plant(s)
			for i := range 2 * triesMost {
				_, err := s.update(rev, "r1", 1)
				if err == nil || errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "planted") {
					t.Fatalf("update %d: %v", i, err)
				}
			}
		})
	}
}

// TestUnreachableMemberIsTriedOnceMore checks that a member which has stopped answering is not
// asked for every object.
func TestUnreachableMemberIsTriedOnceMore(t *testing.T) {
	s := newFailingKit(t)
	var objs []*unstructured.Unstructured
	for i := range 50 {
		objs = append(objs, configMap("default", fmt.Sprint("o", i), "1"))
	}
	s.revision("many", objs...)
	s.fails["all"] = errInternal
	if _, err := s.update("many", "r1", 1); err == nil {
		t.Fatal("no error")
	}
	if s.calls > 2 {
		t.Errorf("it was called %d times", s.calls)
	}
	delete(s.fails, "all")
	s.u.conns.Close()
	s.u.conns = s.leader(func(c backend.Conn) backend.Conn {
		return &failingConn{c, func(op string, id snapshot.ID) error {
			s.calls++
			if s.calls > 60 { // in the middle of the objects
				return errInternal
			}
			return nil
		}}
	}).conns
	s.calls = 0
	if _, err := s.update("many", "r1", 1); err == nil || errors.Is(err, backend.ErrPermanent) {
		t.Fatal(err)
	}
	if s.calls > 62 {
		t.Errorf("it was called %d times after it had stopped", s.calls-60)
	}
}

// TestAnObjectThatCannotBeReadHoldsBackNoOther checks that an object which cannot be read is
// neither applied nor removed, while the others are.
func TestAnObjectThatCannotBeReadHoldsBackNoOther(t *testing.T) {
	s := newFailingKit(t)
	s.fails["get a"] = errInternal
	s.waits("S", "r1", 1, triesMost)
	if !s.has("ConfigMap/s/b") || s.has("ConfigMap/s/a") || s.has("Deployment/s/web") {
		t.Error(s.objects())
	}
	s.refuses("S", "r1", 1)
	if s.has("ConfigMap/s/a") || !s.has("Deployment/s/web") {
		t.Error(s.objects())
	}
	delete(s.fails, "get a")
	if r, err := s.update("S", "r1", 2); err != nil || !r.Current {
		t.Fatalf("%+v, %v", r, err)
	}
	before := s.ledger()

	// If nothing else is left to do, the update begins nothing.
	s.fails["get a"] = errInternal
	for range triesMost {
		if r, err := s.update("S", "r2", 1); err == nil || errors.Is(err, backend.ErrPermanent) || r.Sent {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	s.refuses("S", "r2", 1)
	if d := cmp.Diff(before, s.ledger()); d != "" {
		t.Errorf("the ledger (-before +after):\n%s", d)
	}

	// The ledger keeps its entry.
	s.revision("V", namespaceObject("s"), configMap("s", "a", "1"), configMap("s", "b", "2"), object("apps/v1", "Deployment", "s", "web"))
	s.waits("V", "r2", 2, 1)
	entry := func(l *ledger) ledgerObject {
		return l.Objects[slices.IndexFunc(l.Objects, func(o ledgerObject) bool { return o.Name == "a" })]
	}
	if d := cmp.Diff(entry(before), entry(s.ledger())); d != "" {
		t.Errorf("its entry (-before +after):\n%s", d)
	}

	delete(s.fails, "get a")
	if _, err := s.update("V", "r2", 2); err != nil {
		t.Fatal(err)
	}
	s.fails["get a"] = errInternal

	// An undesired object stays, and so do the objects that it may need.
	s.revision("N", namespaceObject("s"))
	if r, err := s.update("N", "r3", 1); err != nil || !strings.Contains(r.Message, a) {
		t.Errorf("%+v, %v", r, err)
	}
	if s.has("ConfigMap/s/b") || !s.has("ConfigMap/s/a") || !s.has("Namespace/s") {
		t.Error(s.objects())
	}
}

// TestADeletionThatFailsHoldsBackNoOther checks that a failed or refused deletion keeps only the
// objects that the object may need.
func TestADeletionThatFailsHoldsBackNoOther(t *testing.T) {
	s := newFailingKit(t)
	if _, err := s.update("S", "r1", 1); err != nil {
		t.Fatal(err)
	}
	s.fails["delete a"] = errInternal
	for range triesMost {
		r, err := s.update("", "r2", 1)
		if err != nil || r.Applied || !strings.Contains(r.Message, a) {
			t.Fatalf("%+v, %v", r, err)
		}
		if s.has("ConfigMap/s/b") || s.has("Deployment/s/web") || !s.has("Namespace/s") {
			t.Fatal(s.objects())
		}
	}
	s.refuses("", "r2", 1)
	if !s.has("Namespace/s") {
		t.Error("its namespace was deleted, and it with that")
	}
	delete(s.fails, "delete a")
	if r, err := s.update("", "r2", 1); err != nil || !r.Healthy {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestFailingMarkDelaysATakeoverForALimitedTime checks that a leader which takes over marks every
// object that can be marked before it writes the ledger. An object whose mark fails again and again
// delays it only until that counts as a refusal.
func TestFailingMarkDelaysATakeoverForALimitedTime(t *testing.T) {
	s := newFailingKit(t)
	s.place("S", 1, "r0")
	s.forge(func(l *ledger) { l.Phase, l.Target, l.Revision = ledgerApplying, l.Revision, "" })
	s.fails["apply a"] = errInternal
	for i := range triesMost {
		if _, err := s.update("T", "r1", 1); err == nil || errors.Is(err, backend.ErrPermanent) || s.ledger().RunUID != "uid-r0" {
			t.Fatalf("update %d: %v, run %s", i, err, s.ledger().RunUID)
		}
	}
	s.revision("U", namespaceObject("s"), configMap("s", "a", "1"), configMap("s", "b", "2"))
	delete(s.fails, "apply a")
	s.fails["get a"] = errInternal
	for i := range triesMost {
		if _, err := s.update("U", "r2", 1); err == nil || errors.Is(err, backend.ErrPermanent) || s.ledger().RunUID != "uid-r0" {
			t.Fatalf("update %d: %v, run %s", i, err, s.ledger().RunUID)
		}
	}
	s.refuses("U", "r2", 1)
	if s.objects()["ConfigMap/s/b"] != "2+ours" {
		t.Error(s.objects())
	}
}

// TestFailuresThatAreCountedAreBounded checks that the counts are bounded, whatever members answer.
func TestFailuresThatAreCountedAreBounded(t *testing.T) {
	c := newFailureCounts()
	many := make([]*target, triesKept)
	for i := range many {
		many[i] = &target{id: configMapID("n", fmt.Sprint(i))}
	}
	one, two := &Assignment{}, &Assignment{}
	one.Placement, two.Placement = "p", "q"
	c.note(one, many)
	if c.of(one, many[7]) != 1 {
		t.Errorf("%d", c.of(one, many[7]))
	}
	c.note(two, many[:1])
	if c.of(one, many[7]) != 0 || c.of(two, many[0]) != 1 {
		t.Errorf("%d and %d", c.of(one, many[7]), c.of(two, many[0]))
	}
	c.note(two, nil)
	if n := c.at.Len(); n != 0 {
		t.Errorf("%d clusters", n)
	}
}
