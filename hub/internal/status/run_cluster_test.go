package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

func everything() *metav1.LabelSelector { return &metav1.LabelSelector{} }

func number(n int) *intstr.IntOrString {
	v := intstr.FromInt32(int32(n))
	return &v
}

func named(names ...string) []placement.Cluster {
	var out []placement.Cluster
	for _, n := range names {
		out = append(out, placement.Cluster{Name: n})
	}
	return out
}

// clusterOf returns the status of a listed cluster.
func clusterOf(t testing.TB, status map[string]any, name string) map[string]any {
	t.Helper()
	for _, st := range status["stagesStatus"].([]any) {
		for _, c := range st.(map[string]any)["clusters"].([]any) {
			if m := c.(map[string]any); m["clusterName"] == name {
				return m
			}
		}
	}
	t.Fatalf("cluster %s is not listed", name)
	return nil
}

func TestFailingClusterReportsTheReason(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: everything(), MaxConcurrency: number(9)}}}
	r := newRig(t, "10:00:00", s, false, named("apply", "fine", "retry", "settle", "away")...)
	r.step("", stages.Input{})
	apply, settle, retry, away := r.observation("apply"), r.observation("settle"), r.observation("retry"), r.observation("away")
	apply.Message = "the webhook takes its time"
	settle.Sent, settle.Applied, settle.Message = true, true, "Deployment web: 1 of 3 are available"
	retry.Sent, retry.Failed, retry.Message = true, true, "forbidden\x00\xff"
	away.Unreachable, away.Message = true, "connection refused"
	r.step("10:00:05", stages.Input{Observations: []stages.Observation{apply, settle, retry, away}})
	const started = "Started=True ClusterUpdatingStarted: Cluster update started"
	got := r.status()
	for name, want := range map[string]string{
		"apply":  "Progressing=False ClusterUpdatingApplying: attempt 1: the webhook takes its time",
		"settle": "Progressing=False ClusterUpdatingNotHealthyYet: attempt 1: Deployment web: 1 of 3 are available",
		"retry":  "Progressing=False ClusterUpdatingRetrying: attempt 1: forbidden \ufffd; next attempt at 2025-07-22T10:00:06Z",
		"away":   "Progressing=False ClusterUpdatingPending: connection refused; next try at 2025-07-22T10:00:06Z",
	} {
		wantTold(t, name, clusterOf(t, got, name)["conditions"], started, want)
	}
	wantTold(t, "fine", clusterOf(t, got, "fine")["conditions"], started)
	if at := since(t, clusterOf(t, got, "retry")["conditions"], "Progressing"); at != "10:00:05" {
		t.Errorf("in trouble since %s", at)
	}
	want := map[string]any{"total": 5.0, "completed": 0.0, "inFlight": 4.0, "failed": 0.0, "skipped": 0.0, "waiting": 1.0}
	if diff := cmp.Diff(want, got["clusterCounts"]); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got["clusterListing"] != nil {
		t.Errorf("every cluster is listed, and yet there is %v", got["clusterListing"])
	}
}

func TestFailedClusterNamesTheAttempt(t *testing.T) {
	s := stages.Strategy{Attempts: 2, Stages: []stages.Stage{{Name: "all", Selector: everything(), MaxFailures: number(1)}}}
	r := newRig(t, "10:00:00", s, false, named("a", "b")...)
	r.step("", stages.Input{})
	for _, at := range []string{"10:00:05", "10:00:09"} {
		o := r.observation("a")
		o.Failed, o.Sent, o.Message = true, true, "broken"
		r.step(at, stages.Input{Observations: []stages.Observation{o}})
		r.step("10:00:08", stages.Input{})
	}
	got := clusterOf(t, r.status(), "a")
	wantTold(t, "a", got["conditions"], "Started=True ClusterUpdatingStarted: Cluster update started",
		"Succeeded=False ClusterUpdatingFailed: attempt 2: broken")
	if at := since(t, got["conditions"], "Succeeded"); at != "10:00:09" {
		t.Errorf("failed at %s", at)
	}
}

func TestRetriedClusterKeepsItsFirstStartTime(t *testing.T) {
	s := stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{{Name: "all", Selector: everything()}}}
	r := newRig(t, "10:00:00", s, false, named("a")...)
	r.step("", stages.Input{})
	o := r.observation("a")
	o.Failed, o.Sent = true, true
	r.step("10:01:00", stages.Input{Observations: []stages.Observation{o}})
	r.command("10:02:00", stages.Command{Verb: stages.Start})
	r.finish("10:03:00", "a")
	c := clusterOf(t, r.status(), "a")["conditions"]
	if got := since(t, c, "Started") + " " + since(t, c, "Succeeded"); got != "10:00:00 10:03:00" {
		t.Errorf("started and succeeded at %s", got)
	}
}

