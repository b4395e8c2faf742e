package stages

import (
	"encoding/json"

	"github.com/slipway-dev/slipway/versioned"
)

// runFormat is the newest format of a run's JSON.
const runFormat = 1

// runForm is the JSON of a run: its fields behind a format.
type runForm struct {
	Format int `json:"format"`
	runFields
}

// runFields has the fields of a run and none of its methods.
type runFields Run

// MarshalJSON returns all that the run is, the clusters in flight included, with
// a format number.
func (r Run) MarshalJSON() ([]byte, error) { return json.Marshal(runForm{runFormat, runFields(r)}) }

// UnmarshalJSON reads what MarshalJSON returned: the run equals the one that
// was marshalled, where that came out of stages.NewRun or step.Step. A newer format is
// refused with a [*versioned.FormatError], and so is a field that this version does not
// know, because what it says of the run would be lost. On an error the run is as
// it was. Whether the run is one of a plan is for [Check], which step.Step asks.
func (r *Run) UnmarshalJSON(b []byte) error {
	var f runForm
	if err := versioned.Decode("run", runFormat, b, &f); err != nil {
		return err
	}
	if err := versioned.CheckFormat("run", f.Format, runFormat); err != nil { // where it has two
		return err
	}
	*r = Run(f.runFields)
	return nil
}
