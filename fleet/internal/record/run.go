package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Run is the record of a run, the run's only record that is written by compare-and-swap. It is
// stored as a runForm.
type Run struct {
	Run step.Run `json:"run"`
	// Owner is set by the host.
	Owner string `json:"owner,omitempty"`
	// Title is set by the host: its name for the run, or for the run that this run rolls back.
	Title string `json:"title,omitempty"`
	// Of is the UID of the placement. It distinguishes the placement from a later one of the same
	// name.
	Of string `json:"of,omitempty"`
	// Whole reports whether the run covers every cluster of its selection; a catch-up run does not.
	Whole bool `json:"whole,omitempty"`
	// Selection is the selection that picked the clusters.
	Selection *lifecycle.Selection `json:"selection,omitempty"`
	// Final is set for the run that cleans the clusters of a placement that is being deleted. It is
	// the fate of the objects.
	Final lifecycle.End `json:"final,omitempty"`
	// Version is the version of the placement that the run was decided on. The admission of the run
	// compares it; an empty version admits the run whatever has changed.
	Version string `json:"version,omitempty"`
	// RollbackOf is the UID of the run that this run rolls back; empty for none.
	RollbackOf string `json:"rollbackOf,omitempty"`
	// Apply is the placement's apply strategy when the run was created.
	Apply apply.Strategy `json:"apply,omitzero"`
	// AllowCoOwnership is the placement's setting when the run was created, for comparison only:
	// updates use the placement's setting when the driver began.
	AllowCoOwnership bool `json:"allowCoOwnership,omitempty"`
	// GCGeneration is the placement's generation when the contents of the run were stored.
	GCGeneration int64 `json:"gcGeneration,omitempty"`
	Lease        Lease `json:"lease,omitzero"`
	// Seq is the number of saves of the run, Try the number of attempts to save by the engine that
	// wrote the record.
	Seq      int64    `json:"seq"`
	Try      int      `json:"try,omitempty"`
	InFlight InFlight `json:"inFlight,omitzero"`
	Journal  Journal  `json:"journal,omitzero"`
}

// runForm is the stored form of a run's record. It stores the plain fields of the run, because the
// JSON of a step.Run has a format of its own, and omits the slots that InFlight holds.
type runForm struct {
	Format int        `json:"format"`
	Run    *runFields `json:"run"`
	*recordFields
}

type recordFields Run

// runFields are the fields of a run without its methods, and the rest of its stored form.
type runFields struct {
	head
	runstate.Form
}

type head step.Run

// form returns the stored form of the record.
func (r *Run) form() *runForm {
	run := runFields{head(r.Run), *r.Run.Form(runstate.Key{})}
	run.InFlight = nil
	return &runForm{Format: Format, Run: &run, recordFields: (*recordFields)(r)}
}

// read fills an empty record from its decoded form.
func (r *Run) read(f *runForm) error {
	switch {
	case f.Run == nil:
		return errors.New("it has no run")
	case len(f.Run.InFlight) > 0:
		return errors.New("clusters in flight are in its run, and must be in its inFlight or in pages")
	}
	r.Run = step.Run(f.Run.head)
	*r.Run.Form(runstate.Key{}) = f.Run.Form
	return nil
}

// Check returns an error if [step.Step] cannot have made the stored run from its plan, because a
// writer other than an engine may have changed it. The data in pages must be read before.
func (r *Run) Check(p *stages.Plan) error {
	if err := r.Run.Check(p); err != nil {
		return Damaged(RunKey(r.Run.Name), err)
	}
	return nil
}

// Encode encodes the record like the function Encode, but much faster, and omits the lists in
// pages.
func (r *Run) Encode() []byte {
	head := *r
	if len(r.InFlight.Unsuccessful) > 0 {
		head.Run.Form(runstate.Key{}).Unsuccessful = nil
	}
	if len(r.InFlight.Waiting) > 0 {
		head.Run.Form(runstate.Key{}).Waiting = nil
	}
	if len(r.Journal.Last) == 0 {
		return Encode(&head)
	}
	head.Journal.Last = nil
	b, err := json.Marshal(head.form())
	if err != nil {
		return nil // see Encode: this cannot happen
	}
	b = append(bytes.TrimSuffix(b, []byte("}}")), `,"last":`...)
	return append(appendEvents(b, r.Journal.Last), "}}"...)
}

// Lease names the engine that drives a run. It is for liveness only; safety comes from Epoch, the
// fencing token.
type Lease struct {
	Holder string         `json:"holder,omitempty"`
	Epoch  int64          `json:"epoch"`
	Until  stages.Instant `json:"until,omitempty"`
}

// Extended returns the lease in the record under this key, extended by the session of its holder.
func (l Lease) Extended(session *Engine, key string) Lease {
	if l.Holder != "" && l.Until != 0 && !slices.Contains(session.Lapsed, key) {
		l.Until = max(l.Until, session.Until)
	}
	return l
}

// FreeAt reports whether an engine with another name may take the lease.
func (l Lease) FreeAt(now time.Time, skew time.Duration) bool {
	return l.Holder == "" || now.After(l.Until.Time().Add(skew))
}