// bigRig returns a run of n clusters in two stages, with failed, in-flight, waiting and skipped
// clusters.
func bigRig(t *testing.T, n int) *rig {
	clusters := make([]placement.Cluster, n)
	for i := range clusters {
		clusters[i] = placement.Cluster{Name: fmt.Sprintf("member-%06d", i), Labels: map[string]string{"environment": []string{"a", "b"}[i%2]}}
	}
	half := intstr.FromString("50%")
	s := stages.Strategy{Attempts: 1, Stages: []stages.Stage{
		{Name: "a", Selector: inStage("a"), MaxConcurrency: number(min(n/4, 2500)), MaxFailures: &half, After: []stages.Task{{Type: stages.Approval}}},
		{Name: "b", Selector: inStage("b")},
	}}
	r := newRig(t, "10:00:00", s, false, clusters...)
	r.step("", stages.Input{})
	hostile := strings.Repeat("\x00<", 4096)
	var seen []stages.Observation
	for i, f := range r.run.Form(runstate.Key{}).InFlight {
		o := stages.Observation{Cluster: r.plan.Clusters[f.Pos].Name, Attempt: 1, Revision: r.plan.Revisions[0], Message: hostile}
		switch i % 8 {
		case 0:
			o.Failed = true
		case 1:
			o.Unreachable = true
		case 2:
			o.Sent = true
		case 3:
			o.Message = ""
		default:
			o.Sent, o.Applied, o.Current, o.Healthy = true, true, true, true
		}
		seen = append(seen, o)
	}
	r.step("10:01:00", stages.Input{Observations: seen})
	r.command("10:02:00", stages.Command{Verb: stages.Skip, Scope: stages.SkipStage, Name: "b", By: approval.Identity{Name: "sam"}})
	return r
}

func TestStatusOfABigRunListsTroubledClustersFirst(t *testing.T) {
	for _, n := range []int{101, 5_000, 100_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := bigRig(t, n)
			got := r.status()
			b, err := json.Marshal(got)
			if err != nil || len(b) > 256<<10 {
				t.Errorf("the status has %d bytes, %v", len(b), err)
			}
			checkCounts(t, r, got)
			names := listedOf(got)
			if len(names) > 100 || n > 1000 && len(names) != 100 {
				t.Errorf("%d clusters are listed", len(names))
			}
			listing := got["clusterListing"].(map[string]any)
			if listing["total"] != float64(n) || listing["listed"] != float64(len(names)) || !strings.Contains(listing["message"].(string), "journal") {
				t.Errorf("listing %v", listing)
			}
			if lines := told(t, clusterOf(t, got, names[0])["conditions"]); !strings.Contains(lines[1], "ClusterUpdatingFailed") {
				t.Errorf("the first that is listed is %q", lines)
			}
		})
	}
}

func listedOf(status map[string]any) []string {
	var out []string
	for _, st := range status["stagesStatus"].([]any) {
		for _, c := range st.(map[string]any)["clusters"].([]any) {
			out = append(out, c.(map[string]any)["clusterName"].(string))
		}
	}
	return out
}

// checkCounts compares the counts of each stage with the state of every cluster.
func checkCounts(t *testing.T, r *rig, got map[string]any) {
	t.Helper()
	want := make([]map[string]any, len(r.plan.Stages))
	for i := range want {
		want[i] = map[string]any{"total": 0.0, "completed": 0.0, "inFlight": 0.0, "failed": 0.0, "skipped": 0.0, "waiting": 0.0}
	}
	names := map[stages.State]string{
		stages.Completed: "completed", stages.Running: "inFlight", stages.Failed: "failed",
		stages.Skipped: "skipped", stages.Pending: "waiting",
	}
	for pos, state := range r.run.States(r.plan) {
		stage, _ := r.plan.StageOf(pos)
		want[stage]["total"] = want[stage]["total"].(float64) + 1
		if name, ok := names[state]; ok {
			want[stage][name] = want[stage][name].(float64) + 1
		}
	}
	for i := range want {
		if diff := cmp.Diff(want[i], stageAt(got, i)["clusterCounts"]); diff != "" {
			t.Errorf("stage %d (-want +got):\n%s", i, diff)
		}
	}
}

func TestClustersInTroubleAreListedInTheirOrderOfUrgency(t *testing.T) {
	r := bigRig(t, 101)
	var order []string
	status := r.status()
	for _, name := range listedOf(status) {
		lines := told(t, clusterOf(t, status, name)["conditions"])
		_, reason, _ := strings.Cut(lines[len(lines)-1], " ")
		reason, _, _ = strings.Cut(reason, ":")
		if len(order) == 0 || order[len(order)-1] != reason {
			order = append(order, reason)
		}
	}
	want := []string{"ClusterUpdatingFailed", "ClusterUpdatingApplying", "ClusterUpdatingPending", "ClusterUpdatingStarted", "ClusterUpdatingSkipped"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSkippedClustersAreCountedInTheirOwnStage(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "a", Selector: inStage("a")}, {Name: "none", Selector: inStage("c")}, {Name: "b", Selector: inStage("b")}}}
	var clusters []placement.Cluster
	for i, stage := range []string{"a", "a", "b", "b", "b"} {
		clusters = append(clusters, placement.Cluster{Name: fmt.Sprint("m", i), Labels: map[string]string{"environment": stage}})
	}
	r := newRig(t, "10:00:00", s, true, clusters...)
	for _, stage := range []string{"a", "b"} {
		r.command("10:00:01", stages.Command{Verb: stages.Skip, Scope: stages.SkipStage, Name: stage})
	}
	if n := len(r.run.Form(runstate.Key{}).Unsuccessful); n != 1 {
		t.Fatalf("%d exceptions, and not one over both stages", n)
	}
	checkCounts(t, r, r.status())
}

func BenchmarkProjectRun(b *testing.B) {
	for _, n := range []int{100, 5_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := bigRig(&testing.T{}, n)
			r.facts.Now = r.now.Add(time.Second)
			b.ReportAllocs()
			for b.Loop() {
				Run(&r.facts)
			}
		})
	}
}
