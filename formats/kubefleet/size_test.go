package kubefleet_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// many returns a text with a line for each of n numbers.
func many(line string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

const (
	strategyHead = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterStagedUpdateStrategy\nmetadata: {name: s}\nspec:\n  stages:\n"
	placeHead    = "apiVersion: placement.kubernetes-fleet.io/v1\nkind: ClusterResourcePlacement\nmetadata: {name: p}\nspec:\n"
	oneSelector  = "  resourceSelectors: [{group: '', version: v1, kind: Namespace, name: x}]\n  policy:\n    placementType: PickN\n    numberOfClusters: 1\n"
)

// large has documents with a list of n elements.
var large = map[string]func(n int) string{
	"stages":        func(n int) string { return strategyHead + many("  - name: s%d\n", n) },
	"stages, wrong": func(n int) string { return strategyHead + many("  - name: S%d\n", n) },
	"labels, wrong": func(n int) string {
		return strategyHead + "  - name: s\n    labelSelector:\n      matchLabels:\n" + many("        k%d_: v\n", n)
	},
	"selectors": func(n int) string {
		return placeHead + "  resourceSelectors:\n" + many("  - {group: '', version: v1, kind: Namespace, name: x%d}\n", n)
	},
	"selectors of labels": func(n int) string {
		return placeHead + "  resourceSelectors:\n" + many("  - {group: '', version: v1, kind: Namespace, labelSelector: {matchLabels: {a: b%d}}}\n", n)
	},
	"tolerations": func(n int) string {
		return placeHead + oneSelector + "    tolerations:\n" + many("    - {key: k%d, operator: Exists}\n", n)
	},
	"spread": func(n int) string {
		return placeHead + oneSelector + "    topologySpreadConstraints:\n" + many("    - {maxSkew: 1, topologyKey: k%d}\n", n)
	},
	"objects": func(n int) string {
		return "apiVersion: v1\nkind: List\nitems:\n" + many("- {apiVersion: v1, kind: ConfigMap, metadata: {name: c%d}}\n", n)
	},
}

// Reading a document that is ten times as large takes ten times the memory. With a quadratic
// comparison the largest documents take minutes.
func TestReadingALongListIsLinear(t *testing.T) {
	cost := func(text string) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := kubefleet.Read(strings.NewReader(text), "f"); err != nil {
			_ = err.Error()
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	for name, of := range large {
		t.Run(name, func(t *testing.T) {
			small, big := cost(of(longest/120)), cost(of(longest/12))
			if big > 20*small {
				t.Errorf("ten times the document allocates %d bytes, the other one %d: %.1f times", big, small, float64(big)/float64(small))
			}
			if name == "tolerations" || name == "spread" {
				cost(of(longest)) // about the largest document that is read
			}
		})
	}
}

func TestAStrategyHasAsManyStagesAsKubeFleetAllows(t *testing.T) {
	d := read(t, large["stages"](kubefleet.MaxStages))
	if len(d.Strategies) != 1 || len(d.Strategies[0].Stages) != kubefleet.MaxStages {
		t.Errorf("read %+v", d.Strategies)
	}
	_, err := kubefleet.Read(strings.NewReader(large["stages"](60_000)), "f")
	if want := "f:6: ClusterStagedUpdateStrategy/s: spec.stages: has 60000 stages; a strategy has at most 31"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{4_000, 40_000} {
		text := large["selectors"](n)
		b.Run(fmt.Sprintf("selectors=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := kubefleet.Read(strings.NewReader(text), "f"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
