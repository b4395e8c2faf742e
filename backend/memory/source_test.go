package memory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/snapshot"
)

func TestSourceAnswersQueries(t *testing.T) {
	deployment := object("Deployment", "team", "a", nil)
	deployment.SetAPIVersion("apps/v1")
	s := memory.NewSource(config("a", nil), config("b", nil), object("ConfigMap", "team", "a", nil),
		deployment, object("Namespace", "", "team", nil))
	for name, tc := range map[string]struct {
		q    snapshot.Query
		want []string
	}{
		"a kind":             {snapshot.Query{Version: "v1", Kind: "ConfigMap"}, []string{"default/a", "default/b", "team/a"}},
		"a kind by name":     {snapshot.Query{Version: "v1", Kind: "ConfigMap", Name: "a"}, []string{"default/a", "team/a"}},
		"a kind in one":      {snapshot.Query{Version: "v1", Kind: "ConfigMap", Namespace: "team"}, []string{"team/a"}},
		"one":                {snapshot.Query{Version: "v1", Kind: "Namespace", Name: "team"}, []string{"/team"}},
		"what is in a space": {snapshot.Query{Namespace: "team"}, []string{"team/a", "team/a"}},
		"another group":      {snapshot.Query{Group: "x", Version: "v1", Kind: "Deployment"}, nil},
		"another version":    {snapshot.Query{Group: "apps", Version: "v2", Kind: "Deployment"}, nil},
	} {
		var got []string
		for obj, err := range s.Objects(t.Context(), tc.q) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, obj.GetNamespace()+"/"+obj.GetName())
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	s.Delete(id("Namespace", "", "team"))
	for obj := range s.Objects(t.Context(), snapshot.Query{Version: "v1", Kind: "Namespace"}) {
		t.Errorf("%s is still there", obj.GetName())
	}
}

func TestSourceDoesNotOverlookBadObjects(t *testing.T) {
	s := memory.NewSource(config("a", nil), config("", nil))
	for _, err := range s.Objects(t.Context(), snapshot.Query{Namespace: "default"}) {
		if err == nil {
			t.Error("an object without a name is overlooked")
		}
	}
}
