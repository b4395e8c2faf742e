package snapshot_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

func scoped(sel snapshot.Selector, s snapshot.Scope) snapshot.Selector {
	sel.Scope = s
	return sel
}

var (
	configMaps   = snapshot.Selector{Version: "v1", Kind: "ConfigMap"}
	clusterRoles = snapshot.Selector{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"}
	widgets      = snapshot.Selector{Group: "example.com", Version: "v1", Kind: "Widget"}
)

// The objects that each selection scope adds to a Namespace.
func TestSelectScopes(t *testing.T) {
	hub := objects{
		labelled(object("v1", "Namespace", "", "shop"), "team", "goods"),
		object("v1", "Namespace", "", "bank"),
		object("v1", "ConfigMap", "shop", "prices"),
		object("v1", "Secret", "shop", "key"),
		object("example.com/v1", "Widget", "shop", "small"),
		object("example.com/v1", "Widget", "bank", "safe"),
		object("v1", "ConfigMap", "bank", "rates"),
		object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader"),
	}
	const (
		shop, prices, key, small = "Namespace.v1 shop", "ConfigMap.v1 shop/prices", "Secret.v1 shop/key", "Widget.v1.example.com shop/small"
		rates, safe              = "ConfigMap.v1 bank/rates", "Widget.v1.example.com bank/safe"
		reader                   = "ClusterRole.v1.rbac.authorization.k8s.io reader"
	)
	only, all, chosen := snapshot.NamespaceOnly, snapshot.NamespaceWithResources, snapshot.NamespaceWithResourceSelectors
	tests := []struct {
		name      string
		selectors []snapshot.Selector
		want      []string
	}{
		{"no scope is with all in it", []snapshot.Selector{namespaces("shop")}, []string{shop, prices, key, small}},
		{"with all in it", []snapshot.Selector{scoped(namespaces("shop"), all)}, []string{shop, prices, key, small}},
		{"alone", []snapshot.Selector{scoped(namespaces("shop"), only)}, []string{shop}},
		{"alone, by labels", []snapshot.Selector{scoped(byLabel(namespaces(""), "team", "goods"), only)}, []string{shop}},
		{"alone, and what another selector picks anywhere", []snapshot.Selector{scoped(namespaces("shop"), only), configMaps}, []string{shop, prices, rates}},
		{"several selectors: what any of them brings", []snapshot.Selector{scoped(namespaces("shop"), only), byLabel(namespaces(""), "team", "goods")}, []string{shop, prices, key, small}},
		{"the same the other way round", []snapshot.Selector{byLabel(namespaces(""), "team", "goods"), scoped(namespaces("shop"), only)}, []string{shop, prices, key, small}},
		{"with what selectors pick", []snapshot.Selector{scoped(namespaces("shop"), chosen), configMaps}, []string{shop, prices}},
		{"of a kind that only the hub knows", []snapshot.Selector{widgets, scoped(namespaces("shop"), chosen)}, []string{shop, small}},
		{"and what is in no namespace", []snapshot.Selector{scoped(namespaces("shop"), chosen), clusterRoles, configMaps}, []string{shop, prices, reader}},
		{"with selectors that pick nothing", []snapshot.Selector{scoped(namespaces("shop"), chosen), named(configMaps, "rates")}, []string{shop}},
		{"without selectors", []snapshot.Selector{scoped(namespaces("shop"), chosen)}, []string{shop}},
		{"a namespace that is gone, alone", []snapshot.Selector{scoped(namespaces("gone"), only), clusterRoles}, []string{reader}},
		{"a namespace that is gone, with all in it", []snapshot.Selector{scoped(namespaces("gone"), all), clusterRoles}, []string{reader}},
		{"without the scope, from everywhere", []snapshot.Selector{widgets}, []string{small, safe}},
		{"the default of other kinds means nothing", []snapshot.Selector{scoped(configMaps, all)}, []string{prices, rates}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := snapshot.Select(t.Context(), hub, tt.selectors)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, slices.Sorted(slices.Values(names(got)))); diff != "" {
				t.Errorf("Select (-want +got):\n%s", diff)
			}
			for _, obj := range got {
				if ns := obj.GetNamespace(); ns != "" && !snapshot.Reaches(tt.selectors, ns) {
					t.Errorf("%s is picked, and its namespace not reached", ns)
				}
			}
		})
	}
}

