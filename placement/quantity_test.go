package placement_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-dev/slipway/placement"
)

// No quantity takes long to read or to compare, because a cluster reports its properties itself.
func TestParseQuantity(t *testing.T) {
	for s, want := range map[string]string{
		"5": "5", "500m": "500m", "16Gi": "16Gi", "2E": "2E", "1e9": "1e9", "1E-3": "1m", "1e+09": "1e9",
		"1e1000000000": "", "1e-1000000000": "", "1E+2147483647": "", "1e100": "", "big": "", "": "",
		strings.Repeat("9", 65): "",
	} {
		q, err := placement.ParseQuantity(s)
		switch {
		case want == "" && err == nil:
			t.Errorf("%q is read as %s", s, q.String())
		case want != "" && (err != nil || q.Cmp(resource.MustParse(want)) != 0):
			t.Errorf("%q is read as %s, %v; want %s", s, q.String(), err, want)
		}
	}
}

// A property beyond all numbers counts as absent, whichever way a host created it: it does not
// affect other clusters.
func TestPropertyBeyondNumbers(t *testing.T) {
	with := func(name, value string) placement.Cluster {
		return placement.Cluster{Name: name, Properties: map[string]resource.Quantity{"cpu": resource.MustParse(value)}}
	}
	clusters := []placement.Cluster{with("a", "1"), with("b", "5"), with("c", "1e1000000000")}
	sorted := preferring(pickN(1), placement.Preference{Weight: 100, Sorter: &placement.PropertySorter{Name: "cpu", Order: placement.Descending}})
	atLeast := requiring(pickN(3), placement.Term{Properties: []placement.PropertyRequirement{
		{Name: "cpu", Operator: placement.Ge, Value: resource.MustParse("1")},
	}})
	for name, tc := range map[string]struct {
		policy placement.Policy
		want   []string
	}{"sorter": {sorted, []string{"b"}}, "requirement": {atLeast, []string{"a", "b"}}} {
		d, verdicts, err := placement.Decide(tc.policy, clusters, placement.Previous{})
		if err != nil || !slices.Equal(d.Clusters, tc.want) {
			t.Errorf("%s: picked %v, %v; want %v\n%v", name, d.Clusters, err, tc.want, verdicts)
		}
	}
	beyond := requiring(pickN(1), placement.Term{Properties: []placement.PropertyRequirement{
		{Name: "cpu", Operator: placement.Ge, Value: resource.MustParse("1e1000000000")},
	}})
	if err := beyond.Validate(); err == nil || !strings.Contains(err.Error(), "required[0].properties[0].value") {
		t.Errorf("a value beyond all numbers: %v", err)
	}
}
