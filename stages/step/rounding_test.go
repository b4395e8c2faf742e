package step

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// refused stands for a limit that is refused, and unset for a missing one.
const (
	refused = -100
	unset   = "unset"
)

// roundings lists how a number or a percentage becomes a limit over n clusters and, if another
// system does that differently, its result in theirs. Nothing is ever clamped.
func roundings() []struct {
	system, field, value string
	n, ours              int
	theirs               string
} {
	return []struct {
		system, field, value string
		n, ours              int
		theirs               string
	}{
		// Concurrency: a percentage is rounded down, and is at least 1.
		{"", "concurrency", "100%", 7, 7, ""},
		{"", "concurrency", "50%", 7, 3, ""},
		{"", "concurrency", "1%", 7, 1, ""},
		{"", "concurrency", "1%", 250, 2, ""},
		{"", "concurrency", "7", 5, 7, ""},
		{"", "concurrency", unset, 5, 1, ""},
		{"", "concurrency", "-1", 5, refused, ""},
		{"", "concurrency", "101%", 5, refused, ""},
		{"", "concurrency", "2.5%", 5, refused, ""},
		// Failures: a percentage is rounded up.
		{"", "failures", "0%", 7, 0, ""},
		{"", "failures", "1%", 7, 1, ""},
		{"", "failures", "50%", 7, 4, ""},
		{"", "failures", "100%", 7, 7, ""},
		{"", "failures", unset, 7, 0, ""},
		{"", "failures", "-1", 7, refused, ""},
		{"", "failures", "101%", 7, refused, ""},

		{"Azure", "concurrency", "25%", 5, 1, ""},
		{"Azure", "failures", "25%", 5, 2, ""},
		{"Azure", "concurrency", "0", 5, refused, ""},
		{"Azure", "failures", "0", 5, 0, ""},
		{"KubeFleet", "concurrency", "25%", 5, 1, ""},
		{"KubeFleet", "concurrency", "0%", 5, refused, ""},
		{"KubeFleet", "concurrency", "9", 5, 9, ""},
		{"OCM", "concurrency", "25%", 5, 1, "2: it rounds up"},
		{"OCM", "failures", "25%", 5, 2, ""},
		{"OCM", "concurrency", "0", 5, refused, "all clusters"},
		{"OCM", "concurrency", "0%", 5, refused, "all clusters"},
		{"OCM", "failures", "10", 4, 10, "0"},
		{"Rancher Fleet", "concurrency", "10%", 4, 1, ""},
		{"Rancher Fleet", "concurrency", "0%", 4, refused, "1"},
		{"Sveltos", "concurrency", "25%", 5, 1, "2: it rounds up"},
		{"Sveltos", "concurrency", "0", 5, refused, "all clusters"},
		{"Sveltos", "concurrency", "many", 5, refused, "all clusters"},
		{"Sveltos", "concurrency", unset, 5, 1, "all clusters"},
		{"Argo CD", "concurrency", "10%", 5, 1, ""},
		{"Argo CD", "concurrency", "0", 5, refused, "none by itself"},
		{"StackSets", "concurrency", "10%", 5, 1, ""},
		{"StackSets", "failures", "25%", 5, 2, "1: it rounds down"},
		{"Ansible", "concurrency", "10%", 5, 1, ""},
		{"Ansible", "failures", "30%", 10, 3, ""},
	}
}

// Limits are rounded as the table says, or refused.
func TestRounding(t *testing.T) {
	for _, row := range roundings() {
		t.Run(fmt.Sprintf("%s %s %s of %d", row.system, row.field, row.value, row.n), func(t *testing.T) {
			st := stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}}
			switch v := intstr.Parse(row.value); {
			case row.value == unset:
			case row.field == "failures":
				st.MaxFailures = &v
			default:
				st.MaxConcurrency = &v
			}
			p, err := planOver(st, row.n)
			if row.ours == refused {
				if err == nil || !strings.Contains(err.Error(), "stages[0].max") || !strings.Contains(err.Error(), row.value) {
					t.Errorf("error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := p.Stages[0].MaxConcurrency
			if row.field == "failures" {
				got = p.Stages[0].MaxFailures
			}
			if got != row.ours {
				t.Errorf("%d, want %d; theirs is %q", got, row.ours, row.theirs)
			}
			never := row.field == "failures" && row.ours >= row.n
			if warned := strings.Contains(strings.Join(p.Warnings, "\n"), "never fails"); warned != never {
				t.Errorf("warnings %q", p.Warnings)
			}
		})
	}
}

func planOver(st stages.Stage, n int) (*stages.Plan, error) {
	fleet := make([]placement.Cluster, n)
	for i := range fleet {
		fleet[i] = placement.Cluster{Name: fmt.Sprintf("m%d", i), Labels: map[string]string{"g": "a"}}
	}
	s := stages.Strategy{Profile: stages.ClusterUpdate, Stages: []stages.Stage{st}}
	return planner.Plan(s, stages.Target{Placement: "web", Index: 1, Snapshot: "s1", Selection: "d1", Default: "r1"}, fleet)
}

// Profile ClusterUpdate, like Azure, refuses a number of a group that exceeds its clusters or the
// limit of the stage. The number of a stage may exceed its clusters.
func TestClusterUpdateRefusesImpossibleConcurrency(t *testing.T) {
	number := func(n int) *intstr.IntOrString {
		v := intstr.FromInt32(int32(n))
		return &v
	}
	for _, row := range []struct {
		stage, group int
		want         string
	}{
		{50, 5, ""},
		{5, 5, ""},
		{50, 6, "stages[0].groups[0].maxConcurrency: Invalid value: 6: must not be greater than the number of the group's clusters, 5"},
		{3, 4, "stages[0].groups[0].maxConcurrency: Invalid value: 4: must not be greater than maxConcurrency of the stage, 3"},
	} {
		group := stages.Group{Name: "a", Selector: &metav1.LabelSelector{}, MaxConcurrency: number(row.group)}
		_, err := planOver(stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}, MaxConcurrency: number(row.stage), Groups: []stages.Group{group}}, 5)
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("stage %d, group %d: %v", row.stage, row.group, err)
		}
	}
}

// A strict budget lets as many clusters start as may fail: StackSets would start one more. A strict
// budget of 0 is refused, because nothing could start.
func TestAStrictBudgetBoundsHowManyStart(t *testing.T) {
	w := newScriptEnv()
	w.setClusters("m1\nm2\nm3\nm4\nm5\n")
	w.setStrategy("stages: [{name: all, labelSelector: {}, maxConcurrency: 5, maxFailures: 2, strictFailures: true}]")
	w.say("plan")
	if got := w.say("start"); !strings.HasSuffix(got, "Running: apply m1#1 apply m2#1\n") {
		t.Error(got)
	}
	for _, budget := range []string{"", "maxFailures: 0, ", "maxFailures: 0%, "} {
		w.setStrategy("stages: [{name: all, labelSelector: {}, " + budget + "strictFailures: true}]")
		if got := w.say("plan"); !strings.Contains(got, "stages[0].maxFailures") || !strings.Contains(got, "at least 1") {
			t.Errorf("%q: %s", budget, got)
		}
	}
	w.setStrategy("stages: [{name: all, labelSelector: {}, maxFailures: 1%, strictFailures: true}]")
	if got := w.say("plan"); !strings.HasPrefix(got, "all concurrency=1 failures=1") {
		t.Error(got)
	}
}