// Reaches answers from the selectors, without the objects; a doubtful object counts as reached.
func TestReaches(t *testing.T) {
	shops := scoped(namespaces("shop"), snapshot.NamespaceWithResourceSelectors)
	inShop := configMaps
	inShop.Namespace = "shop"
	for name, c := range map[string]struct {
		selectors  []snapshot.Selector
		shop, bank bool
	}{
		"nothing":                      {nil, false, false},
		"a namespace":                  {[]snapshot.Selector{namespaces("shop")}, true, false},
		"a namespace alone":            {[]snapshot.Selector{scoped(namespaces("shop"), snapshot.NamespaceOnly)}, false, false},
		"namespaces by labels":         {[]snapshot.Selector{byLabel(namespaces(""), "team", "goods")}, true, true},
		"what is in no namespace":      {[]snapshot.Selector{clusterRoles}, false, false},
		"a kind of namespaces":         {[]snapshot.Selector{configMaps}, true, true},
		"a kind that is not known":     {[]snapshot.Selector{widgets}, true, true},
		"a kind of one namespace":      {[]snapshot.Selector{inShop}, true, false},
		"what selectors pick in one":   {[]snapshot.Selector{configMaps, shops}, true, false},
		"a namespace and another kind": {[]snapshot.Selector{namespaces("shop"), clusterRoles}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if shop, bank := snapshot.Reaches(c.selectors, "shop"), snapshot.Reaches(c.selectors, "bank"); shop != c.shop || bank != c.bank {
				t.Errorf("shop is reached: %v, want %v; bank: %v, want %v", shop, c.shop, bank, c.bank)
			}
		})
	}
}

// The scope NamespaceWithResourceSelectors says where objects are taken from: if there is no such
// namespace, the selection is an error and not an empty one, which would remove everything from
// clusters.
func TestSelectNeedsTheNamespaceOfItsSelectors(t *testing.T) {
	gone := scoped(namespaces("gone"), snapshot.NamespaceWithResourceSelectors)
	hub := objects{
		object("v1", "Namespace", "", "shop"), object("v1", "ConfigMap", "shop", "prices"),
		with(object("v1", "Namespace", "", "going"), "2025-01-01T00:00:00Z", "metadata", "deletionTimestamp"), object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader"),
	}
	for name, c := range map[string]struct {
		selectors []snapshot.Selector
		want      string
	}{
		"alone":                 {[]snapshot.Selector{gone}, "selectors[0].name"},
		"with a namespaced one": {[]snapshot.Selector{configMaps, gone}, "selectors[1].name"},
		"one that is going":     {[]snapshot.Selector{scoped(namespaces("going"), snapshot.NamespaceWithResourceSelectors)}, "selectors[0].name"},
		"with what others pick": {[]snapshot.Selector{clusterRoles, configMaps, gone}, "selectors[2].name"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := snapshot.Select(t.Context(), hub, c.selectors)
			want := c.want + `: Not found: "` + c.selectors[len(c.selectors)-1].Name + `": there is no Namespace of this name, or it is being deleted: create it, or name another one: NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected`
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Select = %v, %v, want %s", names(got), err, want)
			}
		})
	}
}

// A selector with the name of a missing object, or of an object that is being deleted, picks
// nothing, as in KubeFleet, and the set reports it. Clusters lose the object.
func TestSelectorsOfMissingObjectsAreReported(t *testing.T) {
	hub := objects{
		object("v1", "Namespace", "", "shop"), object("v1", "ConfigMap", "shop", "prices"),
		with(object("v1", "Namespace", "", "going"), "2025-01-01T00:00:00Z", "metadata", "deletionTimestamp"),
		object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "reader"),
	}
	const why = ": a selector names it, and it does not exist or is being deleted; what clusters have of it is removed"
	for name, c := range map[string]struct {
		selectors []snapshot.Selector
		want      []string
	}{
		"nothing":                          {[]snapshot.Selector{namespaces("shop"), named(clusterRoles, "reader")}, nil},
		"a namespace with all in it":       {[]snapshot.Selector{namespaces("gone")}, []string{"1 Namespace left out, gone" + why}},
		"a namespace alone":                {[]snapshot.Selector{scoped(namespaces("gone"), snapshot.NamespaceOnly)}, []string{"1 Namespace left out, gone" + why}},
		"one that is being deleted":        {[]snapshot.Selector{namespaces("going")}, []string{"1 Namespace left out, going" + why}},
		"other objects":                    {[]snapshot.Selector{named(clusterRoles, "writer"), namespaces("shop"), named(clusterRoles, "admin")}, []string{"2 ClusterRole.rbac.authorization.k8s.io left out, admin, writer" + why}},
		"an object of the wrong namespace": {[]snapshot.Selector{scoped(namespaces("shop"), snapshot.NamespaceWithResourceSelectors), named(configMaps, "rates")}, []string{"1 ConfigMap left out, rates" + why}},
		"a kind of which there is none":    {[]snapshot.Selector{{Group: "example.com", Version: "v1", Kind: "Widget"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := snapshot.Capture(t.Context(), hub, c.selectors)
			told, _ := snapshot.OmissionsTold(set.Omitted)
			if diff := cmp.Diff(c.want, told); err != nil || diff != "" {
				t.Errorf("%v, told (-want +got):\n%s", err, diff)
			}
		})
	}
}

