package step

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/inverse"
	"github.com/slipway-dev/slipway/stages/internal/values"
	"github.com/slipway-dev/slipway/versioned"
)

// Run is the state of an execution of a plan; together they are complete. Its exported fields
// identify the run and its progress; a host reads them and never sets them. [Run.Outline] has the
// state of its stages, groups, gates and clusters. The rest is not for hosts: they store it with
// [Run.Encode] and restore it with [DecodeRun].
//
// The size of a run grows with the clusters in flight and the unsuccessful ones, not with the
// fleet. If thousands of clusters fail or cannot be reached, the run keeps only the data that
// [Step] needs, and the events hold the rest.
type Run struct {
	Name      string            `json:"name"`
	UID       string            `json:"uid"`
	Placement string            `json:"placement"`
	Plan      string            `json:"plan"`
	Starter   approval.Identity `json:"starter,omitzero"`

	State stages.State `json:"state"`
	// Reason explains the state if it is not obvious: the cause of a failure, the identity
	// that stopped the run, or the run that it waits for.
	Reason string `json:"reason,omitempty"`
	// Ahead is the run of the placement that a Pending run waits for; empty in every other state.
	Ahead string `json:"ahead,omitempty"`
	// Hold keeps a run from starting until a Start command.
	Hold bool `json:"hold,omitempty"`
	// Ending is the future state of a Stopping run: Stopped, Failed or Superseded.
	Ending stages.State `json:"ending,omitempty"`
	// Attempt counts the starts of the run, from 1.
	Attempt int `json:"attempt"`

	// Now is the latest time the run has seen; time never goes back for it.
	Now     stages.Instant `json:"now,omitempty"`
	Created stages.Instant `json:"created,omitempty"`
	Started stages.Instant `json:"started,omitempty"`
	Ended   stages.Instant `json:"ended,omitempty"`

	// form is the rest of the stored form.
	form runstate.Form
}

// Form returns the stored form, without the exported fields of the run. It is for the packages of
// this module: others have no key.
func (r *Run) Form(runstate.Key) *runstate.Form { return &r.form }

// Equal reports whether both runs are the same, the stored form included.
func (r Run) Equal(other Run) bool { return reflect.DeepEqual(r, other) }

// isEnding reports whether the run is Stopping for good, so that its gates no longer matter.
func (r *Run) isEnding() bool { return r.State == stages.Stopping && r.Ending != stages.Stopped }

// isAborting reports whether the run was aborted and still runs stages and groups with
// [stages.Flow].Always.
func (r *Run) isAborting() bool {
	return r.form.Closing != nil && r.form.Closing.State == stages.Aborted
}

// Final reports whether the run will never do anything again. A failed run of profile
// ClusterUpdate is not final because it can be started again, unless a rollback was requested.
func (r *Run) Final(p *stages.Plan) bool {
	switch r.State {
	case stages.Completed, stages.Aborted, stages.Superseded:
		return true
	case stages.Failed:
		return p.Strategy.Profile != stages.ClusterUpdate || r.form.RollbackRequest != nil
	default:
		return false
	}
}

// IsEnded reports whether the run does nothing by itself any more and releases its placement.
func (r *Run) IsEnded() bool {
	switch r.State {
	case stages.Completed, stages.Aborted, stages.Superseded, stages.Failed:
		return true
	default:
		return false
	}
}

// isBypassed reports whether clusters may start outside their windows.
func (r *Run) isBypassed() bool { return r.form.Bypass != nil && r.Now < r.form.Bypass.Until }

// NewRun returns the run of a plan before its first step. The uid must not be empty and must
// identify the run among all runs, also among runs of the same name. If hold is true, the run does
// not start until a Start command.
func NewRun(p *stages.Plan, name, uid string, starter approval.Identity, hold bool, now time.Time) Run {
	created := min(max(stages.At(now), 0), stages.LastNow)
	r := Run{
		Name: values.Clean(name), UID: values.Clean(uid), Placement: p.Placement, Plan: p.Digest, Starter: values.CleanIdentity(starter),
		State: stages.NotStarted, Hold: hold, Created: created, Now: created,
		form: runstate.Form{Stages: make([]runstate.StageRun, len(p.Stages))},
	}
	for i := range r.form.Stages {
		r.form.Stages[i].State = stages.NotStarted
	}
	return r
}

// runFormat is the newest format of a run's JSON.
const runFormat = 1

// runForm is the JSON of a run: its fields behind a format.
type runForm struct {
	Format int `json:"format"`
	runFields
	runstate.Form
}

// runFields has the exported fields of a run and none of its methods.
type runFields Run

// Encode returns the whole run as JSON, the clusters in flight included, with a format number.
func (r *Run) Encode() ([]byte, error) {
	return json.Marshal(runForm{runFormat, runFields(*r), r.form})
}

// DecodeRun reads the output of [Run.Encode]. The result equals the encoded run if that came from
// [NewRun] or [Step]. A newer format is refused with a [*versioned.FormatError]. An unknown field
// is refused too, because its content would be lost. DecodeRun does not check whether the run
// belongs to a plan: [Run.Check] does, and [Step] calls it.
func DecodeRun(b []byte) (Run, error) {
	var f runForm
	if err := versioned.Decode("run", runFormat, b, &f); err != nil {
		return Run{}, err
	}
	// if the JSON has two formats
	if err := versioned.CheckFormat("run", f.Format, runFormat); err != nil {
		return Run{}, err
	}
	r := Run(f.runFields)
	r.form = f.Form
	return r, nil
}

// MarshalJSON encodes the run like [Run.Encode].
func (r Run) MarshalJSON() ([]byte, error) { return r.Encode() }

// UnmarshalJSON decodes the run like [DecodeRun]. On an error the run is unchanged.
func (r *Run) UnmarshalJSON(b []byte) error {
	decoded, err := DecodeRun(b)
	if err == nil {
		*r = decoded
	}
	return err
}

// RollBack returns the plan that rolls back the run r of the plan p. Every cluster that the run may
// have changed returns to its entry in previous, or becomes empty if it has none. If there is
// nothing to roll back, the plan has no clusters.
//
// The plan has the stages of p in reverse order, with their clusters in reverse order. It keeps the
// caps and budgets of p and the strategy's attempts, deadlines and health rules. It has no gates of
// p, but one approval before the first stage if the strategy's Rollback asks for it. If Rollback
// says so, clusters that had nothing before are cleaned: each group of them in a stage of its own,
// after the stage that they were in. Clusters that p cleaned because they left the placement stay
// clean. RollBack only plans; it rolls nothing back. If the run does not belong to the plan, it
// returns the error of [Run.Check].
func RollBack(p *stages.Plan, r *Run, previous map[string]stages.Previous) (*stages.Plan, error) {
	if err := r.Check(p); err != nil {
		return nil, err
	}
	return inverseOf(p, r, previous)
}

// inverseOf is RollBack for a run that belongs to the plan.
func inverseOf(p *stages.Plan, r *Run, previous map[string]stages.Previous) (*stages.Plan, error) {
	var changed []inverse.Changed
	clusters := newLookup(p, r)
	for pos := range p.Clusters {
		if state := clusters.State(pos); r.MayHaveChanged(pos, state) {
			x := runstate.UnsuccessfulAt(r.form.Unsuccessful, pos)
			changed = append(changed, inverse.Changed{Pos: pos, State: state, Gone: x != nil && x.Gone})
		}
	}
	return inverse.Plan(p, r.Name, r.UID, changed, previous)
}
