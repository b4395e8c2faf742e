package member_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// install applies manifests.
func install(t *testing.T, c backend.Conn, objects []*unstructured.Unstructured) {
	t.Helper()
	for _, obj := range objects {
		if _, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: "installer"}); err != nil {
			t.Fatal(err)
		}
	}
}

// installFence installs the result of FenceManifests until the test ends. The policy that reads
// ledgers is not removed, as FenceManifests requires; it refuses no requests of other tests.
func installFence(t *testing.T, c backend.Conn) {
	t.Helper()
	rbac, err := member.RBACManifests(rbacv1.Subject{Kind: "User", Name: "nobody", APIGroup: rbacv1.GroupName})
	if err != nil {
		t.Fatal(err)
	}
	install(t, c, rbac)
	fence, err := member.FenceManifests()
	if err != nil {
		t.Fatal(err)
	}
	install(t, c, fence)
	t.Cleanup(func() {
		for _, obj := range fence {
			if obj.GetName() == "slipway-fence-creations" {
				continue
			}
			_ = c.Delete(context.WithoutCancel(t.Context()), snapshot.IDOf(obj), backend.DeleteOptions{})
		}
	})
}

func ledgerOf(name string, epoch int) *unstructured.Unstructured {
	text, _ := json.Marshal(struct {
		Run   string `json:"run"`
		Epoch int    `json:"epoch"`
		Note  string `json:"note"`
	}{`"epoch":99`, epoch, `"epoch":99`})
	return configMap("slipway-system", name, "ledger", string(text))
}

// labelled returns obj with the label by which the policies of a fence select applied objects.
func labelled(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetLabels(map[string]string{"slipway.dev/applied": "true"})
	return obj
}

func marked(ns, mark string) *unstructured.Unstructured {
	obj := labelled(configMap(ns, "a", "v", mark))
	if mark != "" {
		obj.SetAnnotations(map[string]string{"epoch.slipway.dev/shop": mark})
	}
	return obj
}

// TestAMemberWithTheFenceRefusesOlderEpochs writes without preconditions, as no engine does.
func TestAMemberWithTheFenceRefusesOlderEpochs(t *testing.T) {
	s := clusters.Server(t, "two")
	c, ns := connTo(t, s), s.Namespace(t)
	installFence(t, c)
	write := func(obj *unstructured.Unstructured) error {
		_, err := c.Apply(t.Context(), obj, backend.ApplyOptions{Manager: manager})
		return err
	}
	allowed := func(obj *unstructured.Unstructured) {
		t.Helper()
		if err := write(obj); err != nil {
			t.Error(err)
		}
	}
	fenced := func(obj *unstructured.Unstructured) {
		t.Helper()
		if err := write(obj); !errors.Is(err, backend.ErrFenced) || errors.Is(err, backend.ErrPermanent) {
			t.Errorf("the error is %v, want that it is fenced", err)
		}
	}
	allowed(ledgerOf(ns, 10))
	allowed(marked(ns, "10.2.uid"))
	kubetest.Eventually(t, "the policies taking effect", func() bool {
		allowed(ledgerOf(ns, 10))
		allowed(marked(ns, "10.2.uid"))
		return errors.Is(write(ledgerOf(ns, 9)), backend.ErrFenced) && errors.Is(write(marked(ns, "9.2.uid")), backend.ErrFenced)
	})
	fenced(ledgerOf(ns, 2))
	fenced(configMap("slipway-system", ns, "ledger", "gone"))
	allowed(ledgerOf(ns, 10))
	allowed(ledgerOf(ns, 11))
	fenced(ledgerOf(ns, 10))
	allowed(ledgerOf(ns, 100))
	fenced(marked(ns, "10.1.uid"))
	fenced(marked(ns, "9.9.uid"))
	fenced(marked(ns, "nonsense"))
	allowed(marked(ns, "10.10.uid"))
	fenced(marked(ns, "10.9.uid"))
	allowed(marked(ns, "11.0.uid"))
	allowed(marked(ns, "1.0.another"))
	allowed(marked(ns, ""))
	allowed(marked(ns, "nonsense"))
	allowed(marked(ns, "1.0.uid"))
	// The engine is at home there.
	r := newRollout(t, ns+"-run", s.Config(), placement.Cluster{Name: "one"})
	r.put(configMap(ns, "b"))
	r.start()
	if status := r.run("first"); status.Run.State != stages.Completed {
		t.Errorf("the run is %s", status.Run.State)
	}
}

