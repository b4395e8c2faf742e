package planner

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// shuffled returns a large unordered fleet. A label has the stage of each cluster, and its revision
// depends on its region, if it has one.
func shuffled(seed uint64) (stages.Strategy, stages.Target, []placement.Cluster) {
	const n = 3000
	s := stages.Strategy{Unassigned: stages.UnassignedExclude, Stages: []stages.Stage{
		{Name: "first", Selector: matchLabel("stage", "0"), SortKey: "order", MaxConcurrency: percent("1%")},
		{Name: "second", Selector: matchLabel("stage", "1"), MaxConcurrency: number(7), Groups: []stages.Group{
			{Name: "eu", Selector: matchLabel("region", "eu"), SortKey: "order"},
			{Name: "us", Selector: matchLabel("region", "us")},
		}},
	}}
	target := testTarget()
	target.Revision = map[string]string{}
	clusters := make([]placement.Cluster, n)
	random := rand.New(rand.NewPCG(41, 1))
	for i := range clusters {
		region := []string{"eu", "us"}[random.IntN(2)]
		c := cluster(fmt.Sprintf("edge-%05d", i), "region="+region, "stage="+strconv.Itoa(random.IntN(3)))
		if random.IntN(4) > 0 {
			c.Labels["order"] = strconv.Itoa(random.IntN(50) - 25)
		}
		if i > n/2 && region == "us" {
			target.Revision[c.Name] = "rev-" + strconv.Itoa(1+i%2)
		}
		clusters[i] = c
	}
	random = rand.New(rand.NewPCG(41, seed))
	random.Shuffle(n, func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
	return s, target, clusters
}

// expect returns the clusters of a group with their revisions, by sorting the whole fleet.
func expect(target stages.Target, clusters []placement.Cluster, sorted bool, is func(labels map[string]string) bool) (out []string) {
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

// The plan of a large fleet equals the result of sorting the whole fleet, for any order of the
// clusters, and does not change when it is stored and read.
func TestAPlanOfManyClustersIsSorted(t *testing.T) {
	s, target, clusters := shuffled(2)
	p := mustPlan(t, s, target, clusters)
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
		_, _, others := shuffled(10 + seed)
		if again := mustPlan(t, s, target, others); again.Digest != p.Digest {
			t.Errorf("in another order the digest is %s, want %s", again.Digest, p.Digest)
		}
	}
	read, err := stages.DecodePlan(p.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(p, read, gocmp.AllowUnexported(stages.Plan{}, stages.CellMembers{})); diff != "" {
		t.Error(diff)
	}
}

// The digest of a large plan never changes, so that stored plans can be read.
func TestTheDigestOfALargePlanIsKept(t *testing.T) {
	s, target, clusters := large(50_000)
	const want = "36a6cfadb1f44d9448183f243ace7880289f72ac8557bf2e6a6fe16eb997858c"
	if p := mustPlan(t, s, target, clusters); p.Digest != want {
		t.Errorf("the digest is %s, want %s", p.Digest, want)
	}
}
