package snapshot_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

func namespaces(name string) snapshot.Selector {
	return snapshot.Selector{Version: "v1", Kind: "Namespace", Name: name}
}

func byLabel(sel snapshot.Selector, key, value string) snapshot.Selector {
	sel.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	return sel
}

func named(sel snapshot.Selector, name string) snapshot.Selector {
	sel.Name = name
	return sel
}

func labelled(obj *unstructured.Unstructured, key, value string) *unstructured.Unstructured {
	obj.SetLabels(map[string]string{key: value})
	return obj
}

func owned(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Owner", Name: "o"}})
	return obj
}

func TestSelect(t *testing.T) {
	hub := objects{
		object("v1", "Namespace", "", "shop"),
		labelled(object("v1", "Namespace", "", "bank"), "team", "money"),
		object("v1", "Namespace", "", "kube-system"),
		object("v1", "ConfigMap", "kube-system", "secretive"),
		object("v1", "ConfigMap", "shop", "prices"),
		labelled(object("apps/v1", "Deployment", "shop", "web"), "tier", "front"),
		object("apps/v1beta1", "Deployment", "shop", "web"),
		object("v1", "ConfigMap", "bank", "rates"),
		labelled(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader"), "tier", "front"),
	}
	configMaps := snapshot.Selector{Version: "v1", Kind: "ConfigMap"}
	roles := snapshot.Selector{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	old := snapshot.Selector{Group: "apps", Version: "v1beta1", Kind: "Deployment"}
	shop := []string{"Namespace.v1 shop", "ConfigMap.v1 shop/prices", "Deployment.v1.apps shop/web"}
	tests := []struct {
		name      string
		selectors []snapshot.Selector
		want      []string
	}{
		{"a namespace brings what is in it", []snapshot.Selector{namespaces("shop")}, shop},
		{"a namespace that labels pick, too", []snapshot.Selector{byLabel(namespaces(""), "team", "money")}, []string{"Namespace.v1 bank", "ConfigMap.v1 bank/rates"}},
		{"an object selected twice is there once", []snapshot.Selector{namespaces("shop"), configMaps, named(configMaps, "prices")}, append(slices.Clone(shop), "ConfigMap.v1 bank/rates")},
		{"of several versions the first counts", []snapshot.Selector{old, namespaces("shop")}, []string{"Deployment.v1beta1.apps shop/web", "Namespace.v1 shop", "ConfigMap.v1 shop/prices"}},
		{"labels that match", []snapshot.Selector{byLabel(roles, "tier", "front")}, []string{"ClusterRole.v1.rbac.authorization.k8s.io reader"}},
		{"labels that do not match", []snapshot.Selector{byLabel(roles, "tier", "back")}, nil},
		{"an empty label selector picks all", []snapshot.Selector{{Group: roles.Group, Version: "v1", Kind: "ClusterRole", LabelSelector: &metav1.LabelSelector{}}}, []string{"ClusterRole.v1.rbac.authorization.k8s.io reader"}},
		{"reserved namespaces are left out", []snapshot.Selector{namespaces(""), configMaps}, append(slices.Clone(shop), "Namespace.v1 bank", "ConfigMap.v1 bank/rates")},
		{"a missing object selects nothing", []snapshot.Selector{namespaces("gone")}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := snapshot.Select(t.Context(), hub, tt.selectors)
			if err != nil {
				t.Fatal(err)
			}
			want := slices.Clone(tt.want)
			slices.Sort(want)
			if diff := cmp.Diff(want, slices.Sorted(slices.Values(names(got)))); diff != "" {
				t.Errorf("Select (-want +got):\n%s", diff)
			}
		})
	}
}

// The list in the documentation of Propagates, object by object.
func TestSelectLeavesOut(t *testing.T) {
	const slice, managed = "discovery.k8s.io/v1", "endpointslice.kubernetes.io/managed-by"
	tests := []struct {
		obj  *unstructured.Unstructured
		want bool
	}{
		{object("v1", "ConfigMap", "n", "kube-root-ca.crt"), false},
		{object("v1", "ConfigMap", "n", "mine"), true},
		{object("v1", "ServiceAccount", "n", "default"), false},
		{object("v1", "ServiceAccount", "n", "mine"), true},
		{with(object("v1", "Secret", "n", "token"), "kubernetes.io/service-account-token", "type"), false},
		{with(object("v1", "Secret", "n", "mine"), "Opaque", "type"), true},
		{owned(object("apps/v1", "ReplicaSet", "n", "made")), false},
		{object("apps/v1", "ReplicaSet", "n", "mine"), true},
		{owned(object("apps/v1", "ControllerRevision", "n", "made")), false},
		{object("v1", "Pod", "n", "mine"), false},
		{owned(object("batch/v1", "Job", "n", "made")), false},
		{object("batch/v1", "Job", "n", "mine"), true},
		{owned(object("v1", "ConfigMap", "n", "owned")), true},
		{labelled(object(slice, "EndpointSlice", "n", "made"), managed, "endpointslice-controller.k8s.io"), false},
		{object(slice, "EndpointSlice", "n", "mine"), true},
		{object("v1", "Event", "n", "e"), false},
		{object("events.k8s.io/v1", "Event", "n", "e"), false},
		{object("coordination.k8s.io/v1", "Lease", "n", "l"), false},
		{object("coordination.k8s.io/v1alpha2", "LeaseCandidate", "n", "l"), false},
		{object("networking.fleet.azure.com/v1alpha1", "ServiceImport", "n", "s"), false},
		{object("networking.fleet.azure.com/v1beta1", "TrafficManagerProfile", "n", "s"), false},
		{object("networking.fleet.azure.com/v1beta1", "TrafficManagerBackend", "n", "s"), false},
		{object("networking.fleet.azure.com/v1alpha1", "ServiceExport", "n", "s"), true},
		{object("v1", "PersistentVolumeClaim", "n", "data"), true},
		{object("metrics.k8s.io/v1beta1", "PodMetrics", "n", "m"), false},
		{object("placement.kubernetes-fleet.io/v1beta1", "ResourcePlacement", "n", "p"), false},
		{object("placement.kubernetes-fleet.io/v1beta1", "ResourceEnvelope", "n", "e"), true},
		{object("v1", "Endpoints", "n", "behind-service"), false},
		{object("v1", "Endpoints", "n", "by-hand"), true},
		{with(object("v1", "Service", "n", "behind-service"), map[string]any{"app": "web"}, "spec", "selector"), true},
		{object("v1", "Endpoints", "n", "external"), true},
		{object("v1", "Service", "n", "external"), true},
		{labelled(object("v1", "Endpoints", "n", "controlled"), "endpoints.kubernetes.io/managed-by", "endpoint-controller"), false},
		{with(object("v1", "Endpoints", "n", "lock"), map[string]any{"control-plane.alpha.kubernetes.io/leader": "{}"}, "metadata", "annotations"), false},
		{with(object("v1", "ConfigMap", "n", "lock"), map[string]any{"control-plane.alpha.kubernetes.io/leader": "{}"}, "metadata", "annotations"), false},
		{labelled(object(slice, "EndpointSlice", "n", "mirrored"), managed, "endpointslicemirroring-controller.k8s.io"), false},
		{labelled(object(slice, "EndpointSlice", "n", "by-hand"), managed, "cluster-admins"), true},
		{controlled(object(slice, "EndpointSlice", "n", "owned"), "v1", "Service", "u"), false},
		{controlled(object("v1", "PersistentVolumeClaim", "n", "of-pod"), "v1", "Pod", "u"), false},
		{controlled(object("v1", "ConfigMap", "n", "of-set"), "apps/v1", "StatefulSet", "u"), false},
		{controlled(object("v1", "ConfigMap", "n", "of-other"), "example.com/v1", "Thing", "elsewhere"), true},
		{controlled(object("v1", "ConfigMap", "n", "of-thing"), "example.com/v1", "Thing", "thing"), false},
		{with(object("example.com/v1", "Thing", "n", "thing"), "thing", "metadata", "uid"), true},
		{with(object("v1", "ConfigMap", "n", "going"), "2025-01-01T00:00:00Z", "metadata", "deletionTimestamp"), false},
	}
	hub := objects{object("v1", "Namespace", "", "n")}
	want := []string{"Namespace.v1 n"}
	for _, tt := range tests {
		hub = append(hub, tt.obj)
		if tt.want {
			want = append(want, snapshot.IDOf(tt.obj).String())
		}
	}
	got, err := snapshot.Select(t.Context(), hub, []snapshot.Selector{namespaces("n")})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(names(got)))); diff != "" {
		t.Errorf("Select (-want +got):\n%s", diff)
	}
}