// secretIn returns the object of the tests of rights. No other required object has its kind.
func secretIn(ns, name string) *unstructured.Unstructured {
	obj := configMap(ns, name)
	obj.SetKind("Secret")
	return obj
}

// grantMember grants the result of RBACManifests to a user, without the verbs that take removes
// from a rule.
func grantMember(t *testing.T, s *kubeenv.Server, user string, take func(role string, verbs []any) []any) {
	t.Helper()
	objects, err := member.RBACManifests(rbacv1.Subject{Kind: "User", Name: user, APIGroup: rbacv1.GroupName}, schema.GroupResource{Resource: "secrets"})
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		rules, _ := obj.Object["rules"].([]any)
		for _, rule := range rules {
			m := rule.(map[string]any)
			m["verbs"] = take(obj.GetName(), m["verbs"].([]any))
		}
	}
	install(t, connTo(t, s), objects)
}

// TestAnEngineNeedsExactlyTheRightsOfRBACManifests removes each right in turn.
func TestAnEngineNeedsExactlyTheRightsOfRBACManifests(t *testing.T) {
	s := clusters.Server(t, "two")
	member := placement.Cluster{Name: "one", UID: kubeSystem(t, s)}
	tests := []struct {
		role, verb, says string
		again            bool
	}{
		{"", "", "", false},
		{"slipway-identity", "get", `cannot get resource "namespaces"`, false},
		{"slipway-ledgers", "get", `cannot get resource "configmaps"`, false},
		{"slipway-ledgers", "patch", `cannot patch resource "configmaps"`, false},
		{"slipway-ledgers", "create", `cannot create resource "configmaps"`, false},
		{"slipway-carried", "get", `cannot get resource "secrets"`, true},
		{"slipway-carried", "patch", `cannot patch resource "secrets"`, false},
		{"slipway-carried", "create", `cannot create resource "secrets"`, false},
		{"slipway-carried", "delete", `cannot delete resource "secrets"`, true},
		{"slipway-carried", "list", "", false},
		{"slipway-carried", "watch", "", false},
		{"slipway-ledgers", "list", "", false},
		{"slipway-ledgers", "watch", "", false},
	}
	for i, test := range tests {
		t.Run(strings.TrimSpace("without "+test.verb+" "+test.role), func(t *testing.T) {
			ns, user := s.Namespace(t), fmt.Sprint("member-", i)
			grantMember(t, s, user, func(role string, verbs []any) []any {
				left := slices.DeleteFunc(slices.Clone(verbs), func(v any) bool { return role == test.role && v == test.verb })
				if len(left) == 0 {
					left = []any{"deletecollection"} // a rule has a verb
				}
				return left
			})
			awaitRights(t, s, user, test.role, test.verb)
			r := newRollout(t, ns, s.ConfigFor(user), member)
			r.put(secretIn(ns, "a"), secretIn(ns, "b"))
			r.start()
			r.begin("first")
			if test.again {
				// An object that the placement created without a read must be read or deleted the next time.
				r.wait("first")
				r.put(secretIn(ns, "a"))
				r.begin("second")
			}
			if test.says == "" {
				if status := r.wait("first"); status.Run.State != stages.Completed {
					t.Errorf("the run is %s: %s", status.Run.State, r.explain("first"))
				}
				return
			}
			kubetest.Eventually(t, test.says, func() bool {
				return strings.Contains(r.explain("first"), test.says) || strings.Contains(r.explain("second"), test.says)
			})
		})
	}
}

// awaitRights waits until the API server applies the rights of a user.
func awaitRights(t *testing.T, s *kubeenv.Server, user, role, without string) {
	t.Helper()
	client, err := kubernetes.NewForConfig(s.ConfigFor(user))
	if err != nil {
		t.Fatal(err)
	}
	may := func(of, verb string, about authorizationv1.ResourceAttributes) bool {
		about.Verb = verb
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &about}}
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed != (of == role && verb == without)
	}
	kubetest.Eventually(t, "the rights", func() bool {
		ok := may("slipway-identity", "get", authorizationv1.ResourceAttributes{Resource: "namespaces", Name: "kube-system"})
		for _, verb := range []string{"get", "list", "watch", "create", "patch"} {
			ok = ok && may("slipway-ledgers", verb, authorizationv1.ResourceAttributes{Resource: "configmaps", Namespace: "slipway-system", Name: "a"})
		}
		for _, verb := range []string{"get", "list", "watch", "create", "patch", "delete"} {
			ok = ok && may("slipway-carried", verb, authorizationv1.ResourceAttributes{Resource: "secrets", Namespace: "default", Name: "a"})
		}
		return ok
	})
}
