package source_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/snapshot"
)

func query(kind, namespace, name string) snapshot.Query {
	return snapshot.Query{Version: "v1", Kind: kind, Namespace: namespace, Name: name}
}

// A source yields exactly the objects of a query.
func TestSourceObjects(t *testing.T) {
	h := theHub(t)
	a, b := h.Namespace(t), h.Namespace(t)
	s := sourceOf(t, h.Config(), source.Options{PageSize: 2})
	name := "cm-" + a
	for _, ns := range []string{a, b} {
		h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", ns, name))
	}
	h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", a, "other"))
	in := func(ns, name string) string { return "ConfigMap.v1 " + ns + "/" + name }
	for _, tc := range []struct {
		q    snapshot.Query
		want []string
	}{
		{query("ConfigMap", a, name), []string{in(a, name)}},
		{query("ConfigMap", a, "none"), nil},
		{query("ConfigMap", "no-such-namespace", "none"), nil},
		{query("ConfigMap", a, ""), []string{in(a, name), in(a, "other")}},
		{query("ConfigMap", "", name), []string{in(a, name), in(b, name)}},
		{query("ConfigMap", "", "none-anywhere"), nil},
		{query("Namespace", "", a), []string{"Namespace.v1 " + a}},
		{query("Namespace", "", "none-of-that-name"), nil},
		{snapshot.Query{Namespace: a}, []string{in(a, name), in(a, "other")}},
		{snapshot.Query{Namespace: a, Name: "other"}, []string{in(a, "other")}},
		{snapshot.Query{Namespace: "no-such-namespace"}, nil},
	} {
		got, err := idsOf(t.Context(), s, tc.q)
		slices.Sort(got)
		slices.Sort(tc.want)
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tc.q, err, diff)
		}
	}
	set, err := snapshot.Capture(t.Context(), s, []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: a}})
	if err != nil || len(set.Items) != 3 {
		t.Errorf("captured %v, %v, want the namespace and two config maps", set.Items, err)
	}
}

// T25: a query for namespaced objects refuses a cluster-scoped kind; an unknown kind is an error,
// not an empty result.
func TestSourceErrors(t *testing.T) {
	h := theHub(t)
	s := sourceOf(t, h.Config(), source.Options{})
	for want, q := range map[string]snapshot.Query{
		"the kind is cluster-scoped":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Namespace: "default"},
		"the hub serves no kind Widget in example.com/v1": {Group: "example.com", Version: "v1", Kind: "Widget"},
		"the hub serves no kind Deployment in apps/v9":    {Group: "apps", Version: "v9", Kind: "Deployment"},
		"neither a kind nor a namespace":                  {Name: "x"},
	} {
		if _, err := idsOf(t.Context(), s, q); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error = %v, want %q", q, err, want)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, q := range []snapshot.Query{query("ConfigMap", "default", ""), {Namespace: "default"}} {
		if _, err := idsOf(ended, s, q); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a context that ended: %v", q, err)
		}
	}
	for range s.Objects(t.Context(), snapshot.Query{Namespace: "kube-system"}) {
		break // nothing is left behind
	}
}

// The content of a namespace is complete: 50 recently defined kinds, page by page, and no kind
// that is never placed.
func TestSourceOfManyKinds(t *testing.T) {
	h := theHub(t)
	ns := h.Namespace(t)
	s := sourceOf(t, h.Config(), source.Options{PageSize: 2})
	if _, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns}); err != nil {
		t.Fatal(err)
	}
	const kinds = 50
	resource := func(i int) schema.GroupVersionResource {
		return schema.GroupVersionResource{Group: fmt.Sprintf("g%d.example.com", i%5), Version: "v1", Resource: fmt.Sprintf("things%d", i)}
	}
	for i := range kinds {
		h.Create(t, kubetest.CRDs(), kubetest.Definition(resource(i), fmt.Sprintf("Thing%d", i), "Namespaced"))
	}
	for i := range kinds {
		obj := kubetest.Object(resource(i).GroupVersion().String(), fmt.Sprintf("Thing%d", i), ns, "x")
		kubetest.Eventually(t, "serving", func() bool {
			_, err := h.In(ns, resource(i)).Create(t.Context(), obj, metav1.CreateOptions{})
			return err == nil
		})
		t.Cleanup(func() { h.Undefined(t, resource(i)) })
	}
	for i := range 5 {
		h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", ns, fmt.Sprintf("cm%d", i)))
	}
	h.Create(t, schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}, kubetest.Object("coordination.k8s.io/v1", "Lease", ns, "never"))
	var got []string
	kubetest.Eventually(t, "listing all kinds", func() bool { // the hub reacts after a moment
		var err error
		if got, err = idsOf(t.Context(), s, snapshot.Query{Namespace: ns}); err != nil {
			t.Fatal(err)
		}
		return len(got) >= kinds+5
	})
	if len(got) != kinds+5 || strings.Contains(strings.Join(got, " "), "Lease") {
		t.Errorf("%d objects, want %d and no Lease: %v", len(got), kinds+5, got)
	}
	again, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns})
	if diff := cmp.Diff(got, again); diff != "" || err != nil {
		t.Errorf("%v; another order the second time:\n%s", err, diff)
	}
}

// expired spoils one page that continues a list.
func expired() (kubeenv.Fault, func() bool) {
	done := make(chan struct{})
	struck := func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	}
	return func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if !strings.Contains(r.URL.RawQuery, "continue=") || struck() {
			return next.RoundTrip(r)
		}
		close(done)
		return kubeenv.Gone()(next, r)
	}, struck
}