// Endpoints are left out for a Service that was not selected itself.
func TestSelectEndpointsWithoutNamespace(t *testing.T) {
	hub := objects{
		with(object("v1", "Service", "n", "web"), map[string]any{"app": "web"}, "spec", "selector"),
		object("v1", "Endpoints", "n", "web"),
		object("v1", "Endpoints", "n", "db"),
	}
	got, err := snapshot.Select(t.Context(), hub, []snapshot.Selector{{Version: "v1", Kind: "Endpoints"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Endpoints.v1 n/db"}, names(got)); diff != "" {
		t.Errorf("Select (-want +got):\n%s", diff)
	}
}

func TestSelectSkipsNamespaceBeingDeleted(t *testing.T) {
	hub := objects{
		with(object("v1", "Namespace", "", "n"), "2025-01-01T00:00:00Z", "metadata", "deletionTimestamp"),
		object("v1", "ConfigMap", "n", "c"),
	}
	got, err := snapshot.Select(t.Context(), hub, []snapshot.Selector{namespaces("n")})
	if err != nil || len(got) != 0 {
		t.Errorf("Select = %v, %v, want nothing", names(got), err)
	}
}

func TestSelectErrors(t *testing.T) {
	tests := []struct {
		name      string
		selectors []snapshot.Selector
		want      []string
	}{
		{"none", nil, []string{"selectors: Required"}},
		{
			"all at once",
			[]snapshot.Selector{
				{},
				{Version: "v1", Kind: "ConfigMap", Name: "c", LabelSelector: &metav1.LabelSelector{}},
				{Version: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}},
				}},
				namespaces("kube-system"), namespaces("fleet-member-1"), namespaces("slipway-system"),
			},
			[]string{
				"selectors[0].version: Required", "selectors[0].kind: Required", "selectors[1].labelSelector: Forbidden",
				"selectors[2].labelSelector.matchExpressions[0].operator", `selectors[3].name: Invalid value: "kube-system"`,
				`selectors[4].name: Invalid value: "fleet-member-1"`, `selectors[5].name: Invalid value: "slipway-system"`,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			source := snapshot.SourceFunc(func(context.Context, snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
				t.Error("the source was read for selectors that are wrong")
				return func(func(*unstructured.Unstructured, error) bool) {}
			})
			_, err := snapshot.Select(t.Context(), source, tt.selectors)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

// yields is a source that gives the same whatever is asked for.
func yields(obj *unstructured.Unstructured, err error) snapshot.Source {
	return snapshot.SourceFunc(func(context.Context, snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
		return func(yield func(*unstructured.Unstructured, error) bool) { yield(obj, err) }
	})
}

func TestSelectFromBadSource(t *testing.T) {
	broken := errors.New("connection lost")
	tests := []struct {
		name   string
		source snapshot.Source
		want   string
	}{
		{"fails", yields(nil, broken), "reading Namespace.v1 n: connection lost"},
		{"gives nil", yields(nil, nil), "apiVersion must be"},
		{"gives no kind", yields(object("v1", "", "", "n"), nil), "kind is missing"},
		{"gives no name", yields(object("v1", "Namespace", "", ""), nil), "metadata.name is missing"},
		{"gives another object", yields(object("v1", "Namespace", "", "other"), nil), "Namespace.v1 other, which was not asked for"},
		{"gives an empty object", yields(&unstructured.Unstructured{}, nil), "apiVersion must be"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := snapshot.Select(t.Context(), tt.source, []snapshot.Selector{namespaces("n")})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	_, err := snapshot.Select(t.Context(), yields(nil, broken), []snapshot.Selector{namespaces("n")})
	if !errors.Is(err, broken) {
		t.Errorf("error %v does not wrap the source's", err)
	}
}

// A source that stops early because the context ended makes no small snapshot.
func TestSelectCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := snapshot.Select(ctx, objects{}, []snapshot.Selector{namespaces("n")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}
