package stages

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// Sorting by the bits of keys gives what comparing them gives, and leaves the
// elements of one key in their order.
func TestPlanSortKeyedIsAStableSort(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for round := range 300 {
		most := 600
		if round%20 == 0 {
			most = 10_000 // so many that the most bits are looked at in one pass
		}
		in := make([]planKeyed, random.IntN(most))
		bits := random.IntN(65)
		for i := range in {
			in[i] = planKeyed{random.Uint64() >> bits << random.IntN(9), i}
		}
		want := slices.Clone(in)
		slices.SortStableFunc(want, func(a, b planKeyed) int { return cmp.Compare(a.key, b.key) })
		if planSortKeyed(in, make([]planKeyed, len(in))); !slices.Equal(in, want) {
			t.Fatalf("%d elements of %d bits:\n%v\nwant\n%v", len(want), 64-bits, in, want)
		}
	}
}

func TestPlanIntKeyOrdersLikeTheNumber(t *testing.T) {
	numbers := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 32, -256, -1, 0, 1, 255, 1 << 32, math.MaxInt64}
	for i := 1; i < len(numbers); i++ {
		if planIntKey(numbers[i-1]) >= planIntKey(numbers[i]) {
			t.Errorf("the key of %d is not less than that of %d", numbers[i-1], numbers[i])
		}
	}
}

// Names are in order whether the first bytes tell them apart or not, one is
// the beginning of another, or they are no names at all.
func TestPlanNameOrderIsThatOfTheNames(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 2))
	parts := []string{"", "a", "b", "ab", "edge-", "eu-west-1-", "eu-west-2-", "0", "9", "\x00", "ä"}
	for range 300 {
		names := make([]string, random.IntN(200))
		for i := range names {
			for range random.IntN(6) {
				names[i] += parts[random.IntN(len(parts))]
			}
		}
		var got []string
		for _, n := range planNameOrder(len(names), func(i int) string { return names[i] }) {
			got = append(got, names[n.at])
		}
		if want := slices.Sorted(slices.Values(names)); !slices.Equal(got, want) {
			t.Fatalf("got %q\nwant %q", got, want)
		}
	}
}

// Every cluster is found by its name, in a plan that was made and in one that
// was read, and nothing else is.
func TestPositionFindsClustersAmongRemovedAndExcluded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for range 50 {
		target, clusters := planTarget(), planMembers(0)
		target.Remove = map[string]string{}
		for i := range random.IntN(60) {
			name := fmt.Sprintf("%s-%d", []string{"eu", "us", "a-long-beginning"}[random.IntN(3)], i)
			switch random.IntN(4) {
			case 0:
				target.Remove[name] = "uid"
			case 1:
				clusters = append(clusters, planMember(name))
			default:
				clusters = append(clusters, planMember(name, "on=yes", "order="+strconv.Itoa(random.IntN(9))))
			}
		}
		s := Strategy{Unassigned: UnassignedExclude, Stages: []Stage{{Name: "all", Selector: planSel("on", "yes"), SortKey: "order"}}}
		made := planMust(t, s, target, clusters)
		read, err := DecodePlan(made.Encode())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []*Plan{made, read} {
			wantPositions(t, p)
			for _, c := range clusters {
				if _, ok := p.Position(c.Name); ok != (c.Labels["on"] == "yes") {
					t.Errorf("%s, labels %v, is in the plan: %v", c.Name, c.Labels, ok)
				}
			}
		}
		if diff := gocmp.Diff(made, read, gocmp.AllowUnexported(Plan{}, cellMembers{})); diff != "" {
			t.Error(diff)
		}
	}
}

func wantPositions(t *testing.T, p *Plan) {
	t.Helper()
	for pos, c := range p.Clusters {
		if got, ok := p.Position(c.Name); got != pos || !ok {
			t.Errorf("%s is at %d, %v, want %d", c.Name, got, ok, pos)
		}
		for _, name := range []string{c.Name + "0", c.Name[:len(c.Name)-1], "", "~"} {
			if got, ok := p.Position(name); ok && p.Clusters[got].Name != name {
				t.Errorf("%q is said to be at %d", name, got)
			}
		}
	}
}
