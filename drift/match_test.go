package drift_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift"
)

// object returns the object that apiVersion, kind, namespace and name are in a text: "v1 Pod shop
// web", "" for no namespace.
func object(text string) *unstructured.Unstructured {
	f := strings.Split(text, " ")
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": f[0], "kind": f[1], "metadata": map[string]any{"name": f[3]}}}
	if f[2] != "" {
		o.SetNamespace(f[2])
	}
	return o
}

func objects(texts ...string) (out []*unstructured.Unstructured) {
	for _, text := range texts {
		out = append(out, object(text))
	}
	return out
}

func text(o *unstructured.Unstructured) string {
	if o == nil {
		return "none"
	}
	return strings.Join([]string{o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName()}, " ")
}

func TestMatchFindsObjectsByGroupKindNamespaceAndName(t *testing.T) {
	type texts []string
	for name, c := range map[string]struct{ hub, member, pairs, rest texts }{
		"same":            {texts{"v1 Pod shop a"}, texts{"v1 Pod shop a"}, texts{"v1 Pod shop a"}, nil},
		"other group":     {texts{"apps/v1 Pod shop a"}, texts{"v1 Pod shop a"}, texts{"none"}, texts{"v1 Pod shop a"}},
		"other kind":      {texts{"v1 Pod shop a"}, texts{"v1 Service shop a"}, texts{"none"}, texts{"v1 Service shop a"}},
		"other namespace": {texts{"v1 Pod shop a"}, texts{"v1 Pod test a"}, texts{"none"}, texts{"v1 Pod test a"}},
		"other name":      {texts{"v1 Pod shop a"}, texts{"v1 Pod shop b"}, texts{"none"}, texts{"v1 Pod shop b"}},
		"the hub's order": {texts{"v1 Pod shop b", "v1 Pod shop a"}, texts{"v1 Pod shop a", "v1 Pod shop b", "v1 Pod shop c"}, texts{"v1 Pod shop b", "v1 Pod shop a"}, texts{"v1 Pod shop c"}},
		"nothing":         {texts{"v1 Pod shop a"}, nil, texts{"none"}, nil},

		"other version":      {texts{"apps/v1 X shop a"}, texts{"apps/v2 X shop a"}, texts{"apps/v2 X shop a"}, nil},
		"the hub's version":  {texts{"apps/v1 X shop a"}, texts{"apps/v2 X shop a", "apps/v1 X shop a"}, texts{"apps/v1 X shop a"}, nil},
		"the first version":  {texts{"apps/v1 X shop a"}, texts{"apps/v3 X shop a", "apps/v2 X shop a"}, texts{"apps/v3 X shop a"}, nil},
		"the hub's versions": {texts{"apps/v1 X shop a", "apps/v2 X shop a"}, texts{"apps/v2 X shop a", "apps/v1 X shop a"}, texts{"apps/v1 X shop a", "apps/v2 X shop a"}, nil},

		"default on the member":   {texts{"v1 Pod  a"}, texts{"v1 Pod default a"}, texts{"v1 Pod default a"}, nil},
		"default on the hub":      {texts{"v1 Pod default a"}, texts{"v1 Pod  a"}, texts{"v1 Pod  a"}, nil},
		"the hub has both":        {texts{"v1 Pod  a", "v1 Pod default a"}, texts{"v1 Pod default a"}, texts{"none", "v1 Pod default a"}, nil},
		"the member has both":     {texts{"v1 Pod  a"}, texts{"v1 Pod default a", "v1 Pod  a"}, texts{"v1 Pod  a"}, texts{"v1 Pod default a"}},
		"none is not another one": {texts{"v1 Pod  a"}, texts{"v1 Pod shop a"}, texts{"none"}, texts{"v1 Pod shop a"}},
	} {
		hub := objects(c.hub...)
		found, left := drift.Match(hub, objects(c.member...))
		var pairs, rest texts
		for i, p := range found {
			if p.Hub != hub[i] {
				t.Errorf("%s: pair %d has another object of the hub", name, i)
			}
			pairs = append(pairs, text(p.Member))
		}
		for _, o := range left {
			rest = append(rest, text(o))
		}
		if diff := cmp.Diff([]texts{c.pairs, c.rest}, []texts{pairs, rest}); diff != "" {
			t.Errorf("%s: pairs and rest (-want +got):\n%s", name, diff)
		}
	}
}

// The requested objects are compared with the objects of a member.
func ExampleMatch() {
	pairs, rest := drift.Match(objects("v1 ConfigMap shop page", "v1 ConfigMap shop style"), objects("v1 ConfigMap shop page", "v1 Secret shop login"))
	for _, p := range pairs {
		report, err := drift.Compare(p.Hub, p.Member, drift.Options{})
		fmt.Println(report.Name, report.State, err)
	}
	fmt.Println(len(rest), "more on the member")
	// Output:
	// page Present <nil>
	// style Missing <nil>
	// 1 more on the member
}
