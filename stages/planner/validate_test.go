package planner

import (
	"math"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

func TestStrategyValidateAccepts(t *testing.T) {
	year := 365 * 24 * time.Hour
	longest := stages.Strategy{
		Stages:  []stages.Stage{{Name: "all", After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: year}}, {Type: stages.Approval, Approval: &approval.Policy{Expires: metav1.Duration{Duration: year}}}}}},
		Backoff: metav1.Duration{Duration: year}, MaxBackoff: metav1.Duration{Duration: year}, ProgressDeadline: metav1.Duration{Duration: year}, MinHealthy: metav1.Duration{Duration: year}, Removal: stages.Removal{Deadline: metav1.Duration{Duration: year}}, Attempts: -1,
	}
	same := stages.Strategy{Stages: []stages.Stage{
		{Name: "a", Groups: []stages.Group{{Name: "g"}}, Before: []stages.Task{{Type: stages.Approval}}, After: []stages.Task{{Type: stages.Approval}}},
		{Name: "b", Groups: []stages.Group{{Name: "g"}}, Before: []stages.Task{{Type: stages.Approval}}, After: []stages.Task{{Type: stages.Approval}}},
		{Name: "before-c", Before: []stages.Task{{Type: stages.Approval}}},
		{Name: "c", Before: []stages.Task{{Type: stages.Approval}}},
	}}
	for name, s := range map[string]stages.Strategy{
		"everything": rich(), "everything new": newer(), "least": {Stages: []stages.Stage{{Name: "a"}}}, "longest": longest,
		"the same group in two stages, approvals on all sides": same,
		"a first wait of more than the default of the last":    {Stages: same.Stages, Backoff: metav1.Duration{Duration: time.Hour}},
	} {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// badStrategy is a change that makes a strategy with one stage invalid.
type badStrategy struct {
	name   string
	change func(*stages.Strategy)
	want   string
}

func (tt badStrategy) run(t *testing.T) {
	s := stages.Strategy{Stages: []stages.Stage{{Name: "one"}}}
	tt.change(&s)
	wantError(t, s.Validate(), tt.want)
}

// change changes the stage of a strategy that has only one.
func change(change func(*stages.Stage)) func(*stages.Strategy) {
	return func(s *stages.Strategy) { change(&s.Stages[0]) }
}

func TestStrategyValidateRefuses(t *testing.T) {
	day, stage := 24*time.Hour, change
	for _, tt := range []badStrategy{
		{"name", func(s *stages.Strategy) { s.Name = "No_Label" }, `strategy "No_Label": name: Invalid`},
		{"no stages", func(s *stages.Strategy) { s.Stages = nil }, "stages: Required"},
		{"profile", func(s *stages.Strategy) { s.Profile = "Fast" }, `profile: Unsupported value: "Fast"`},
		{"unassigned", func(s *stages.Strategy) { s.Unassigned = "Drop" }, `unassigned: Unsupported value: "Drop"`},
		{"attempts", func(s *stages.Strategy) { s.Attempts = -2 }, "attempts: Invalid"},
		{"backoff below 0", func(s *stages.Strategy) { s.Backoff.Duration = -1 }, "backoff: Invalid"},
		{"max backoff overflow", func(s *stages.Strategy) { s.MaxBackoff.Duration = math.MaxInt64 }, "maxBackoff: Invalid"},
		{"max backoff less", func(s *stages.Strategy) { s.Backoff.Duration, s.MaxBackoff.Duration = 2, 1 }, "maxBackoff: Invalid value: \"1ns\": must not be less"},
		{"deadline", func(s *stages.Strategy) { s.ProgressDeadline.Duration = 365*day + 1 }, "progressDeadline: Invalid"},
		{"min healthy", func(s *stages.Strategy) { s.MinHealthy.Duration = math.MinInt64 }, "minHealthy: Invalid"},
		{"removal deadline", func(s *stages.Strategy) { s.Removal.Deadline.Duration = -1 }, "removal.deadline: Invalid"},
		{"removal concurrency", func(s *stages.Strategy) { s.Removal.MaxConcurrency = number(0) }, "removal.maxConcurrency: Invalid"},
		{"removal task", func(s *stages.Strategy) { s.Removal.Before = []stages.Task{{Type: "Nap"}} }, "removal.beforeStageTasks[0].type: Unsupported"},
		{"no stage name", stage(func(st *stages.Stage) { st.Name = "" }), "stages[0].name: Required"},
		{"stage name", stage(func(st *stages.Stage) { st.Name = "a.b" }), "stages[0].name: Invalid"},
		{"long stage name", stage(func(st *stages.Stage) { st.Name = strings.Repeat("a", 64) }), "stages[0].name: Invalid"},
		{"stage twice", func(s *stages.Strategy) { s.Stages = append(s.Stages, s.Stages[0]) }, `stages[1].name: Duplicate value: "one"`},
		{"unassigned stage", stage(func(st *stages.Stage) { st.Name = stages.FinalStageName }), "stages[0].name: Invalid value: \"unassigned\": is reserved"},
		{"removal stage", stage(func(st *stages.Stage) { st.Name = stages.RemovalStageName }), "is reserved"},
		{"selector value", stage(func(st *stages.Stage) { st.Selector = matchLabel("a", "b c") }), "stages[0].labelSelector.matchLabels"},
		{"selector key", stage(func(st *stages.Stage) { st.Selector = matchLabel("a b", "c") }), "stages[0].labelSelector.matchLabels"},
		{"selector operator", stage(func(st *stages.Stage) {
			st.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}
		}), "stages[0].labelSelector.matchExpressions[0].operator"},
		{"selector without values", stage(func(st *stages.Stage) {
			st.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
		}), "stages[0].labelSelector.matchExpressions[0].values"},
		{"sort key", stage(func(st *stages.Stage) { st.SortKey = "a b" }), "stages[0].sortingLabelKey: Invalid"},
		{"group name", stage(func(st *stages.Stage) { st.Groups = []stages.Group{{}} }), "stages[0].groups[0].name: Required"},
		{"group twice", stage(func(st *stages.Stage) { st.Groups = []stages.Group{{Name: "g"}, {Name: "g"}} }), "stages[0].groups[1].name: Duplicate"},
		{"group selector", stage(func(st *stages.Stage) { st.Groups = []stages.Group{{Name: "g", Selector: matchLabel("", "")}} }), "stages[0].groups[0].labelSelector"},
		{"group sort key", stage(func(st *stages.Stage) { st.Groups = []stages.Group{{Name: "g", SortKey: "/"}} }), "stages[0].groups[0].sortingLabelKey"},
		{"group concurrency", stage(func(st *stages.Stage) { st.Groups = []stages.Group{{Name: "g", MaxConcurrency: number(0)}} }), "stages[0].groups[0].maxConcurrency"},
		{"group failures", stage(func(st *stages.Stage) { st.Groups = []stages.Group{{Name: "g", MaxFailures: number(-1)}} }), "stages[0].groups[0].maxFailures"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestStrategyValidateRefusesTasks(t *testing.T) {
	day := 24 * time.Hour
	after := func(tasks ...stages.Task) func(*stages.Strategy) {
		return change(func(st *stages.Stage) { st.After = tasks })
	}
	policy := func(p approval.Policy) func(*stages.Strategy) {
		return after(stages.Task{Type: stages.Approval, Approval: &p})
	}
	for _, tt := range []badStrategy{
		{"no type", after(stages.Task{}), "stages[0].afterStageTasks[0].type: Unsupported"},
		{"type twice", after(stages.Task{Type: stages.Approval}, stages.Task{Type: stages.Approval}), "stages[0].afterStageTasks[1].type: Duplicate"},
		{"no wait", after(stages.Task{Type: stages.TimedWait}), "stages[0].afterStageTasks[0].waitTime: Required"},
		{"wait below 0", after(stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: -time.Hour}}), "stages[0].afterStageTasks[0].waitTime: Invalid"},
		{"wait too long", after(stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 365*day + 1}}), "stages[0].afterStageTasks[0].waitTime: Invalid"},
		{"wait with a policy", after(stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 1}, Approval: &approval.Policy{}}), "stages[0].afterStageTasks[0].approval: Forbidden"},
		{"approval with a wait", after(stages.Task{Type: stages.Approval, Wait: metav1.Duration{Duration: 1}}), "stages[0].afterStageTasks[0].waitTime: Forbidden"},
		{"quorum count", policy(approval.Policy{Quorums: []approval.Quorum{{Count: 0}}}), "stages[0].afterStageTasks[0].approval.quorums[0].count"},
		{"quorum twice", policy(approval.Policy{Quorums: []approval.Quorum{{Group: "a", Count: 1}, {Group: "a", Count: 2}}}), "approval.quorums[1].group: Duplicate"},
		{"quorum encoding", policy(approval.Policy{Quorums: []approval.Quorum{{Group: "\xff", Count: 1}}}), "approval.quorums[0].group: Invalid"},
		{"expires", policy(approval.Policy{Expires: metav1.Duration{Duration: -1}}), "stages[0].afterStageTasks[0].approval.expires: Invalid"},
		{"request names", func(s *stages.Strategy) {
			s.Stages = []stages.Stage{
				{Name: "x", Groups: []stages.Group{{Name: "y", Before: []stages.Task{{Type: stages.Approval}}}}},
				{Name: "x-y", Before: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 1}}, {Type: stages.Approval}}},
			}
		}, `stages[1].beforeStageTasks: Invalid value: "x-y": its request would be named <run>-before-x-y like that of x/y (stages[0].groups[0].beforeGroupTasks); rename the stage`},
		{"request names by stage", func(s *stages.Strategy) {
			s.Requests = approval.NamedByStage
			s.Stages = []stages.Stage{{Name: "before-x", After: []stages.Task{{Type: stages.Approval}}}, {Name: "x", Before: []stages.Task{{Type: stages.Approval}}}}
		}, `stages[1].beforeStageTasks: Invalid value: "x": its request would be named <run>-before-x like that of before-x (stages[0].afterStageTasks); rename the stage`},
		{"a naming of requests", func(s *stages.Strategy) { s.Requests = "Side" }, `requests: Unsupported value: "Side": supported values: "", "Stage"`},
		{"wait with a schedule", after(stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 1}, Schedule: &stages.Schedule{}}), "stages[0].afterStageTasks[0].schedule: Forbidden"},
		{"display name", after(stages.Task{Type: stages.Approval, DisplayName: strings.Repeat("é", 101)}), "stages[0].afterStageTasks[0].displayName: Invalid"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestStrategyValidateLimits(t *testing.T) {
	odd := intstr.IntOrString{Type: 7, IntVal: 5}
	tests := []struct {
		value                 *intstr.IntOrString
		concurrency, failures bool
	}{
		{nil, true, true},
		{number(1), true, true},
		{number(math.MaxInt32), true, true},
		{percent("1%"), true, true},
		{percent("100%"), true, true},
		{number(0), false, true},
		{percent("0%"), false, true},
		{number(-1), false, false},
		{percent("-1%"), false, false},
		{percent("101%"), false, false},
		{percent("99999999999999999999%"), false, false},
		{percent("25"), false, false},
		{percent("%"), false, false},
		{percent(""), false, false},
		{percent("+5%"), false, false},
		{percent("05%"), false, false},
		{percent("2.5%"), false, false},
		{percent(" 5%"), false, false},
		{percent("5 %"), false, false},
		{percent("5%%"), false, false},
		{&odd, false, false},
	}
	for _, tt := range tests {
		c := stages.Strategy{Stages: []stages.Stage{{Name: "one", MaxConcurrency: tt.value}}}
		if err := c.Validate(); (err == nil) != tt.concurrency {
			t.Errorf("maxConcurrency %v: %v", tt.value, err)
		}
		f := stages.Strategy{Stages: []stages.Stage{{Name: "one", MaxFailures: tt.value}}}
		if err := f.Validate(); (err == nil) != tt.failures {
			t.Errorf("maxFailures %v: %v", tt.value, err)
		}
	}
}

func TestStrategyValidateReportsEverythingAtOnce(t *testing.T) {
	s := stages.Strategy{
		Name: "x", Profile: "p", Unassigned: "u", Attempts: -5, MinHealthy: metav1.Duration{Duration: -1},
		Stages: []stages.Stage{
			{Name: "A", MaxConcurrency: percent("0%"), Selector: matchLabel("a", "?")},
			{Name: "b", MaxFailures: percent("-1%"), Before: []stages.Task{{Type: "t"}}, Groups: []stages.Group{{Name: "_"}}},
		},
	}
	wantError(t, s.Validate(),
		`strategy "x": `, "profile: ", "unassigned: ", "attempts: ", "minHealthy: ",
		"stages[0].name: ", "stages[0].maxConcurrency: ", "stages[0].labelSelector.matchLabels",
		"stages[1].maxFailures: ", "stages[1].beforeStageTasks[0].type: ", "stages[1].groups[0].name: ")
}

func TestStrategyValidateSaysTheSameEachTime(t *testing.T) {
	sel := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		sel.MatchLabels[k] = "not a value " + k
	}
	s := stages.Strategy{Stages: []stages.Stage{{Name: "one", Selector: sel}}}
	want := s.Validate().Error()
	for range 20 {
		if got := s.Validate().Error(); got != want {
			t.Fatalf("first %s\nthen %s", want, got)
		}
	}
}

func TestStrategyValidateReportsAStageTwiceOnce(t *testing.T) {
	st := stages.Stage{Name: "one", After: []stages.Task{{Type: stages.Approval}}}
	err := stages.Strategy{Stages: []stages.Stage{st, st}}.Validate()
	wantError(t, err, "stages[1].name: Duplicate")
	if strings.Contains(err.Error(), "request") {
		t.Errorf("a stage that is there twice is reported twice: %v", err)
	}
}
