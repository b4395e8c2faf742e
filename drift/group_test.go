package drift

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheSameEditOnAThousandClustersIsOneGroup(t *testing.T) {
	hub := `{"metadata":{"name":"x"},"spec":{"a":1}}`
	edited := reported(t, hub, `{"metadata":{"name":"x"},"spec":{"a":2}}`, Options{})
	other := reported(t, hub, `{"metadata":{"name":"x"},"spec":{"a":3}}`, Options{})
	missing := reported(t, hub, "", Options{})
	clean := reported(t, hub, hub, Options{})
	leaving := reported(t, hub, `{"metadata":{"name":"x","deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{"a":1}}`, Options{})
	reports := map[string]Report{"odd": other, "gone": missing, "gone2": missing, "clean": clean, "leaving": leaving}
	for i := range 1000 {
		r := edited
		r.Generation = int64(i)
		reports[fmt.Sprintf("c%04d", i)] = r
	}
	groups := GroupReports(maps.All(reports))
	var got []string
	for _, g := range groups {
		got = append(got, fmt.Sprintf("%d %s %s %d", g.Count, g.Clusters[0], g.Report.State, g.Report.Generation))
	}
	want := []string{"1000 c0000 Present 0", "2 gone Missing 0", "1 odd Present 0", "1 leaving Terminating 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for range 5 {
		if diff := cmp.Diff(groups, GroupReports(maps.All(reports))); diff != "" {
			t.Fatalf("the order of the reports matters:\n%s", diff)
		}
	}
}

func TestTheSameDifferenceOfAnotherObjectIsAnotherGroup(t *testing.T) {
	a := reported(t, `{"metadata":{"name":"x"},"spec":{"a":1}}`, `{"metadata":{"name":"x"},"spec":{"a":2}}`, Options{})
	b := reported(t, `{"metadata":{"name":"y"},"spec":{"a":1}}`, `{"metadata":{"name":"y"},"spec":{"a":2}}`, Options{})
	groups := GroupReports(func(yield func(string, Report) bool) {
		_ = yield("c2", b) && yield("c1", b) && yield("c1", a) && yield("c1", b)
	})
	if len(groups) != 2 || groups[0].Report.Name != "y" || !cmp.Equal(groups[0].Clusters, []string{"c1", "c2"}) || groups[0].Fingerprint != groups[1].Fingerprint {
		t.Errorf("got %+v", groups)
	}
}
