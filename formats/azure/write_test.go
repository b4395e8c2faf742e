package azure_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
)

// TestInexpressibleFieldsAreNamedErrors sets each field of a strategy that Azure's JSON cannot
// express.
func TestInexpressibleFieldsAreNamedErrors(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	for want, change := range map[string]func(*stages.Strategy){
		"profile":                   func(s *stages.Strategy) { s.Profile = stages.Staged },
		"unassigned":                func(s *stages.Strategy) { s.Unassigned = stages.UnassignedError },
		"attempts":                  func(s *stages.Strategy) { s.Attempts = 2 },
		"backoff":                   func(s *stages.Strategy) { s.Backoff.Duration = time.Second },
		"maxBackoff":                func(s *stages.Strategy) { s.MaxBackoff.Duration = time.Second },
		"unreachableDeadline":       func(s *stages.Strategy) { s.UnreachableDeadline.Duration = time.Second },
		"progressDeadline":          func(s *stages.Strategy) { s.ProgressDeadline.Duration = time.Second },
		"minHealthy":                func(s *stages.Strategy) { s.MinHealthy.Duration = time.Second },
		"removal":                   func(s *stages.Strategy) { s.Removal.Deadline.Duration = time.Second },
		"stages[0].sortingLabelKey": func(s *stages.Strategy) { s.Stages[0].SortKey = "order" },
		"stages[0].checks": func(s *stages.Strategy) {
			s.Stages[0].Checks = []check.Check{{Name: "errors", Query: "errors", Max: new(1.0)}}
		},
		"stages[0].clusterChecks": func(s *stages.Strategy) {
			s.Stages[0].ClusterChecks = []check.Check{{Name: "errors", Query: "errors", Max: new(1.0)}}
		},
		"stages[0].beforeStageTasks[0].checks": func(s *stages.Strategy) {
			s.Stages[0].Before = []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "errors", Query: "errors", Max: new(1.0)}}}}
		},
		"stages[0].take":           func(s *stages.Strategy) { s.Stages[0].Take = number(1) },
		"stages[0].rest":           func(s *stages.Strategy) { s.Stages[0].Rest = true },
		"stages[0].labelSelector":  func(s *stages.Strategy) { s.Stages[0].Selector = nil },
		"stages[0].maxConcurrency": func(s *stages.Strategy) { s.Stages[0].MaxConcurrency = nil },
		"stages[0].strictFailures": func(s *stages.Strategy) { s.Stages[0].MaxFailures, s.Stages[0].StrictFailures = number(1), true },
		"stages[0].afterStageTasks[0].waitTime": func(s *stages.Strategy) {
			s.Stages[0].After[0].Wait.Duration = 1500 * time.Millisecond
		},
		"stages[0].beforeStageTasks": func(s *stages.Strategy) {
			s.Stages[0].Before = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Second}}}
		},
		"stages[0].beforeStageTasks[0].approval": func(s *stages.Strategy) {
			s.Stages[0].Before = []stages.Task{{Type: stages.Approval, Approval: &approval.Policy{ForbidStarter: true}}}
		},
		"stages[0].beforeStageTasks[0].schedule.day": func(s *stages.Strategy) {
			s.Stages[0].Before = []stages.Task{{Type: stages.ScheduledStart, Schedule: &stages.Schedule{Time: "02:00"}}}
		},
		"stages[0].groups[0].sortingLabelKey": func(s *stages.Strategy) { s.Stages[0].Groups[0].SortKey = "order" },
		"stages[0].groups[0].labelSelector":   func(s *stages.Strategy) { s.Stages[0].Groups[0].Selector = &metav1.LabelSelector{} },
		"stages[0].groups[0].maxFailures":     func(s *stages.Strategy) { s.Stages[0].Groups[0].MaxFailures = nil },
		"stages[0].groups[0].strictFailures": func(s *stages.Strategy) {
			s.Stages[0].Groups[0].MaxFailures, s.Stages[0].Groups[0].StrictFailures = number(1), true
		},
		"stages[0].groups[0].afterGroupTasks": func(s *stages.Strategy) {
			s.Stages[0].Groups[0].After = []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Second}}}
		},
		"stages[1].labelSelector": func(s *stages.Strategy) { s.Stages[1].Groups = nil },
		// Only the reader checks Azure's limits.
		"stages[0].maxConcurrency: must be at most 50": func(s *stages.Strategy) { s.Stages[0].MaxConcurrency = number(51) },
		"is there already": func(s *stages.Strategy) { s.Stages[1].Groups[0].Name = "group-1a" },
		"stages[0].name: \"" + strings.Repeat("a", 51) + "\"": func(s *stages.Strategy) { s.Stages[0].Name = strings.Repeat("a", 51) },
		"must be a label selector of 1 to 512 characters": func(s *stages.Strategy) {
			s.Stages[0].Selector = selector.DeepCopy()
			for i := range 40 {
				s.Stages[0].Selector.MatchLabels[strings.Repeat("k", i+10)] = "v"
			}
		},
	} {
		t.Run(want, func(t *testing.T) {
			_, s := readFile(t, "example-stages.json")
			change(&s)
			if _, err := azure.Form(s); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error = %v, want one about %s", err, want)
			}
		})
	}
}

func TestInexpressibleFieldsAreReportedTogether(t *testing.T) {
	_, s := readFile(t, "example-stages.json")
	s.Name, s.Attempts, s.Stages[1].SortKey = "mine", 3, "order"
	_, err := azure.Form(s)
	if err == nil || !strings.Contains(err.Error(), `strategy "mine" has no form in Azure`) ||
		!strings.Contains(err.Error(), "attempts") || !strings.Contains(err.Error(), "stages[1].sortingLabelKey") {
		t.Errorf("error = %v", err)
	}
}

// formOf returns a form as JSON.
func formOf(form any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(form)
}
