package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

func matchLabel(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func number(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}

func percent(s string) *intstr.IntOrString {
	v := intstr.FromString(s)
	return &v
}

// cluster returns a cluster; labels are key=value.
func cluster(name string, labels ...string) placement.Cluster {
	c := placement.Cluster{Name: name, UID: "uid-" + name, Labels: map[string]string{}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		c.Labels[k] = v
	}
	return c
}

func clusters(n int, labels ...string) []placement.Cluster {
	out := make([]placement.Cluster, n)
	for i := range out {
		out[i] = cluster(fmt.Sprintf("c%03d", i), labels...)
	}
	return out
}

func testTarget() stages.Target {
	return stages.Target{Placement: "web", Index: 3, Snapshot: "snap", Selection: "dec", Default: "rev"}
}

func everything(name string) stages.Stage {
	return stages.Stage{Name: name, Selector: &metav1.LabelSelector{}}
}

func mustPlan(t testing.TB, s stages.Strategy, target stages.Target, clusters []placement.Cluster) *stages.Plan {
	t.Helper()
	p, err := Plan(s, target, clusters)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// layoutOf returns the clusters of a plan as stage/group: names.
func layoutOf(p *stages.Plan) []string {
	var out []string
	for _, st := range p.Stages {
		for _, g := range st.Groups {
			var names []string
			for _, c := range p.Clusters[g.First : g.First+g.Len] {
				names = append(names, c.Name)
			}
			out = append(out, st.Name+"/"+g.Name+": "+strings.Join(names, " "))
		}
	}
	return out
}

// wantError checks that an error names everything in want.
func wantError(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error does not say %q:\n%v", w, err)
		}
	}
}

// rich returns a strategy that uses every feature; testFleet has the clusters for it.
func rich() stages.Strategy {
	return stages.Strategy{
		Name: "rich", Unassigned: stages.UnassignedFinalStage, Profile: stages.Workflow, Attempts: 3,
		Backoff: metav1.Duration{Duration: time.Second}, MaxBackoff: metav1.Duration{Duration: time.Minute}, ProgressDeadline: metav1.Duration{Duration: time.Hour}, MinHealthy: metav1.Duration{Duration: time.Second},
		Removal: stages.Removal{MaxConcurrency: number(2), Deadline: metav1.Duration{Duration: time.Minute}, After: []stages.Task{{Type: stages.Approval}}},
		Stages: []stages.Stage{
			{
				Name: "canary", Selector: matchLabel("env", "canary"), SortKey: "order", MaxConcurrency: number(2),
				After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}},
			},
			{
				Name: "prod", Selector: matchLabel("env", "prod"), MaxConcurrency: percent("50%"), MaxFailures: percent("10%"),
				Groups: []stages.Group{
					{Name: "eu", Selector: matchLabel("region", "eu"), SortKey: "order", MaxFailures: number(1)},
					{Name: "us", Selector: matchLabel("region", "us"), MaxConcurrency: percent("30%")},
				},
				Before: []stages.Task{{Type: stages.Approval}},
				After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}, {Type: stages.Approval, Approval: &approval.Policy{
					Quorums: []approval.Quorum{{Group: "sre", Count: 2}}, ForbidStarter: true, Expires: metav1.Duration{Duration: time.Hour},
				}}},
			},
		},
	}
}

func testFleet() []placement.Cluster {
	var out []placement.Cluster
	for i := range 40 {
		env, region := []string{"canary", "prod", "prod", "dev"}[i%4], []string{"eu", "us"}[i/4%2]
		c := cluster("c"+strconv.Itoa(i), "env="+env, "region="+region)
		if i%3 != 0 {
			c.Labels["order"] = strconv.Itoa(i * 7 % 11)
		}
		out = append(out, c)
	}
	return out
}

func richTarget() stages.Target {
	t := testTarget()
	t.Revision, t.Remove = map[string]string{}, map[string]string{}
	for i := range 40 {
		if i%5 == 0 {
			t.Revision["c"+strconv.Itoa(i)] = "rev-" + strconv.Itoa(i%3)
			t.Remove["gone"+strconv.Itoa(i)] = "uid" + strconv.Itoa(i)
		}
	}
	return t
}

// BenchmarkNewPlan measures plans of a fleet and of a fleet ten times as large. The garbage from
// making the fleet is collected first. The garbage of the plans is part of the cost, with the fleet
// as the heap to scan.
func BenchmarkNewPlan(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run("clusters="+strconv.Itoa(n), func(b *testing.B) {
			s, target, clusters := large(n)
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Plan(s, target, clusters); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// large returns n clusters in 31 stages that each select one value of a label.
func large(n int) (stages.Strategy, stages.Target, []placement.Cluster) {
	const rings = 31
	var s stages.Strategy
	for i := range rings {
		s.Stages = append(s.Stages, stages.Stage{
			Name: "ring" + strconv.Itoa(i), Selector: matchLabel("ring", strconv.Itoa(i)),
			SortKey: "order", MaxConcurrency: percent("10%"),
		})
	}
	target := testTarget()
	target.Revision = map[string]string{}
	clusters := make([]placement.Cluster, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range clusters {
		c := placement.Cluster{Name: fmt.Sprintf("edge-%06d", i), UID: fmt.Sprintf("%036d", i), Labels: map[string]string{
			"ring": strconv.Itoa(random.IntN(rings)), "order": strconv.Itoa(random.IntN(n)), "region": "eu",
			"topology.kubernetes.io/zone": "a",
		}}
		target.Revision[c.Name] = "revision-" + strconv.Itoa(i%5)
		clusters[i] = c
	}
	random.Shuffle(n, func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
	return s, target, clusters
}

// pageRecord is a stored page of a plan.
type pageRecord struct {
	Format    int      `json:"format"`
	Page      int      `json:"page"`
	Revisions []string `json:"revisions,omitempty"`
	Clusters  []string `json:"clusters,omitempty"`
}

// reseal gives a changed plan the right digest, without checks.
func reseal(p *stages.Plan) error {
	return p.SealSorted(values.NameOrder(p.Len(), func(i int) string { return p.Clusters[i].Name }))
}

// spelled reads a plan of one page, without checks.
func spelled(header, page []byte) (*stages.Plan, error) {
	type fields stages.Plan
	var h struct{ Plan *fields }
	var rows pageRecord
	if err := errors.Join(json.Unmarshal(header, &h), json.Unmarshal(page, &rows)); err != nil || h.Plan == nil {
		return nil, fmt.Errorf("no plan: %w", err)
	}
	p := (*stages.Plan)(h.Plan)
	p.Revisions = rows.Revisions
	for _, row := range rows.Clusters {
		parts := append(strings.SplitN(row, " ", 4), "", "", "", "")
		revision, err1 := strconv.Atoi(parts[1])
		cell, err2 := strconv.Atoi(parts[2])
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		p.Clusters = append(p.Clusters, stages.PlannedCluster{Name: parts[0], Revision: revision, Cell: cell, UID: parts[3]})
	}
	return p, nil
}
