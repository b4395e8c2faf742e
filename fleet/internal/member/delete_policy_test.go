package member

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/placement"
)

// foundKit has a revision F of a namespace, of objects that existed before, and of one new object.
func foundKit(t *testing.T) *kit {
	k := newKit(t)
	k.revision("F", namespaceObject("pre"), configMap("default", "x", "ours"), configMap("pre", "y", "1"))
	return k
}

func (k *kit) withPolicy(rev string, epoch int64, run string, p placement.DeletePolicy) Assignment {
	a := k.want(rev, epoch, run)
	a.DeletePolicy = p
	return a
}

// TestDeletePolicyForAdoptedObjects checks that the policy decides whether an object
// that existed before is deleted, and that an object which is not deleted is reported with the
// reason.
func TestDeletePolicyForAdoptedObjects(t *testing.T) {
	owned := func(k *kit) {
		x := configMap("default", "x", "theirs")
		x.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "bystander", UID: "u"}})
		k.exists(x)
	}
	inside := func(objs ...*unstructured.Unstructured) func(*kit) {
		return func(k *kit) {
			for _, obj := range objs {
				k.exists(obj)
			}
		}
	}
	ofKubernetes := []*unstructured.Unstructured{
		configMap("pre", "kube-root-ca.crt", ""), object("v1", "ServiceAccount", "pre", "default"), object("v1", "Event", "pre", "e"),
		object("v1", "Endpoints", "pre", "e"),
	}
	dependent := object("v1", "Pod", "pre", "web-0")
	dependent.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "u"}})
	operated := object("v1", "Secret", "pre", "made-by-operator")
	operated.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Tenant", Name: "pre", UID: "u"}})
	for _, c := range []struct {
		name      string
		policy    placement.DeletePolicy
		orphan    bool
		before    func(*kit)
		wrap      func(backend.Conn) backend.Conn
		x, pre, y bool
		told      []string
	}{
		{name: "by default", x: true, pre: true, told: []string{"default/x", "Namespace.v1 pre", "only what it created"}},
		{name: "DeleteCreated", policy: placement.DeleteCreated, x: true, pre: true, told: []string{"default/x", "only what it created"}},
		{name: "Delete", policy: placement.DeleteAll},
		{name: "Abandon before the placement is deleted", policy: placement.Abandon},
		{name: "Abandon when it is", policy: placement.Abandon, orphan: true, x: true, pre: true, y: true},
		{
			name: "an object with an owner", policy: placement.DeleteAll, before: owned, x: true,
			told: []string{"default/x", "ConfigMap bystander owns it"},
		},
		{name: "a namespace with what Kubernetes puts there", policy: placement.DeleteAll, before: inside(ofKubernetes...)},
		{name: "a namespace with dependents of built-in kinds", policy: placement.DeleteAll, before: inside(dependent)},
		{
			name: "a namespace with an object of others", policy: placement.DeleteAll, before: inside(configMap("pre", "theirs", "v")), pre: true,
			told: []string{"pre/theirs is in it"},
		},
		{
			name: "a namespace with an object of an operator", policy: placement.DeleteAll, before: inside(operated), pre: true,
			told: []string{"made-by-operator is in it"},
		},
		{
			name: "a namespace that cannot be listed", policy: placement.DeleteAll, wrap: unlisted(errors.ErrUnsupported), pre: true,
			told: []string{"cannot be listed"},
		},
		{
			name: "a namespace that may not be listed", policy: placement.DeleteAll,
			wrap: unlisted(fmt.Errorf("secrets is forbidden: %w", backend.ErrPermanent)),
			pre:  true, told: []string{"cannot be listed", "secrets is forbidden"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := foundKit(t)
			if c.before != nil {
				c.before(k)
			}
			k.must(k.leader(c.wrap), k.withPolicy("F", 1, "r1", c.policy))
			a := k.withPolicy("", 1, "r2", c.policy)
			a.Orphan, a.Final = c.orphan, c.orphan
			r := k.must(k.leader(c.wrap), a)
			if !r.Healthy {
				t.Errorf("the removal: %+v", r)
			}
			got := k.objects()
			for name, want := range map[string]bool{"ConfigMap/default/x": c.x, "Namespace/pre": c.pre, "ConfigMap/pre/y": c.y} {
				if v, there := got[name]; there != want || strings.Contains(v, "ours+") {
					t.Errorf("%s is there: %v (%q), want %v", name, there, v, want)
				}
			}
			for _, text := range c.told {
				if !strings.Contains(r.Released, text) {
					t.Errorf("the report does not say %q: %q", text, r.Released)
				}
			}
			if len(c.told) == 0 && r.Released != "" {
				t.Errorf("released: %q", r.Released)
			}
		})
	}
}

