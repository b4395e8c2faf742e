package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// newer returns a strategy with gates of groups, schedules and strict budgets.
func newer() stages.Strategy {
	return stages.Strategy{
		Name: "newer", Profile: stages.ClusterUpdate, Unassigned: stages.UnassignedExclude,
		Stages: []stages.Stage{{
			Name: "prod", Selector: matchLabel("env", "prod"), MaxConcurrency: number(4), MaxFailures: number(2), StrictFailures: true,
			Before: []stages.Task{{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Day: "Wednesday", Time: "02:00", Offset: "+01:00"}, DisplayName: "night"}},
			Groups: []stages.Group{
				{
					Name: "eu", Selector: matchLabel("region", "eu"), MaxConcurrency: number(2), MaxFailures: percent("50%"), StrictFailures: true,
					Before: []stages.Task{{Type: stages.Approval}, {Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "22:30"}}},
					After:  []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}}, {Type: stages.Approval, Approval: &approval.Policy{Expires: metav1.Duration{Duration: time.Hour}}}},
				},
				{Name: "us", Selector: matchLabel("region", "us")},
			},
		}},
	}
}

func TestStrategyValidateOfGroups(t *testing.T) {
	group := func(g stages.Group) func(*stages.Strategy) {
		return change(func(st *stages.Stage) { g.Name = "g"; st.Groups = []stages.Group{g} })
	}
	before := func(tasks ...stages.Task) func(*stages.Strategy) { return group(stages.Group{Before: tasks}) }
	schedule := func(s stages.Schedule) func(*stages.Strategy) {
		return before(stages.Task{Type: stages.ScheduledStart, Schedule: &s})
	}
	const at = "stages[0].groups[0].beforeGroupTasks[0]."
	for _, tt := range []badStrategy{
		{"no such task", before(stages.Task{Type: "Nap"}), at + "type: Unsupported"},
		{"task twice", before(stages.Task{Type: stages.Approval}, stages.Task{Type: stages.Approval}), "beforeGroupTasks[1].type: Duplicate"},
		{"start after", group(stages.Group{After: []stages.Task{{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "02:00"}}}}), "afterGroupTasks[0].type: Forbidden"},
		{"start after a stage", change(func(st *stages.Stage) {
			st.After = []stages.Task{{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "02:00"}}}
		}), "stages[0].afterStageTasks[0].type: Forbidden"},
		{"no schedule", before(stages.Task{Type: stages.ScheduledStart}), at + "schedule: Required"},
		{"start with a wait", before(stages.Task{Type: stages.ScheduledStart, Wait: metav1.Duration{Duration: 1}, Schedule: &stages.Schedule{Time: "02:00"}}), at + "waitTime: Forbidden"},
		{"start with a policy", before(stages.Task{Type: stages.ScheduledStart, Approval: &approval.Policy{}, Schedule: &stages.Schedule{Time: "02:00"}}), at + "approval: Forbidden"},
		{"approval with a schedule", before(stages.Task{Type: stages.Approval, Schedule: &stages.Schedule{Time: "02:00"}}), at + "schedule: Forbidden"},
		{"day", schedule(stages.Schedule{Day: "Mon", Time: "02:00"}), at + "schedule.day: Unsupported"},
		{"no time", schedule(stages.Schedule{}), at + "schedule.time: Invalid"},
		{"hour", schedule(stages.Schedule{Time: "24:00"}), at + "schedule.time: Invalid"},
		{"one digit", schedule(stages.Schedule{Time: "2:00"}), at + "schedule.time: Invalid"},
		{"signed minute", schedule(stages.Schedule{Time: "02:+1"}), at + "schedule.time: Invalid"},
		{"seconds", schedule(stages.Schedule{Time: "02:00:00"}), at + "schedule.time: Invalid"},
		{"offset without a sign", schedule(stages.Schedule{Time: "02:00", Offset: "01:00"}), at + "schedule.offset: Invalid"},
		{"offset in the east", schedule(stages.Schedule{Time: "02:00", Offset: "+14:01"}), at + "schedule.offset: Invalid"},
		{"offset in the west", schedule(stages.Schedule{Time: "02:00", Offset: "-12:01"}), at + "schedule.offset: Invalid"},
		{"offset Z", schedule(stages.Schedule{Time: "02:00", Offset: "Z"}), at + "schedule.offset: Invalid"},
		{"a strict budget that is not given", group(stages.Group{StrictFailures: true}), "stages[0].groups[0].maxFailures: Required"},
		{"a strict budget of 0", group(stages.Group{StrictFailures: true, MaxFailures: number(0)}), "stages[0].groups[0].maxFailures: Invalid"},
		{"a strict budget of 0% of a stage", change(func(st *stages.Stage) { st.StrictFailures, st.MaxFailures = true, percent("0%") }), "stages[0].maxFailures: Invalid"},
	} {
		t.Run(tt.name, tt.run)
	}
}

