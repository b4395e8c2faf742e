package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

const envelopes = "placement.kubernetes-fleet.io/v1beta1"

// envelope makes a ResourceEnvelope, without a namespace a ClusterResourceEnvelope.
func envelope(namespace, name string, data map[string]any) *unstructured.Unstructured {
	kind := "ResourceEnvelope"
	if namespace == "" {
		kind = "ClusterResourceEnvelope"
	}
	return with(object(envelopes, kind, namespace, name), data, "data")
}

func inside(objs ...*unstructured.Unstructured) map[string]any {
	data := map[string]any{}
	for i, obj := range objs {
		data[fmt.Sprintf("%d.yaml", i)] = obj.Object
	}
	return data
}

var picksEnvelopes = []snapshot.Selector{
	namespaces(""), {Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ClusterResourceEnvelope"}, clusterRoles,
}

// An envelope represents its content: the set equals the set of a hub with the objects
// themselves.
func TestCaptureUnpacksEnvelopes(t *testing.T) {
	webhook := object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "", "guard")
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader")
	quota := object("v1", "ResourceQuota", "shop", "limits")
	service := parse(t, `{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {ports: [{port: 80, nodePort: 30080}]}}`)
	copied := with(with(object("v1", "ConfigMap", "shop", "c"), "17", "metadata", "resourceVersion"), "here", "status", "phase")
	shop := object("v1", "Namespace", "", "shop")
	hub := objects{shop, envelope("", "guards", inside(webhook, role)), envelope("shop", "hard", inside(quota, service, copied))}
	before := fmt.Sprint(hub)
	got, err := snapshot.Capture(t.Context(), hub, picksEnvelopes)
	if err != nil {
		t.Fatal(err)
	}
	want := mustSet(t, shop, webhook, role, quota, service, object("v1", "ConfigMap", "shop", "c"))
	want.Envelopes = 2
	for i := range want.Items {
		switch want.Items[i].Kind {
		case "Namespace":
		case "ClusterRole", "ValidatingWebhookConfiguration":
			want.Items[i].Envelope = new(snapshot.IDOf(hub[1]))
		default:
			want.Items[i].Envelope = new(snapshot.IDOf(hub[2]))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Capture (-want +got):\n%s", diff)
	}
	if fmt.Sprint(hub) != before {
		t.Error("the objects of the source were changed")
	}
	items, err := snapshot.WithOrigins(mustSet(t, shop, webhook, role, quota, service, object("v1", "ConfigMap", "shop", "c")).Items, got.Origins())
	if diff := cmp.Diff(got.Items, items); err != nil || diff != "" {
		t.Errorf("the items with their origins: %v (-want +got):\n%s", err, diff)
	}
	// Another envelope with the same content is no change.
	moved := objects{envelope("shop", "b", inside(copied)), envelope("", "guards", inside(role, webhook)), shop, envelope("shop", "a", inside(service, quota))}
	again, err := snapshot.Capture(t.Context(), moved, picksEnvelopes)
	if err != nil || again.Digest != got.Digest {
		t.Errorf("Capture = %s, %v, want %s", again.Digest, err, got.Digest)
	}
}

// An object with a generateName and no name does not block the others: it is in the set and in
// its digest, but not an item. Its other problems are errors, as for any object.
func TestCaptureKeepsObjectsWithoutNamesApart(t *testing.T) {
	unnamed := func(namespace, generates string) *unstructured.Unstructured {
		return with(object("v1", "ConfigMap", namespace, ""), generates, "metadata", "generateName")
	}
	shop, named := object("v1", "Namespace", "", "shop"), object("v1", "ConfigMap", "shop", "c")
	capture := func(inside ...*unstructured.Unstructured) (snapshot.Set, error) {
		data := map[string]any{}
		for i, obj := range inside {
			data[fmt.Sprint(i)] = obj.Object
		}
		return snapshot.Capture(t.Context(), objects{shop, envelope("shop", "hard", data)}, picksEnvelopes)
	}
	plain, err := capture(named)
	if err != nil {
		t.Fatal(err)
	}
	got, err := capture(unnamed("shop", "b-"), named, unnamed("shop", "a-"))
	if err != nil {
		t.Fatal(err)
	}
	in := snapshot.ID{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "shop", Name: "hard"}
	id := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop"}
	want := []snapshot.Unplaced{{ID: id, GenerateName: "a-", Envelope: in}, {ID: id, GenerateName: "b-", Envelope: in}}
	if diff := cmp.Diff(want, got.Unplaced); diff != "" || len(got.Items) != 2 || got.Digest == plain.Digest {
		t.Errorf("%d items, digest %s, without them %s (-want +got):\n%s", len(got.Items), got.Digest, plain.Digest, diff)
	}
	if s := snapshot.New("web", 0, got, "", time.Time{}); !slices.Equal(s.Unplaced, want) || s.Origins != snapshot.Digest(got.Origins()) || s.Verify() != nil {
		t.Errorf("the snapshot is %+v, %v", s, s.Verify())
	}
	many := make([]*unstructured.Unstructured, snapshot.MaxUnplaced+1)
	for i := range many {
		many[i] = unnamed("shop", "a-")
	}
	for name, c := range map[string]struct {
		inside []*unstructured.Unstructured
		want   string
	}{
		"never placed": {[]*unstructured.Unstructured{with(object("v1", "Pod", "shop", ""), "a-", "metadata", "generateName")}, "Forbidden: Pod.v1 shop/(no name)"},
		"a long name":  {[]*unstructured.Unstructured{unnamed("shop", strings.Repeat("a", 254))}, "data[0].metadata.generateName: Too long"},
		"too many":     {many, "21 objects of envelopes are not placed, and a snapshot has room for 20: the first is ConfigMap.v1 shop/(no name) in ResourceEnvelope.v1beta1.placement.kubernetes-fleet.io shop/hard: it has the generateName"},
	} {
		if _, err := capture(c.inside...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestEnvelopeErrors(t *testing.T) {
	cm := func(namespace, name string) *unstructured.Unstructured {
		return object("v1", "ConfigMap", namespace, name)
	}
	many := map[string]any{}
	for i := range 51 {
		many[fmt.Sprint(i)] = cm("n", fmt.Sprint("c", i)).Object
	}
	const ofN, cluster = "ResourceEnvelope.v1beta1.placement.kubernetes-fleet.io n/e: ", "ClusterResourceEnvelope.v1beta1.placement.kubernetes-fleet.io e: "
	tests := []struct {
		name string
		hub  objects
		want []string
	}{
		{"no data", objects{object(envelopes, "ResourceEnvelope", "n", "e")}, []string{ofN + "data: Required value: must be a map of names to objects, at least one"}},
		{"data of another type", objects{with(object(envelopes, "ResourceEnvelope", "n", "e"), "x", "data")}, []string{ofN + "data: Required"}},
		{"too many", objects{envelope("n", "e", many)}, []string{ofN + "data: Too many: 51: must have at most 50 items"}},
		{"no object", objects{envelope("n", "e", map[string]any{"a": "text"})}, []string{ofN + "data[a]: Invalid value: must be an object with apiVersion, kind and metadata.name"}},
		{"no name", objects{envelope("n", "e", inside(object("v1", "ConfigMap", "n", "")))}, []string{ofN + "data[0.yaml]: Invalid value: metadata.name is missing"}},
		{"a reserved namespace", objects{envelope("", "e", inside(object("v1", "Namespace", "", "kube-system")))}, []string{cluster + "data[0.yaml]: Forbidden: Namespace.v1 kube-system is of a kind or in a namespace of which nothing is placed"}},
		{"what is never placed", objects{envelope("n", "e", inside(object("v1", "Pod", "n", "p"), cm("n", "kube-root-ca.crt")))}, []string{
			ofN + "[data[0.yaml]: Forbidden: Pod.v1 n/p is of a kind", "data[1.yaml]: Forbidden: ConfigMap.v1 n/kube-root-ca.crt",
		}},
		{"an envelope in an envelope", objects{envelope("n", "e", map[string]any{"f": envelope("n", "f", inside(cm("n", "c"))).Object})}, []string{ofN + "data[f]: Forbidden: ResourceEnvelope.v1beta1.placement.kubernetes-fleet.io n/f cannot be in an envelope"}},
		{"all at once", objects{envelope("n", "e", map[string]any{"a": "x", "b": object("v1", "Pod", "n", "p").Object}), envelope("", "e", inside(object("v1", "Namespace", "", "kube-system")))}, []string{
			ofN + "[data[a]: Invalid value", "data[b]: Forbidden: Pod.v1 n/p", cluster + "data[0.yaml]: Forbidden",
		}},
		{"a long name of what is not placed", objects{envelope("n", "e", inside(cm("m", strings.Repeat("a", 254))))}, []string{ofN + "data[0.yaml].metadata.name: Too long"}},
		{"a secret", objects{envelope("n", "e", map[string]any{"a": with(with(object("v1", "Secret", "n", "s"), "top-secret-value", "data", "password"), "", "kind").Object})}, []string{ofN + "data[a]: Invalid value"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hub := append(objects{object("v1", "Namespace", "", "n")}, tt.hub...)
			_, err := snapshot.Capture(t.Context(), hub, picksEnvelopes)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
			if strings.Contains(err.Error(), "top-secret-value") {
				t.Error("the error quotes a Secret")
			}
		})
	}
}

// An object that exists already and an object of the wrong scope block no other object: they are
// part of the set and of its digest, and not items. Of two equal objects, the selected one is
// placed, or else the object of the first envelope.
func TestCaptureSeparatesInvalidEnvelopeObjects(t *testing.T) {
	const group = "placement.kubernetes-fleet.io"
	e, f := snapshot.ID{Group: group, Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "n", Name: "e"}, snapshot.ID{Group: group, Version: "v1beta1", Kind: "ResourceEnvelope", Namespace: "n", Name: "f"}
	c := snapshot.ID{Group: group, Version: "v1beta1", Kind: "ClusterResourceEnvelope", Name: "c"}
	cm := func(namespace, name string) *unstructured.Unstructured {
		return object("v1", "ConfigMap", namespace, name)
	}
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader")
	shop, fine := object("v1", "Namespace", "", "n"), cm("n", "fine")
	const toNamespace, toCluster = "a ClusterResourceEnvelope carries objects that are in no namespace; put this one into a ResourceEnvelope in its namespace", "a ClusterRole is in no namespace; put it into a ClusterResourceEnvelope"
	for name, tt := range map[string]struct {
		hub  objects
		want []snapshot.Unplaced
		why  string
	}{
		"what is selected too": {
			objects{cm("n", "c"), envelope("n", "e", inside(cm("n", "c"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.IDOf(cm("n", "c")), Reason: snapshot.Duplicated, Envelope: e}},
			"the placement has this object already, selected, and places that one: remove it from one of the two",
		},
		"twice in one": {
			objects{envelope("n", "e", inside(cm("n", "c"), cm("n", "c"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.IDOf(cm("n", "c")), Reason: snapshot.Duplicated, Envelope: e, First: &e}},
			"the placement has this object already, in ResourceEnvelope.v1beta1.placement.kubernetes-fleet.io n/e, and",
		},
		"in two": {
			objects{envelope("n", "f", inside(cm("n", "c"))), envelope("n", "e", inside(cm("n", "c"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.IDOf(cm("n", "c")), Reason: snapshot.Duplicated, Envelope: f, First: &e}},
			"n/e, and places that one",
		},
		"in two versions": {
			objects{envelope("n", "e", inside(object("apps/v1", "Deployment", "n", "d"), object("apps/v1beta1", "Deployment", "n", "d"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.ID{Group: "apps", Version: "v1beta1", Kind: "Deployment", Namespace: "n", Name: "d"}, Reason: snapshot.Duplicated, Envelope: e, First: &e}},
			"already",
		},
		"no namespace": {
			objects{envelope("n", "e", inside(object("example.com/v1", "Widget", "", "w"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.ID{Group: "example.com", Version: "v1", Kind: "Widget", Name: "w"}, Reason: snapshot.WrongScope, Envelope: e}},
			"metadata.namespace must be n, that of the envelope; an object that is in no namespace goes into a ClusterResourceEnvelope",
		},
		"another namespace": {
			objects{envelope("n", "e", inside(cm("m", "c"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.IDOf(cm("m", "c")), Reason: snapshot.WrongScope, Envelope: e}},
			"metadata.namespace must be n, that of the envelope, and is m",
		},
		"another namespace, without a name": {
			objects{envelope("n", "e", inside(with(cm("m", ""), "a-", "metadata", "generateName"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "m"}, GenerateName: "a-", Reason: snapshot.WrongScope, Envelope: e}},
			"must be n",
		},
		"what is in no namespace": {
			objects{envelope("n", "e", inside(role, fine))},
			[]snapshot.Unplaced{{ID: snapshot.IDOf(role), Reason: snapshot.WrongScope, Envelope: e}},
			toCluster,
		},
		"what only claims to be in the namespace": {
			objects{envelope("n", "e", inside(with(role.DeepCopy(), "n", "metadata", "namespace"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.ID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Namespace: "n", Name: "reader"}, Reason: snapshot.WrongScope, Envelope: e}},
			toCluster,
		},
		"a namespaced object for the cluster": {
			objects{fine, envelope("", "c", inside(cm("n", "c")))},
			[]snapshot.Unplaced{{ID: snapshot.IDOf(cm("n", "c")), Reason: snapshot.WrongScope, Envelope: c}},
			toNamespace,
		},
		"a namespaced kind without namespace": {
			objects{fine, envelope("", "c", inside(cm("", "c")))},
			[]snapshot.Unplaced{{ID: snapshot.IDOf(cm("", "c")), Reason: snapshot.WrongScope, Envelope: c}},
			toNamespace,
		},
		"what authors may not bring": {
			objects{envelope("n", "e", inside(with(role.DeepCopy(), "m", "metadata", "namespace"), fine))},
			[]snapshot.Unplaced{{ID: snapshot.ID{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Namespace: "m", Name: "reader"}, Reason: snapshot.WrongScope, Envelope: e}},
			toCluster,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := snapshot.Rules{}.CaptureFrom(t.Context(), append(objects{shop}, tt.hub...), picksEnvelopes, snapshot.NamespaceRules())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Unplaced); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if why := got.Unplaced[0].Problem(); !strings.Contains(why, tt.why) {
				t.Errorf("it says %q, want %q", why, tt.why)
			}
			if !slices.ContainsFunc(got.Items, func(i snapshot.Item) bool { return i.ID == snapshot.IDOf(fine) }) {
				t.Errorf("the set has %v", got.Items)
			}
			root, err := snapshot.DecodeRoot(got.Root().Encode())
			if diff := cmp.Diff(got.Root(), root); err != nil || diff != "" || root.Format != 3 || got.Digest != snapshot.Digest(root.Encode()) {
				t.Errorf("the root in format %d: %v (-want +got):\n%s", root.Format, err, diff)
			}
			if s := snapshot.New("web", 0, got, "", time.Time{}); s.Verify() != nil || !cmp.Equal(s.Unplaced, tt.want) {
				t.Errorf("the snapshot is %+v, %v", s, s.Verify())
			}
		})
	}
}

// A host's rules apply inside of envelopes, where a violation is an error.
func TestEnvelopeUnderRules(t *testing.T) {
	hub := objects{object("v1", "Namespace", "", "n"), envelope("n", "e", inside(object("v1", "ResourceQuota", "n", "q")))}
	rules := snapshot.Rules{Never: []snapshot.GroupKind{{Kind: "ResourceQuota"}}}
	_, err := rules.Capture(t.Context(), hub, []snapshot.Selector{namespaces("n")})
	if err == nil || !strings.Contains(err.Error(), "data[0.yaml]: Forbidden: ResourceQuota.v1 n/q") {
		t.Errorf("Capture: %v", err)
	}
}

// The rules for authors of a namespace apply to ResourceEnvelopes, and not to other envelopes or
// to selected objects.
func TestNamespaceRulesApplyToResourceEnvelopes(t *testing.T) {
	binding := object("rbac.authorization.k8s.io/v1", "RoleBinding", "n", "grant")
	role := object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader")
	selected := objects{object("v1", "Namespace", "", "n"), object("v1", "ResourceQuota", "n", "q"), envelope("", "e", inside(role))}
	capture := func(authors snapshot.Rules, more ...*unstructured.Unstructured) (snapshot.Set, error) {
		return snapshot.Rules{}.CaptureFrom(t.Context(), append(slices.Clone(selected), more...), picksEnvelopes, authors)
	}
	if set, err := capture(snapshot.NamespaceRules()); err != nil || len(set.Items) != 3 {
		t.Errorf("what is selected, and in a ClusterResourceEnvelope: %v, %v", set.Items, err)
	}
	widget := object("example.com/v1", "Widget", "n", "w")
	if set, err := capture(snapshot.NamespaceRules(), envelope("n", "e", inside(widget, object("v1", "Secret", "n", "s")))); err != nil || len(set.Items) != 5 {
		t.Errorf("what they may: %v, %v", set.Items, err)
	}
	if set, err := capture(snapshot.Rules{}, envelope("n", "e", inside(binding))); err != nil || len(set.Items) != 4 {
		t.Errorf("without rules for authors: %v, %v", set.Items, err)
	}
	strict := snapshot.NamespaceRules()
	strict.Never = append(strict.Never, snapshot.GroupKind{Kind: "Secret"})
	for name, authors := range map[string]snapshot.Rules{"Never": strict, "Only": {Only: []snapshot.GroupKind{{Kind: "ConfigMap"}}}} {
		_, err := capture(authors, envelope("n", "e", inside(with(object("v1", "Secret", "n", "s"), "c2VjcmV0", "data", "password"), binding, object("v1", "ConfigMap", "n", "c"))))
		const of = "ResourceEnvelope.v1beta1.placement.kubernetes-fleet.io n/e: "
		for _, want := range []string{of + "[data[0.yaml]: Forbidden: Secret.v1 n/s is of a kind that authors of a namespace may not bring", "data[1.yaml]: Forbidden: RoleBinding.v1.rbac.authorization.k8s.io n/grant", "NamespaceRules"} {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "data[2.yaml]") || strings.Contains(err.Error(), "c2VjcmV0") {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}

// FuzzEnvelope: no content of an envelope causes a panic. The objects of a ResourceEnvelope are
// in its namespace, and the objects of a ClusterResourceEnvelope in none.
func FuzzEnvelope(f *testing.F) {
	f.Add(`{"a":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"n"}}}`, true)
	f.Add(`{"a":{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"c"}}}`, false)
	f.Add(`{"a":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":["n"]}},"b":null}`, true)
	f.Add(`{"a":{"apiVersion":"placement.kubernetes-fleet.io/v1","kind":"ResourceEnvelope","metadata":{"name":"e","namespace":"n"},"data":{}}}`, true)
	f.Fuzz(func(t *testing.T, data string, namespaced bool) {
		body := `{"apiVersion":"` + envelopes + `","kind":"ClusterResourceEnvelope","metadata":{"name":"e"},"data":` + data + `}`
		if namespaced {
			body = `{"apiVersion":"` + envelopes + `","kind":"ResourceEnvelope","metadata":{"name":"e","namespace":"n"},"data":` + data + `}`
		}
		obj, err := snapshot.Decode([]byte(body))
		if err != nil {
			t.Skip()
		}
		set, err := snapshot.Capture(t.Context(), objects{obj}, []snapshot.Selector{{Group: "placement.kubernetes-fleet.io", Version: "v1beta1", Kind: obj.GetKind()}})
		if err != nil {
			return
		}
		for _, item := range set.Items {
			if namespaced && item.Namespace != "n" || !namespaced && item.Namespace != "" || item.Group == "placement.kubernetes-fleet.io" {
				t.Errorf("the envelope brings %s", item)
			}
		}
	})
}