// unlisted makes listing fail.
func unlisted(err error) func(backend.Conn) backend.Conn {
	return func(c backend.Conn) backend.Conn { return &unlistedConn{c, err} }
}

type unlistedConn struct {
	backend.Conn
	err error
}

func (u *unlistedConn) List(context.Context, string) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) { yield(nil, u.err) }
}

// TestDeletePolicyNeedsTheObjectAndTheLedger checks that an object without a mark of the placement
// is not deleted, whatever its ledger says, and that an object outside the ledger is not deleted.
func TestDeletePolicyNeedsTheObjectAndTheLedger(t *testing.T) {
	for name, spoil := range map[string]func(k *kit){
		"a mark that was taken away": func(k *kit) { k.exists(configMap("default", "x", "theirs")) },
		"another object of that name": func(k *kit) {
			if err := k.member.Delete(configMapID("default", "x")); err != nil {
				t.Fatal(err)
			}
			k.exists(configMap("default", "x", "theirs"))
		},
		"a ledger that does not have it": func(k *kit) {
			k.forge(func(l *ledger) { l.Objects = withoutObject(l.Objects, ledgerObject{ID: configMapID("default", "x")}) })
		},
		"a ledger that has another object": func(k *kit) {
			k.forge(func(l *ledger) { l.Objects = append(l.Objects, k.made(configMapID("default", "bystander"))) })
			k.exists(configMap("default", "x", "theirs"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := foundKit(t)
			k.must(k.leader(nil), k.withPolicy("F", 1, "r1", placement.DeleteAll))
			spoil(k)
			k.must(k.leader(nil), k.withPolicy("", 1, "r2", placement.DeleteAll))
			for _, object := range []string{"x", "bystander"} {
				if _, err := k.member.Get(configMapID("default", object)); err != nil {
					t.Errorf("%s was deleted", object)
				}
			}
		})
	}
}

// TestDeletePolicyAfterACrash checks that the next update completes a removal that was interrupted
// at any call.
func TestDeletePolicyAfterACrash(t *testing.T) {
	for n := 1; ; n++ {
		k := foundKit(t)
		k.must(k.leader(nil), k.withPolicy("F", 1, "r1", placement.DeleteAll))
		plan := faulty.NewPlan(faulty.CrashAfter(n))
		dies := k.leader(func(c backend.Conn) backend.Conn { return plan.Conn(c, "c1") })
		_, _ = dies.Update(t.Context(), k.withPolicy("", 2, "r2", placement.DeleteAll))
		if r := k.must(k.leader(nil), k.withPolicy("", 3, "r3", placement.DeleteAll)); !r.Healthy || r.Released != "" {
			t.Errorf("crash at call %d: %+v", n, r)
		}
		if got := k.objects(); len(got) != 1 {
			t.Errorf("crash at call %d: %v", n, got)
		}
		if !plan.Crashed() {
			return
		}
	}
}

// TestDeletePolicyInAPreview checks that a preview says which objects are deleted and which are
// released.
func TestDeletePolicyInAPreview(t *testing.T) {
	for policy, want := range map[placement.DeletePolicy]drift.Reason{placement.DeleteCreated: drift.ToRelease, placement.DeleteAll: drift.ToRemove} {
		k := foundKit(t)
		k.must(k.leader(nil), k.withPolicy("F", 1, "r1", policy))
		var out drift.ClusterReport
		if _, err := k.leader(nil).Preview(t.Context(), k.withPolicy("", 2, "r2", policy), nil, &out); err != nil {
			t.Fatal(err)
		}
		got := map[string]drift.Reason{}
		for _, o := range out.Objects {
			got[o.Name] = o.Reason
		}
		if got["x"] != want || got["y"] != drift.ToRemove {
			t.Errorf("%s: %v", policy, got)
		}
	}
}
