package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

// ordered has one object for each rule of the order, in order.
func ordered() []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		object("scheduling.k8s.io/v1", "PriorityClass", "", "high"),
		object("v1", "Namespace", "", "z"),
		object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", "certs"),
		object("v1", "ServiceAccount", "z", "web"),
		object("v1", "Secret", "z", "web"),
		object("v1", "ConfigMap", "a", "b"),
		object("v1", "ConfigMap", "z", "a"),
		object("v1", "ConfigMap", "z", "b"),
		object("v1", "PersistentVolumeClaim", "z", "disk"),
		object("rbac.authorization.k8s.io/v1", "Role", "z", "web"),
		object("v1", "Service", "z", "web"),
		object("apps/v1", "Deployment", "z", "web"),
		object("apps/v1", "StatefulSet", "z", "db"),
		object("batch/v1", "CronJob", "z", "tidy"),
		object("networking.k8s.io/v1", "Ingress", "z", "web"),
		object("apiregistration.k8s.io/v1", "APIService", "", "v1.x"),
		object("cert-manager.io/v1", "Certificate", "z", "web"),
		object("cert-manager.io/v1", "Issuer", "z", "ca"),
		object("serving.knative.dev/v1", "Service", "a", "fn"),
		object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "", "m"),
		object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "v"),
	}
}

func TestNewSetOrder(t *testing.T) {
	objs := ordered()
	want := names(objs)
	set := mustSet(t, objs...)
	slices.Reverse(objs)
	if again := mustSet(t, objs...); again.Digest != set.Digest {
		t.Error("the digest depends on the order of the objects")
	}
	var got []string
	for i, item := range set.Items {
		got = append(got, item.String())
		if i > 0 && set.Items[i-1].Compare(item.ID) != -1 || item.Compare(item.ID) != 0 || i > 0 && item.Compare(set.Items[i-1].ID) != 1 {
			t.Errorf("Compare disagrees with the order at %s", item)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestNewSetBodies(t *testing.T) {
	set := mustSet(t, object("v1", "ConfigMap", "n", "b"), object("v1", "ConfigMap", "n", "a"))
	want := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`
	if string(set.Bodies[0]) != want {
		t.Errorf("body %s, want %s", set.Bodies[0], want)
	}
	for i, item := range set.Items {
		if err := snapshot.Verify(set.Bodies[i], item.Digest); err != nil {
			t.Errorf("%s: %v", item, err)
		}
	}
	if got := snapshot.Digest(set.Root().Encode()); got != set.Digest {
		t.Errorf("digest %s, want that of the root, %s", set.Digest, got)
	}
	empty := mustSet(t)
	if len(empty.Items) != 0 || empty.Digest == "" || empty.Digest == set.Digest {
		t.Errorf("the empty set is %+v", empty)
	}
}

func TestNewSetErrors(t *testing.T) {
	bad := object("v1", "ConfigMap", "n", "bad")
	bad.Object["data"] = 5
	tests := []struct {
		name string
		objs []*unstructured.Unstructured
		want []string
	}{
		{"twice", []*unstructured.Unstructured{
			object("v1", "ConfigMap", "n", "a"), object("v1", "Secret", "n", "b"), object("v1", "ConfigMap", "n", "a"), object("v1", "Secret", "n", "b"),
		}, []string{"ConfigMap.v1 n/a is there more than once", "Secret.v1 n/b is there more than once"}},
		{"twice in two versions", []*unstructured.Unstructured{
			object("apps/v1", "Deployment", "n", "a"), object("apps/v1beta1", "Deployment", "n", "a"),
		}, []string{"Deployment.v1beta1.apps n/a is there more than once"}},
		{"no names", []*unstructured.Unstructured{
			nil, {}, object("v1", "ConfigMap", "", ""), object("v1", "", "", "x"),
		}, []string{"object 0,", "object 1,", "object 2, ConfigMap.v1 (no name): metadata.name", "object 3, object.v1 x: kind"}},
		{"no canonical form", []*unstructured.Unstructured{bad}, []string{`ConfigMap.v1 n/bad: "/data": a value of type int`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := snapshot.NewSet(tt.objs)
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

// The tutorial's placement freezes exactly the objects that its snapshot shows.
func TestCaptureTutorial(t *testing.T) {
	hub := objects{
		parse(t, cleanCases[1].give), parse(t, cleanCases[0].give),
		object("v1", "ConfigMap", "test-namespace", "kube-root-ca.crt"),
		object("v1", "ServiceAccount", "test-namespace", "default"),
		object("v1", "ConfigMap", "default", "other"),
	}
	set, err := snapshot.Capture(t.Context(), hub, []snapshot.Selector{namespaces("test-namespace")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubernetes.io/metadata.name":"test-namespace"},"name":"test-namespace"},"spec":{"finalizers":["kubernetes"]}}`,
		`{"apiVersion":"v1","data":{"key":"value2"},"kind":"ConfigMap","metadata":{"name":"test-cm","namespace":"test-namespace"}}`,
	}
	var got []string
	for _, body := range set.Bodies {
		got = append(got, string(body))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
	}
}

func TestCaptureErrors(t *testing.T) {
	if _, err := snapshot.Capture(t.Context(), objects{}, nil); err == nil {
		t.Error("no selectors, no error")
	}
}

func TestIDString(t *testing.T) {
	tests := []struct {
		id   snapshot.ID
		want string
	}{
		{snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "test-namespace", Name: "test-cm"}, "ConfigMap.v1 test-namespace/test-cm"},
		{snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "n", Name: "web"}, "Deployment.v1.apps n/web"},
		{snapshot.ID{Version: "v1", Kind: "Namespace", Name: "n"}, "Namespace.v1 n"},
		{snapshot.ID{}, "object (no name)"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(tt.id); got != tt.want {
			t.Errorf("String = %q, want %q", got, tt.want)
		}
	}
}

func TestCompare(t *testing.T) {
	valued := func(name, value string) *unstructured.Unstructured {
		return with(object("v1", "ConfigMap", "n", name), value, "data")
	}
	before := mustSet(t, valued("a", "1"), valued("b", "1"), valued("d", "1"), valued("e", "1"), object("apps/v1beta1", "Deployment", "n", "w"))
	after := mustSet(t, valued("b", "1"), valued("c", "1"), valued("d", "2"), valued("f", "1"), object("apps/v1", "Deployment", "n", "w"))
	id := func(name string) snapshot.ID {
		return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "n", Name: name}
	}
	want := snapshot.Changes{
		Added:   []snapshot.ID{id("c"), id("f")},
		Removed: []snapshot.ID{id("a"), id("e")},
		Changed: []snapshot.ID{id("d"), {Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "n", Name: "w"}},
	}
	got := snapshot.Compare(before.Items, after.Items)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Compare (-want +got):\n%s", diff)
	}
	if got.Empty() || !snapshot.Compare(before.Items, before.Items).Empty() || !snapshot.Compare(nil, nil).Empty() {
		t.Error("Empty is wrong")
	}
	old, renamed := snapshot.Item{ID: id("x")}, snapshot.Item{ID: id("x")}
	old.Version = "v1beta1"
	if got := snapshot.Compare([]snapshot.Item{old}, []snapshot.Item{renamed}); len(got.Changed) != 1 {
		t.Errorf("another version under the same digest: %+v, want it changed", got)
	}
	if got := snapshot.Compare(nil, after.Items); len(got.Added) != 5 || snapshot.Compare(after.Items, nil).Empty() {
		t.Errorf("Compare with nothing = %+v", got)
	}
}