// With NamespaceWithResourceSelectors, built-in kinds are read from the one
// namespace alone: a reader of the hub need not be allowed to read more.
func TestSelectReadsOneNamespace(t *testing.T) {
	var asked []string
	src := snapshot.SourceFunc(func(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
		asked = append(asked, q.String())
		return objects{object("v1", "Namespace", "", "shop")}.Objects(ctx, q)
	})
	_, err := snapshot.Select(t.Context(), src, []snapshot.Selector{
		configMaps, scoped(namespaces("shop"), snapshot.NamespaceWithResourceSelectors), clusterRoles, widgets,
	})
	want := []string{"ConfigMap.v1 shop/*", "Namespace.v1 shop", "ClusterRole.v1.rbac.authorization.k8s.io *", "Widget.v1.example.com *"}
	if diff := cmp.Diff(want, asked); diff != "" || err != nil {
		t.Errorf("%v, the source was asked (-want +got):\n%s", err, diff)
	}
}

// The content of a namespace is read once, whatever picks the namespace.
func TestSelectReadsANamespaceOnce(t *testing.T) {
	read := 0
	src := snapshot.SourceFunc(func(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
		if q.Kind == "" {
			read++
		}
		return objects{object("v1", "Namespace", "", "shop"), object("v1", "ConfigMap", "shop", "prices")}.Objects(ctx, q)
	})
	got, err := snapshot.Select(t.Context(), src, []snapshot.Selector{namespaces("shop"), namespaces("")})
	if err != nil || len(got) != 2 || read != 1 {
		t.Errorf("Select = %v, %v after reading the namespace %d times, want 2 objects after 1", names(got), err, read)
	}
}

