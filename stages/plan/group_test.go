package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
)

// newer is a strategy with gates of groups, schedules and strict budgets.
func newer() Strategy {
	return Strategy{
		Name: "newer", Profile: ClusterUpdate, Unassigned: UnassignedExclude,
		Stages: []Stage{{
			Name: "prod", Selector: matchLabel("env", "prod"), MaxConcurrency: number(4), MaxFailures: number(2), StrictFailures: true,
			Before: []Task{{Type: ScheduledStart, Schedule: &Schedule{Day: "Wednesday", Time: "02:00", Offset: "+01:00"}, DisplayName: "night"}},
			Groups: []Group{
				{
					Name: "eu", Selector: matchLabel("region", "eu"), MaxConcurrency: number(2), MaxFailures: percent("50%"), StrictFailures: true,
					Before: []Task{{Type: Approval}, {Type: ScheduledStart, Schedule: &Schedule{Time: "22:30"}}},
					After:  []Task{{Type: TimedWait, Wait: time.Hour}, {Type: Approval, Approval: &approval.Policy{Expires: time.Hour}}},
				},
				{Name: "us", Selector: matchLabel("region", "us")},
			},
		}},
	}
}

func TestStrategyValidateRefusesWhatGroupsCannotHave(t *testing.T) {
	group := func(g Group) func(*Strategy) {
		return change(func(st *Stage) { g.Name = "g"; st.Groups = []Group{g} })
	}
	before := func(tasks ...Task) func(*Strategy) { return group(Group{Before: tasks}) }
	schedule := func(s Schedule) func(*Strategy) { return before(Task{Type: ScheduledStart, Schedule: &s}) }
	const at = "stages[0].groups[0].beforeGroupTasks[0]."
	for _, tt := range []badStrategy{
		{"no such task", before(Task{Type: "Nap"}), at + "type: Unsupported"},
		{"task twice", before(Task{Type: Approval}, Task{Type: Approval}), "beforeGroupTasks[1].type: Duplicate"},
		{"start after", group(Group{After: []Task{{Type: ScheduledStart, Schedule: &Schedule{Time: "02:00"}}}}), "afterGroupTasks[0].type: Forbidden"},
		{"start after a stage", change(func(st *Stage) { st.After = []Task{{Type: ScheduledStart, Schedule: &Schedule{Time: "02:00"}}} }), "stages[0].afterStageTasks[0].type: Forbidden"},
		{"no schedule", before(Task{Type: ScheduledStart}), at + "schedule: Required"},
		{"start with a wait", before(Task{Type: ScheduledStart, Wait: 1, Schedule: &Schedule{Time: "02:00"}}), at + "waitTime: Forbidden"},
		{"start with a policy", before(Task{Type: ScheduledStart, Approval: &approval.Policy{}, Schedule: &Schedule{Time: "02:00"}}), at + "approval: Forbidden"},
		{"approval with a schedule", before(Task{Type: Approval, Schedule: &Schedule{Time: "02:00"}}), at + "schedule: Forbidden"},
		{"day", schedule(Schedule{Day: "Mon", Time: "02:00"}), at + "schedule.day: Unsupported"},
		{"no time", schedule(Schedule{}), at + "schedule.time: Invalid"},
		{"hour", schedule(Schedule{Time: "24:00"}), at + "schedule.time: Invalid"},
		{"one digit", schedule(Schedule{Time: "2:00"}), at + "schedule.time: Invalid"},
		{"signed minute", schedule(Schedule{Time: "02:+1"}), at + "schedule.time: Invalid"},
		{"seconds", schedule(Schedule{Time: "02:00:00"}), at + "schedule.time: Invalid"},
		{"offset without a sign", schedule(Schedule{Time: "02:00", Offset: "01:00"}), at + "schedule.offset: Invalid"},
		{"offset in the east", schedule(Schedule{Time: "02:00", Offset: "+14:01"}), at + "schedule.offset: Invalid"},
		{"offset in the west", schedule(Schedule{Time: "02:00", Offset: "-12:01"}), at + "schedule.offset: Invalid"},
		{"offset Z", schedule(Schedule{Time: "02:00", Offset: "Z"}), at + "schedule.offset: Invalid"},
		{"a strict budget that is not given", group(Group{StrictFailures: true}), "stages[0].groups[0].maxFailures: Required"},
		{"a strict budget of 0", group(Group{StrictFailures: true, MaxFailures: number(0)}), "stages[0].groups[0].maxFailures: Invalid"},
		{"a strict budget of 0% of a stage", change(func(st *Stage) { st.StrictFailures, st.MaxFailures = true, percent("0%") }), "stages[0].maxFailures: Invalid"},
	} {
		t.Run(tt.name, tt.run)
	}
}

