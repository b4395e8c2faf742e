package stages

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
)

// Every cluster is in one piece, and the pieces are in order, however many there are.
func TestPlanSplitDividesEverything(t *testing.T) {
	for _, n := range []int{0, 1, planPiece - 1, planPiece, planPiece + 1, 5*planPiece - 1, 5 * planPiece} {
		bounds := make([][2]int, planPieces(n))
		seen := make([]int8, n)
		planSplit(n, func(piece, from, to int) {
			bounds[piece] = [2]int{from, to}
			for i := from; i < to; i++ {
				seen[i]++
			}
		})
		next := 0
		for _, b := range bounds {
			if b[0] != next || b[1]-b[0] > planPiece {
				t.Errorf("%d are divided into %v", n, bounds)
			}
			next = b[1]
		}
		if next != n || slices.ContainsFunc(seen, func(times int8) bool { return times != 1 }) {
			t.Errorf("of %d, the pieces %v are done", n, bounds)
		}
	}
}

// pieces is a fleet of several pieces, not in order: its stage is a label's value,
// its revision that of its region, where that has one.
func pieces(seed uint64) (Strategy, Target, []placement.Cluster) {
	const n = 2*planPiece + 137
	s := Strategy{Unassigned: UnassignedExclude, Stages: []Stage{
		{Name: "first", Selector: planSel("stage", "0"), SortKey: "order", MaxConcurrency: planStr("1%")},
		{Name: "second", Selector: planSel("stage", "1"), MaxConcurrency: planNum(7), Groups: []Group{
			{Name: "eu", Selector: planSel("region", "eu"), SortKey: "order"},
			{Name: "us", Selector: planSel("region", "us")},
		}},
	}}
	target := planTarget()
	target.Revision = map[string]string{}
	clusters := make([]placement.Cluster, n)
	random := rand.New(rand.NewPCG(41, 1))
	for i := range clusters {
		region := []string{"eu", "us"}[random.IntN(2)]
		c := planMember(fmt.Sprintf("edge-%05d", i), "region="+region, "stage="+strconv.Itoa(random.IntN(3)))
		if random.IntN(4) > 0 {
			c.Labels["order"] = strconv.Itoa(random.IntN(50) - 25)
		}
		if i > planPiece+planPiece/2 && region == "us" {
			target.Revision[c.Name] = "rev-" + strconv.Itoa(i/planPiece)
		}
		clusters[i] = c
	}
	random = rand.New(rand.NewPCG(41, seed))
	random.Shuffle(n, func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
	return s, target, clusters
}

// expect is the clusters of a group with their revisions, as a sort of all of them
// gives them.
func expect(target Target, clusters []placement.Cluster, sorted bool, is func(labels map[string]string) bool) (out []string) {
	picked := slices.DeleteFunc(slices.Clone(clusters), func(c placement.Cluster) bool { return !is(c.Labels) })
	order := func(c placement.Cluster) int {
		n, err := strconv.Atoi(c.Labels["order"])
		switch {
		case !sorted:
			return 0
		case err != nil:
			return 1000
		default:
			return n
		}
	}
	slices.SortFunc(picked, func(a, b placement.Cluster) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range picked {
		out = append(out, c.Name+" "+c.UID+" "+cmp.Or(target.Revision[c.Name], target.Default))
	}
	return out
}

// The plan of a fleet that is looked at in several pieces is what sorting all of it
// gives, in whatever order the clusters come, and stored and read it is the same.
func TestAPlanOfManyClustersIsThatOfOne(t *testing.T) {
	s, target, clusters := pieces(2)
	p := planMust(t, s, target, clusters)
	var want []string
	want = append(want, expect(target, clusters, true, func(l map[string]string) bool { return l["stage"] == "0" })...)
	want = append(want, expect(target, clusters, true, func(l map[string]string) bool { return l["stage"] == "1" && l["region"] == "eu" })...)
	want = append(want, expect(target, clusters, false, func(l map[string]string) bool { return l["stage"] == "1" && l["region"] == "us" })...)
	got := make([]string, len(p.Clusters))
	for i, c := range p.Clusters {
		got[i] = c.Name + " " + c.UID + " " + p.Revisions[c.Revision]
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
	if diff := gocmp.Diff([]string{"rev", "rev-1", "rev-2"}, p.Revisions); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	wantPositions(t, p)
	if err := p.Verify(); err != nil {
		t.Error(err)
	}
	for seed := range uint64(3) {
		_, _, others := pieces(10 + seed)
		if again := planMust(t, s, target, others); again.Digest != p.Digest {
			t.Errorf("in another order the digest is %s, want %s", again.Digest, p.Digest)
		}
	}
	read, err := DecodePlan(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(p, read, gocmp.AllowUnexported(Plan{}, cellMembers{})); diff != "" {
		t.Error(diff)
	}
}

// What is hashed of a large plan is what was before it was looked at in pieces, so
// that stored plans are read.
func TestTheDigestOfALargePlanIsKept(t *testing.T) {
	s, target, clusters := planLarge(50_000)
	const want = "e88a6691b42514271c131ada83ef670646d1e625596643e81a5616c8e61eb7ed"
	if p := planMust(t, s, target, clusters); p.Digest != want {
		t.Errorf("the digest is %s, want %s", p.Digest, want)
	}
}

// Problems of clusters in all pieces, and on both sides of their bounds, are told
// together, each cluster once and in order of name.
func TestProblemsOfManyClustersAreToldTogether(t *testing.T) {
	s, target, clusters := pieces(3)
	s.Unassigned = UnassignedError
	slices.SortFunc(clusters, func(a, b placement.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	last, next := planPiece-1, planPiece
	stage := func(i int, labels string) {
		for l := range strings.FieldsSeq(labels) {
			key, value, _ := strings.Cut(l, "=")
			clusters[i].Labels[key] = value
		}
	}
	for i := range clusters { // nobody else has a problem
		stage(i, "stage=0 order=1")
	}
	for _, i := range []int{0, last, next, 2 * planPiece} {
		stage(i, "order=x")
	}
	for _, i := range []int{1, 2*planPiece - 1, 2*planPiece + 1} {
		stage(i, "stage=9")
	}
	for _, i := range []int{2, next + 1} {
		stage(i, "stage=1 region=nowhere")
	}
	want := []string{
		"edge-00000=x, edge-16383=x, edge-16384=x, edge-32768=x",
		"edge-00001, edge-32767, edge-32769",
		"edge-00002, edge-16385",
	}
	_, err := NewPlan(s, target, clusters)
	planWants(t, err, quoted(want)...)
}

// The same for what is told before anything is assigned, of a cluster too that is
// the last of one piece and the first of the next.
func TestProblemsOfManyNamesAreToldTogether(t *testing.T) {
	s, target, clusters := pieces(4)
	slices.SortFunc(clusters, func(a, b placement.Cluster) int { return cmp.Compare(a.Name, b.Name) })
	twice := clusters[planPiece].Name
	clusters[planPiece-1].Name = twice
	clusters[10].UID, clusters[2*planPiece].UID = "a b", "a b"
	clusters[2*planPiece+2].Name, clusters[2*planPiece+3].Name = "zone.a", "zone.b"
	target.Revision = map[string]string{twice: "rev", "stranger": "rev"}
	_, err := NewPlan(s, target, clusters)
	planWants(t, err, quoted([]string{twice, "edge-00010, edge-32768", "zone.a, zone.b", "stranger"})...)
	target.Default = ""
	_, err = NewPlan(s, target, clusters)
	planWants(t, err, "edge-00000, edge-00001, edge-00002", "and "+strconv.Itoa(len(clusters)-2-10)+" more")
}

// quoted are lists of names as an error has them.
func quoted(lists []string) []string {
	out := make([]string, len(lists))
	for i, l := range lists {
		out[i] = `["` + strings.ReplaceAll(l, ", ", `","`) + `"]`
	}
	return out
}
