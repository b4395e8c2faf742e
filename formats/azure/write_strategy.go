package azure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/stages"
)

// Strategy is the stages of an update strategy or of an update run, in Azure's form.
type Strategy struct {
	Stages []Stage `json:"stages"`
	// Rollback is a field of Slipway, not of Azure. It is absent if runs are not rolled back.
	Rollback *v1beta1.RollbackConfig `json:"slipwayRollback,omitempty"`
}

// Stage is a stage in Azure's form.
type Stage struct {
	Name string `json:"name"`
	// Groups may be absent if there is a MemberSelector.
	Groups             []Group         `json:"groups,omitempty"`
	MemberSelector     *MemberSelector `json:"memberSelector,omitempty"`
	MaxConcurrency     string          `json:"maxConcurrency,omitempty"`
	MaxAllowedFailures string          `json:"maxAllowedFailures,omitempty"`
	BeforeGates        []Gate          `json:"beforeGates,omitempty"`
	AfterGates         []Gate          `json:"afterGates,omitempty"`
	AfterStageWait     int             `json:"afterStageWaitInSeconds,omitempty"`
}

// Group is an update group of a stage in Azure's form.
type Group struct {
	Name               string          `json:"name"`
	MemberSelector     *MemberSelector `json:"memberSelector,omitempty"`
	MaxConcurrency     string          `json:"maxConcurrency,omitempty"`
	MaxAllowedFailures string          `json:"maxAllowedFailures,omitempty"`
	BeforeGates        []Gate          `json:"beforeGates,omitempty"`
	AfterGates         []Gate          `json:"afterGates,omitempty"`
}

// MemberSelector selects members by their labels, in Azure's form.
type MemberSelector struct {
	ByLabel string `json:"byLabel"`
}

// Gate is a gate before or after a stage or a group, in Azure's form.
type Gate struct {
	DisplayName string          `json:"displayName,omitempty"`
	Type        string          `json:"type"`
	Schedule    *ScheduledStart `json:"scheduledStartConfiguration,omitempty"`
}

// ScheduledStart is the time at which a gate of the type ScheduledStart opens, in Azure's form.
type ScheduledStart struct {
	StartDay  string `json:"startDay"`
	StartTime string `json:"startTime"`
	UTCOffset string `json:"utcOffset"`
}

// Form returns a strategy in Azure's form. [Read] returns the same strategy from its JSON except
// for the name, because the file has none. The error names every field that Azure cannot express.
func Form(s stages.Strategy) (Strategy, error) {
	w := writer{}
	w.options(&s)
	out := Strategy{Stages: []Stage{}, Rollback: rollback.FormOf(s.Rollback)}
	for i := range s.Stages {
		out.Stages = append(out.Stages, w.stage(field.NewPath("stages").Index(i), &s.Stages[i]))
	}
	if err := s.Validate(); err != nil {
		return Strategy{}, err
	}
	if len(w.errs) > 0 {
		return Strategy{}, fmt.Errorf("strategy %q has no form in Azure: %w", s.Name, w.errs.ToAggregate())
	}
	// The result is read again, because only reading checks all limits.
	text, err := marshal(out)
	if err == nil {
		_, err = Read(bytes.NewReader(text), "strategy "+s.Name)
	}
	return out, err
}

// marshal returns indented JSON without HTML escapes.
func marshal(x any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(x); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return b.Bytes(), nil
}

// writer collects the fields that Azure cannot express.
type writer struct{ errs field.ErrorList }

// refuse reports a field that must not be set.
func (w *writer) refuse(set bool, at *field.Path, why string) {
	if set {
		w.errs = append(w.errs, field.Forbidden(at, why))
	}
}

func (w *writer) options(s *stages.Strategy) {
	const always = "Azure's runs are always so; leave it"
	if s.Profile != stages.ClusterUpdate {
		w.errs = append(w.errs, field.Invalid(field.NewPath("profile"), s.Profile, "must be ClusterUpdate"))
	}
	if s.Unassigned != stages.UnassignedExclude {
		w.errs = append(w.errs, field.Invalid(field.NewPath("unassigned"), s.Unassigned, "must be Exclude"))
	}
	w.refuse(s.Attempts != 0 && s.Attempts != 1, field.NewPath("attempts"), "a member is tried once; "+always+" 0")
	w.refuse(s.Backoff.Duration != 0, field.NewPath("backoff"), "a member is tried once; "+always+" 0")
	w.refuse(s.MaxBackoff.Duration != 0, field.NewPath("maxBackoff"), "a member is tried once; "+always+" 0")
	w.refuse(s.ProgressDeadline.Duration != 0, field.NewPath("progressDeadline"), "there is none; leave it 0")
	w.refuse(s.UnreachableDeadline.Duration != 0, field.NewPath("unreachableDeadline"), "there is none; leave it 0")
	w.refuse(s.MinHealthy.Duration != 0, field.NewPath("minHealthy"), "there is none; leave it 0")
	r := &s.Removal
	w.refuse(r.MaxConcurrency != nil || r.Deadline.Duration != 0 || len(r.Before)+len(r.After) > 0, field.NewPath("removal"), "nothing is removed; leave it out")
}