// A request is found by its name, so no two gates of a strategy may give theirs
// the same.
func TestRequestsOfGroupsHaveNamesOfTheirOwn(t *testing.T) {
	asks := []Task{{Type: Approval}}
	grouped := func(stage, group string, before, after []Task) Stage {
		return Stage{Name: stage, Groups: []Group{{Name: group, Before: before, After: after}}}
	}
	for name, tt := range map[string]struct {
		stages []Stage
		want   string
	}{
		"a stage of that name": {
			[]Stage{{Name: "a-b", After: asks}, grouped("a", "b", nil, asks)},
			`stages[1].groups[0].afterGroupTasks: Invalid value: "b": its request would be named <run>-after-a-b like that of a-b (stages[0].afterStageTasks); rename the group`,
		},
		"a group of another stage": {
			[]Stage{grouped("a", "b-c", asks, nil), grouped("a-b", "c", asks, nil)},
			`named <run>-before-a-b-c like that of a/b-c (stages[0].groups[0].beforeGroupTasks)`,
		},
		"before one and after another": {
			[]Stage{grouped("before-a", "b", nil, asks), grouped("a", "b", asks, nil)},
			"",
		},
		"both sides": {[]Stage{grouped("a", "b", asks, asks)}, ""},
		"its stage":  {[]Stage{{Name: "a", Before: asks, After: asks, Groups: []Group{{Name: "a", Before: asks, After: asks}}}}, ""},
	} {
		err := Strategy{Stages: tt.stages}.Validate()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, st := range []Stage{grouped("before", "remove", nil, asks), {Name: "before-remove", After: asks}} {
		byStage := Strategy{Requests: approval.NamedByStage, Stages: []Stage{st}, Removal: Removal{Before: asks}}
		wantError(t, byStage.Validate(), "would be named <run>-before-remove like that of remove (removal.beforeStageTasks); rename the")
		if err := (Strategy{Stages: []Stage{st}, Removal: Removal{Before: asks}}).Validate(); err != nil {
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
	want := []PlannedGate{
		{When: approval.Before, Type: Approval},
		{When: approval.Before, Type: ScheduledStart, Schedule: &Schedule{Time: "22:30"}},
		{When: approval.After, Type: TimedWait, Wait: time.Hour},
		{When: approval.After, Type: Approval, Policy: approval.Policy{Expires: time.Hour}},
	}
	if diff := cmp.Diff(want, st.Groups[0].Gates); diff != "" {
		t.Error(diff)
	}
}

// Profile ClusterUpdate refuses a cap that cannot be meant; a percentage always
// fits, the other profiles take a number as it is, and a run that catches up is
// not stopped by being small.
func TestClusterUpdateRefusesACapOfAGroupThatCannotBeMeant(t *testing.T) {
	plan := func(profile Profile, n int, stage *intstr.IntOrString, part bool) error {
		s := Strategy{Profile: profile, Stages: []Stage{{
			Name: "all", Selector: matchLabel("g", "g"), MaxConcurrency: stage,
			Groups: []Group{{Name: "g", Selector: matchLabel("g", "g"), MaxConcurrency: number(n)}},
		}}}
		target := testTarget()
		target.Part = part
		var fleet []placement.Cluster
		for _, name := range []string{"a", "b", "c"} {
			fleet = append(fleet, cluster(name, "g=g"))
		}
		_, err := New(s, target, fleet)
		return err
	}
	const at = "strategy.stages[0].groups[0].maxConcurrency: Invalid value: "
	wantError(t, plan(ClusterUpdate, 4, nil, false), at+"4: must not be greater than the number of the group's clusters, 3")
	wantError(t, plan(ClusterUpdate, 3, number(2), false), at+"3: must not be greater than maxConcurrency of the stage, 2")
	wantError(t, plan(ClusterUpdate, 3, percent("70%"), false), "maxConcurrency of the stage, 2")
	for what, err := range map[string]error{
		"as many as there are": plan(ClusterUpdate, 3, number(3), false),
		"a wider stage":        plan(ClusterUpdate, 3, number(50), false),
		"another profile":      plan(Staged, 4, number(2), false),
		"a catch-up":           plan(ClusterUpdate, 4, number(2), true),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
