package snapshot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/snapshot"
)

// T25: a selector with a namespace picks nothing outside of it.
func TestT25ASelectorKeepsToItsNamespace(t *testing.T) {
	src := objects{
		object("v1", "ConfigMap", "a", "cm"), object("v1", "ConfigMap", "b", "cm"),
		object("v1", "ConfigMap", "a", "other"), object("v1", "Namespace", "", "a"),
	}
	got, err := snapshot.Select(t.Context(), src, []snapshot.Selector{{Version: "v1", Kind: "ConfigMap", Namespace: "a", Name: "cm"}})
	if diff := cmp.Diff([]string{"ConfigMap.v1 a/cm"}, names(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for want, s := range map[string]snapshot.Selector{
		"selectors[0].namespace: Forbidden": {Version: "v1", Kind: "Namespace", Namespace: "a"},
		"selectors[0].namespace: Invalid":   {Version: "v1", Kind: "ConfigMap", Namespace: "kube-system"},
	} {
		err := snapshot.ValidateSelectors([]snapshot.Selector{s}, nil).ToAggregate()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error = %v, want %q", s, err, want)
		}
	}
}