// A request is found by its name, so all gates of a strategy must give their requests different
// names.
func TestRequestsOfGroupsHaveNamesOfTheirOwn(t *testing.T) {
	asks := []stages.Task{{Type: stages.Approval}}
	grouped := func(stage, group string, before, after []stages.Task) stages.Stage {
		return stages.Stage{Name: stage, Groups: []stages.Group{{Name: group, Before: before, After: after}}}
	}
	for name, tt := range map[string]struct {
		stages []stages.Stage
		want   string
	}{
		"a stage of that name": {
			[]stages.Stage{{Name: "a-b", After: asks}, grouped("a", "b", nil, asks)},
			`stages[1].groups[0].afterGroupTasks: Invalid value: "b": its request would be named <run>-after-a-b like that of a-b (stages[0].afterStageTasks); rename the group`,
		},
		"a group of another stage": {
			[]stages.Stage{grouped("a", "b-c", asks, nil), grouped("a-b", "c", asks, nil)},
			`named <run>-before-a-b-c like that of a/b-c (stages[0].groups[0].beforeGroupTasks)`,
		},
		"before one and after another": {
			[]stages.Stage{grouped("before-a", "b", nil, asks), grouped("a", "b", asks, nil)},
			"",
		},
		"both sides": {[]stages.Stage{grouped("a", "b", asks, asks)}, ""},
		"its stage":  {[]stages.Stage{{Name: "a", Before: asks, After: asks, Groups: []stages.Group{{Name: "a", Before: asks, After: asks}}}}, ""},
	} {
		err := stages.Strategy{Stages: tt.stages}.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, st := range []stages.Stage{grouped("before", "remove", nil, asks), {Name: "before-remove", After: asks}} {
		byStage := stages.Strategy{Requests: approval.NamedByStage, Stages: []stages.Stage{st}, Removal: stages.Removal{Before: asks}}
		wantError(t, byStage.Validate(), "would be named <run>-before-remove like that of remove (removal.beforeStageTasks); rename the")
		if err := (stages.Strategy{Stages: []stages.Stage{st}, Removal: stages.Removal{Before: asks}}).Validate(); err != nil {
			t.Errorf("the removal: %v", err)
		}
	}
}

func TestPlannedGroupsHaveTheirGatesAndStrictBudgets(t *testing.T) {
	p := mustPlan(t, newer(), testTarget(), testFleet())
	st := p.Stages[0]
	if !st.Strict || st.MaxFailures != 2 || !st.Groups[0].Strict || st.Groups[0].MaxFailures != 5 || st.Groups[1].Strict {
		t.Errorf("%+v", st)
	}
	want := []stages.PlannedGate{
		{When: approval.Before, Type: stages.Approval},
		{When: approval.Before, Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "22:30"}},
		{When: approval.After, Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Hour}},
		{When: approval.After, Type: stages.Approval, Policy: approval.Policy{Expires: metav1.Duration{Duration: time.Hour}}},
	}
	if diff := cmp.Diff(want, st.Groups[0].Gates); diff != "" {
		t.Error(diff)
	}
}

// Profile ClusterUpdate refuses a cap of a group that makes no sense. A percentage always fits, the
// other profiles accept any number, and a run that catches up may be small.
func TestClusterUpdateRefusesImpossibleGroupConcurrency(t *testing.T) {
	plan := func(profile stages.Profile, n int, stage *intstr.IntOrString, part bool) error {
		s := stages.Strategy{Profile: profile, Stages: []stages.Stage{{
			Name: "all", Selector: matchLabel("g", "g"), MaxConcurrency: stage,
			Groups: []stages.Group{{Name: "g", Selector: matchLabel("g", "g"), MaxConcurrency: number(n)}},
		}}}
		target := testTarget()
		target.Part = part
		var fleet []placement.Cluster
		for _, name := range []string{"a", "b", "c"} {
			fleet = append(fleet, cluster(name, "g=g"))
		}
		_, err := Plan(s, target, fleet)
		return err
	}
	const at = "strategy.stages[0].groups[0].maxConcurrency: Invalid value: "
	wantError(t, plan(stages.ClusterUpdate, 4, nil, false), at+"4: must not be greater than the number of the group's clusters, 3")
	wantError(t, plan(stages.ClusterUpdate, 3, number(2), false), at+"3: must not be greater than maxConcurrency of the stage, 2")
	wantError(t, plan(stages.ClusterUpdate, 3, percent("70%"), false), "maxConcurrency of the stage, 2")
	for what, err := range map[string]error{
		"as many as there are": plan(stages.ClusterUpdate, 3, number(3), false),
		"a wider stage":        plan(stages.ClusterUpdate, 3, number(50), false),
		"another profile":      plan(stages.Staged, 4, number(2), false),
		"a catch-up":           plan(stages.ClusterUpdate, 4, number(2), true),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