// A list whose pages expire while they are read is read again, from the
// beginning and without anything twice.
func TestSourceListThatExpires(t *testing.T) {
	h := theHub(t)
	ns := h.Namespace(t)
	for i := range 5 {
		h.Create(t, kubetest.ConfigMaps(), kubetest.Object("v1", "ConfigMap", ns, fmt.Sprintf("cm%d", i)))
	}
	var faults kubeenv.Faults
	cfg := h.Config()
	cfg.Wrap(faults.Wrap)
	fault, struck := expired()
	faults.Add(kubeenv.Rule{Verb: "list", Path: "/configmaps", Times: -1, Fault: fault})
	got, err := idsOf(t.Context(), sourceOf(t, cfg, source.Options{PageSize: 2}), query("ConfigMap", ns, ""))
	if err != nil || len(slices.Compact(got)) != 5 || len(got) != 5 || !struck() {
		t.Errorf("objects = %v, %v, want five, once", got, err)
	}
}

func sourceOf(t testing.TB, cfg *rest.Config, o source.Options) *source.Source {
	t.Helper()
	s, err := source.New(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// idsOf returns the names of the objects that a source yields.
func idsOf(ctx context.Context, s snapshot.Source, q snapshot.Query) (ids []string, err error) {
	for obj, err := range s.Objects(ctx, q) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, snapshot.IDOf(obj).String())
	}
	return ids, nil
}

// A forbidden read is an error that names the missing right, whether the query names the kind or
// reads a namespace.
func TestSourceThatIsForbidden(t *testing.T) {
	h := theHub(t)
	ns := h.Namespace(t)
	read := []any{"get", "list", "watch"}
	h.Role(t, "reader-"+ns, kubetest.Rule(read, "", "configmaps", "namespaces"), kubetest.Rule(read, "apiextensions.k8s.io", "customresourcedefinitions"))
	s := sourceOf(t, h.ConfigFor("reader-"+ns), source.Options{})
	if _, err := idsOf(t.Context(), s, query("ConfigMap", ns, "")); err != nil {
		t.Errorf("what is allowed: %v", err)
	}
	for _, q := range []snapshot.Query{query("Secret", ns, ""), query("Secret", ns, "x"), {Namespace: ns}} {
		_, err := idsOf(t.Context(), s, q)
		if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "grant this user get, list and watch on the kind") || !strings.Contains(err.Error(), "reader-"+ns) {
			t.Errorf("%s: error = %v, want the right that is missing", q, err)
		}
		watch := kubetest.TicksOf(t, func(ctx context.Context) seq { return s.Watch(ctx, []snapshot.Query{q}) })
		if err := <-watch.End; !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "grant this user get, list and watch on the kind") {
			t.Errorf("watching %s: error = %v, want the right that is missing", q, err)
		}
	}
	_, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns})
	for _, want := range []string{"the kind LimitRange of group", "the kind Endpoints of group", "more kinds", "exclude the kind by Rules.Never"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the content of a namespace: error = %v, want %s", err, want)
		}
	}
	// Kinds that the rules of the engine exclude need no right, and are not watched.
	ruled := sourceOf(t, h.ConfigFor("reader-"+ns), source.Options{Rules: snapshot.Rules{Only: []snapshot.GroupKind{{Kind: "ConfigMap"}}}})
	if _, err := idsOf(t.Context(), ruled, snapshot.Query{Namespace: ns}); err != nil {
		t.Errorf("what the rules leave of a namespace: %v", err)
	}
	ticks := kubetest.TicksOf(t, func(ctx context.Context) seq { return ruled.Watch(ctx, []snapshot.Query{{Namespace: ns}}) })
	select {
	case <-ticks.Told:
	case err := <-ticks.End:
		t.Errorf("watching what the rules leave of a namespace: %v", err)
	}
}

// A group with an unreachable server could contain objects of the namespace: this is a transient
// error. Groups without placeable kinds do not matter.
func TestSourceOfAGroupThatDoesNotAnswer(t *testing.T) {
	h := theHub(t)
	ns := h.Namespace(t)
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	service := func(group string) *unstructured.Unstructured {
		obj := kubetest.Object("apiregistration.k8s.io/v1", "APIService", "", "v1."+group)
		obj.Object["spec"] = map[string]any{
			"group": group, "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"name": "none", "namespace": ns},
		}
		return obj
	}
	h.Create(t, services, service("metrics.k8s.io"))
	s := sourceOf(t, h.Config(), source.Options{})
	if _, err := idsOf(t.Context(), s, snapshot.Query{Namespace: ns}); err != nil {
		t.Errorf("without metrics: %v", err)
	}
	h.Create(t, services, service("silent.example.com"))
	var err error
	kubetest.Eventually(t, "an error", func() bool {
		_, err = idsOf(t.Context(), s, snapshot.Query{Namespace: ns})
		return err != nil
	})
	if errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "silent.example.com/v1") {
		t.Errorf("error = %v, want a transient one about the group", err)
	}
	if _, err := idsOf(t.Context(), s, query("ConfigMap", ns, "")); err != nil {
		t.Errorf("a kind of another group: %v", err)
	}
	if _, err := idsOf(t.Context(), s, snapshot.Query{Group: "silent.example.com", Version: "v1", Kind: "X"}); err == nil || errors.Is(err, backend.ErrPermanent) {
		t.Errorf("a kind of the group: %v, want a transient error", err)
	}
}