func (w *writer) stage(at *field.Path, s *stages.Stage) Stage {
	w.refuse(s.SortKey != "", at.Child("sortingLabelKey"), "members have no order; leave it out")
	w.refuse(s.StrictFailures, at.Child("strictFailures"), "budgets are not strict; leave it out")
	w.refuse(len(s.Checks) > 0, at.Child("checks"), "nothing is measured; leave them out")
	w.refuse(len(s.ClusterChecks) > 0, at.Child("clusterChecks"), "nothing is measured; leave them out")
	w.refuse(s.Take != nil, at.Child("take"), "members are selected by their labels; write a labelSelector")
	w.refuse(s.Rest, at.Child("rest"), "members are selected by their labels; write a labelSelector")
	out := Stage{Name: s.Name, MaxConcurrency: text(s.MaxConcurrency), MaxAllowedFailures: text(s.MaxFailures)}
	out.MemberSelector = w.stageSelector(at.Child("labelSelector"), s)
	for i := range s.Groups {
		out.Groups = append(out.Groups, w.group(at.Child("groups").Index(i), &s.Groups[i]))
	}
	if len(s.Groups) > 0 && s.MaxConcurrency != nil && *s.MaxConcurrency == intstr.FromInt32(MaxConcurrency) {
		out.MaxConcurrency = "" // the default
	}
	if len(s.Groups) > 0 && s.MaxConcurrency == nil {
		w.errs = append(w.errs, field.Required(at.Child("maxConcurrency"), fmt.Sprintf("without a limit it is %d for Azure; write that or less", MaxConcurrency)))
	}
	out.BeforeGates = w.gates(at.Child("beforeStageTasks"), s.Before)
	out.AfterGates, out.AfterStageWait = w.after(at.Child("afterStageTasks"), s.After)
	return out
}

// stageSelector returns the memberSelector of a stage, or nil if its groups select from all
// members.
func (w *writer) stageSelector(at *field.Path, s *stages.Stage) *MemberSelector {
	if s.Selector == nil {
		w.errs = append(w.errs, field.Required(at, "a stage that selects nothing has no form; with groups, select all"))
		return nil
	}
	if isEverything(s.Selector) {
		if len(s.Groups) == 0 {
			w.errs = append(w.errs, field.Invalid(at, "{}", "a stage of all members needs groups"))
		}
		return nil
	}
	return w.selector(at, s.Selector)
}

func (w *writer) selector(at *field.Path, s *metav1.LabelSelector) *MemberSelector {
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || parsed.String() == "" {
		w.errs = append(w.errs, field.Invalid(at, metav1.FormatLabelSelector(s), "must be a selector that selects something by its labels"))
		return nil
	}
	return &MemberSelector{ByLabel: parsed.String()}
}

func (w *writer) group(at *field.Path, g *stages.Group) Group {
	w.refuse(g.SortKey != "", at.Child("sortingLabelKey"), "members have no order; leave it out")
	w.refuse(g.StrictFailures, at.Child("strictFailures"), "budgets are not strict; leave it out")
	w.refuse(g.New, at.Child("new"), "members are selected by their labels; write a labelSelector")
	out := Group{Name: g.Name, MaxConcurrency: text(g.MaxConcurrency), MaxAllowedFailures: text(g.MaxFailures)}
	if g.MaxFailures == nil {
		w.errs = append(w.errs, field.Required(at.Child("maxFailures"), "without a limit it is 0 for Azure; write 100% for none"))
	}
	if out.MaxAllowedFailures == "0" {
		out.MaxAllowedFailures = "" // the default
	}
	switch {
	case g.Selector == nil:
		w.errs = append(w.errs, field.Required(at.Child("labelSelector"), "a group that selects nothing has no form"))
	case !isUpdateGroup(g.Selector, g.Name):
		out.MemberSelector = w.selector(at.Child("labelSelector"), g.Selector)
	}
	out.BeforeGates = w.gates(at.Child("beforeGroupTasks"), g.Before)
	out.AfterGates = w.gates(at.Child("afterGroupTasks"), g.After)
	return out
}

// isUpdateGroup reports whether a selector selects the members of an update group.
func isUpdateGroup(s *metav1.LabelSelector, name string) bool {
	value, ok := s.MatchLabels[UpdateGroupLabel]
	return ok && value == name && len(s.MatchLabels) == 1 && len(s.MatchExpressions) == 0
}

func text(n *intstr.IntOrString) string {
	if n == nil {
		return ""
	}
	return n.String()
}

func (w *writer) gates(at *field.Path, tasks []stages.Task) []Gate {
	gates, wait := w.after(at, tasks)
	w.refuse(wait != 0, at, "there is a wait after a stage only, not before one and not at a group")
	return gates
}

// after returns the gates among the tasks, and the duration of the wait among them in seconds.
func (w *writer) after(at *field.Path, tasks []stages.Task) (gates []Gate, wait int) {
	for i := range tasks {
		t, at := &tasks[i], at.Index(i)
		if t.Type == stages.TimedWait {
			wait = w.wait(at, t)
			continue
		}
		w.refuse(t.Approval != nil, at.Child("approval"), "an approval is one person's; leave it out")
		w.refuse(len(t.Checks) > 0, at.Child("checks"), "nothing is measured; leave the task out")
		gates = append(gates, Gate{DisplayName: t.DisplayName, Type: string(t.Type), Schedule: w.schedule(at.Child("schedule"), t.Schedule)})
	}
	return gates, wait
}

func (w *writer) wait(at *field.Path, t *stages.Task) int {
	w.refuse(t.DisplayName != "", at.Child("displayName"), "a wait has no name; leave it out")
	if t.Wait.Duration%time.Second != 0 {
		w.errs = append(w.errs, field.Invalid(at.Child("waitTime"), t.Wait.Duration.String(), "must be whole seconds"))
	}
	return int(t.Wait.Duration / time.Second)
}

func (w *writer) schedule(at *field.Path, s *stages.Schedule) *ScheduledStart {
	if s == nil {
		return nil
	}
	if s.Day == "" {
		w.errs = append(w.errs, field.Required(at.Child("day"), "Azure knows no gate for every day; name one"))
	}
	offset := s.Offset
	if offset == "" {
		offset = "+00:00"
	}
	return &ScheduledStart{StartDay: s.Day, StartTime: s.Time, UTCOffset: offset}
}