func TestValidateSelectorsScopes(t *testing.T) {
	only, chosen := snapshot.NamespaceOnly, snapshot.NamespaceWithResourceSelectors
	tests := []struct {
		name      string
		selectors []snapshot.Selector
		want      []string
	}{
		{"unknown scope", []snapshot.Selector{scoped(namespaces("a"), "Everything")}, []string{`selectors[0].selectionScope: Unsupported value: "Everything": supported values: "NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"`}},
		{"a scope of what is no Namespace", []snapshot.Selector{scoped(configMaps, only), scoped(clusterRoles, chosen)}, []string{
			"selectors[0].selectionScope: Forbidden: only a Namespace brings something along; leave it out for a ConfigMap",
			"selectors[1].selectionScope: Forbidden: only a Namespace brings something along; leave it out for a ClusterRole",
		}},
		{"no name", []snapshot.Selector{scoped(namespaces(""), chosen)}, []string{"selectors[0].name: Required value: the scope NamespaceWithResourceSelectors needs the name of one Namespace"}},
		{"labels instead", []snapshot.Selector{scoped(byLabel(namespaces(""), "a", "b"), chosen)}, []string{"selectors[0].name: Required"}},
		{"two namespaces", []snapshot.Selector{namespaces("b"), scoped(namespaces("a"), chosen), scoped(namespaces("c"), chosen)}, []string{
			"selectors[0]: Forbidden: selectors[1] has the scope NamespaceWithResourceSelectors and must be the only selector of Namespaces",
			"selectors[2]: Forbidden: selectors[1] has the scope",
		}},
		{"another namespace", []snapshot.Selector{scoped(namespaces("a"), chosen), {Version: "v1", Kind: "Secret", Namespace: "b"}}, []string{`selectors[1].namespace: Invalid value: "b": must be a, to which selectors[0] confines what is selected`}},
		{"the same twice", []snapshot.Selector{configMaps, namespaces("a"), configMaps}, []string{"selectors[2]: Invalid value: selects what selectors[0] selects already"}},
		{"the same with another scope", []snapshot.Selector{namespaces("a"), scoped(namespaces("a"), only)}, []string{"selectors[1]: Invalid value: selects what selectors[0] selects already"}},
		{"the same labels", []snapshot.Selector{byLabel(configMaps, "a", "b"), byLabel(configMaps, "a", "b")}, []string{"selectors[1]: Invalid value: selects what selectors[0]"}},
		{"kinds that are never placed", []snapshot.Selector{{Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Node"}, {Group: "coordination.k8s.io", Version: "v1", Kind: "Lease"}}, []string{
			`selectors[0].kind: Invalid value: "Pod": objects of this kind are never placed`, `selectors[1].kind: Invalid value: "Node"`, `selectors[2].kind: Invalid value: "Lease"`,
		}},
		{"all at once", []snapshot.Selector{scoped(namespaces("kube-system"), "x"), {Kind: "Pod", Namespace: "fleet-a"}}, []string{
			"selectors[0].selectionScope", "selectors[0].name", "selectors[1].version", "selectors[1].kind", "selectors[1].namespace",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			errs := snapshot.ValidateSelectors(tt.selectors, nil)
			if len(errs) != len(tt.want) {
				t.Errorf("%d errors, want %d", len(errs), len(tt.want))
			}
			for _, want := range tt.want {
				if !strings.Contains(errs.ToAggregate().Error(), want) {
					t.Errorf("no error says %q:\n%v", want, errs.ToAggregate())
				}
			}
		})
	}
	good := []snapshot.Selector{
		scoped(namespaces("a"), chosen),
		{Version: "v1", Kind: "Secret", Namespace: "a"},
		configMaps, clusterRoles,
		byLabel(configMaps, "a", "b"), byLabel(configMaps, "a", "c"), named(configMaps, "c"),
	}
	if errs := snapshot.ValidateSelectors(good, nil); len(errs) > 0 {
		t.Errorf("ValidateSelectors = %v", errs)
	}
}

// Objects that a host excludes are omitted from selections, and selectors must not name them.
func TestRules(t *testing.T) {
	hub := objects{
		object("v1", "Namespace", "", "shop"), object("v1", "Namespace", "", "default"), object("v1", "ConfigMap", "default", "c"),
		object("v1", "ConfigMap", "shop", "prices"), object("v1", "PersistentVolumeClaim", "shop", "data"),
		object("example.com/v1", "Widget", "shop", "small"), object("example.com/v2", "Gadget", "shop", "big"),
	}
	const shop, prices, data, small, big = "Namespace.v1 shop", "ConfigMap.v1 shop/prices", "PersistentVolumeClaim.v1 shop/data", "Widget.v1.example.com shop/small", "Gadget.v2.example.com shop/big"
	never := func(kinds ...snapshot.GroupKind) snapshot.Rules {
		return snapshot.Rules{Reserved: []string{"default"}, Never: kinds}
	}
	tests := []struct {
		name  string
		rules snapshot.Rules
		want  []string
	}{
		{"a reserved namespace", never(), []string{shop, prices, data, small, big}},
		{"a kind", never(snapshot.GroupKind{Kind: "PersistentVolumeClaim"}), []string{shop, prices, small, big}},
		{"a kind in any version", never(snapshot.GroupKind{Group: "example.com", Kind: "Gadget"}), []string{shop, prices, data, small}},
		{"a kind of another group", never(snapshot.GroupKind{Group: "example.org", Kind: "Gadget"}), []string{shop, prices, data, small, big}},
		{"a group", never(snapshot.GroupKind{Group: "example.com"}), []string{shop, prices, data}},
		{"nothing else", snapshot.Rules{Reserved: []string{"default"}, Only: []snapshot.GroupKind{{Kind: "Namespace"}, {Group: "example.com"}}}, []string{shop, small, big}},
		{"never counts for more than only", snapshot.Rules{Reserved: []string{"default"}, Only: []snapshot.GroupKind{{Kind: "Namespace"}, {Kind: "ConfigMap"}}, Never: []snapshot.GroupKind{{Kind: "ConfigMap"}}}, []string{shop}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.rules.Select(t.Context(), hub, []snapshot.Selector{namespaces("")})
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(tt.want)
			if diff := cmp.Diff(tt.want, slices.Sorted(slices.Values(names(got)))); diff != "" {
				t.Errorf("Select (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRulesErrors(t *testing.T) {
	rules := snapshot.Rules{Reserved: []string{"default"}, Never: []snapshot.GroupKind{{Kind: "ConfigMap"}}}
	errs := rules.ValidateSelectors([]snapshot.Selector{configMaps, namespaces("default"), {Version: "v1", Kind: "Secret", Namespace: "default"}}, nil)
	var got []string
	for _, e := range errs {
		got = append(got, e.Error())
	}
	want := []string{
		`selectors[0].kind: Invalid value: "ConfigMap": objects of this kind are never placed`,
		`selectors[1].name: Invalid value: "default": the namespaces kube-*, fleet-*, slipway-system, default belong to the cluster and are never placed`,
		`selectors[2].namespace: Invalid value: "default": nothing in kube-*, fleet-*, slipway-system, default is ever placed`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ValidateSelectors (-want +got):\n%s", diff)
	}
	bad := snapshot.Rules{Reserved: []string{"", "a b"}, Never: []snapshot.GroupKind{{}, {Group: "g"}}, Only: []snapshot.GroupKind{{Kind: "K"}, {}}}
	got = nil
	for _, e := range bad.Validate(nil) {
		got = append(got, e.Field)
	}
	if diff := cmp.Diff([]string{"rules.reserved[0]", "rules.reserved[1]", "rules.never[0].kind", "rules.only[1].kind"}, slices.Compact(got)); diff != "" {
		t.Errorf("Validate (-want +got):\n%s", diff)
	}
	if errs := (snapshot.Rules{}).Validate(nil); len(errs) != 0 {
		t.Errorf("the zero value: %v", errs)
	}
}

// FuzzSelectors: whatever the selectors, Select and ValidateSelectors agree on
// whether they can be used, nothing that is not to be placed is selected, each
// object once, and the order of selectors changes nothing but the order of the
// objects.
func FuzzSelectors(f *testing.F) {
	f.Add("v1", "Namespace", "shop", "NamespaceOnly", "v1", "ConfigMap", "", "")
	f.Add("v1", "Namespace", "shop", "NamespaceWithResourceSelectors", "v1", "Secret", "key", "")
	f.Add("v1", "Namespace", "", "", "v1", "Namespace", "shop", "NamespaceOnly")
	f.Add("", "Pod", "kube-system", "x", "v1", "Widget", "a", "NamespaceOnly")
	hub := objects{
		object("v1", "Namespace", "", "shop"), object("v1", "Namespace", "", "kube-system"), object("v1", "ConfigMap", "kube-system", "c"),
		object("v1", "ConfigMap", "shop", "c"), object("v1", "Pod", "shop", "p"), object("v1", "Secret", "shop", "key"), object("v1", "Secret", "bank", "key"),
	}
	f.Fuzz(func(t *testing.T, v1, kind1, name1, scope1, v2, kind2, name2, scope2 string) {
		a := snapshot.Selector{Version: v1, Kind: kind1, Name: name1, Scope: snapshot.Scope(scope1)}
		b := snapshot.Selector{Version: v2, Kind: kind2, LabelSelector: &metav1.LabelSelector{}, Scope: snapshot.Scope(scope2)}
		if name2 != "" {
			b.Name, b.LabelSelector = name2, nil
		}
		got, err := snapshot.Select(t.Context(), hub, []snapshot.Selector{a, b})
		if invalid := len(snapshot.ValidateSelectors([]snapshot.Selector{a, b}, nil)) > 0; invalid != (err != nil) {
			t.Fatalf("Select: %v, but the selectors are invalid: %t", err, invalid)
		}
		other, _ := snapshot.Select(t.Context(), hub, []snapshot.Selector{b, a})
		mine, theirs := slices.Sorted(slices.Values(names(got))), slices.Sorted(slices.Values(names(other)))
		if !slices.Equal(mine, theirs) || len(slices.Compact(mine)) != len(theirs) {
			t.Errorf("one order selects %v, the other %v", mine, theirs)
		}
		for _, obj := range got {
			if !snapshot.Propagates(obj) {
				t.Errorf("%s is selected", snapshot.IDOf(obj))
			}
		}
	})
}
