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

// MarshalJSON returns the whole run, the clusters in flight included, with a format number.
func (r Run) MarshalJSON() ([]byte, error) { return json.Marshal(runForm{runFormat, runFields(r)}) }

// UnmarshalJSON reads the output of MarshalJSON. The result equals the marshalled run if that
// came from NewRun or step.Step. A newer format is refused with a [*versioned.FormatError]. An
// unknown field is refused too, because its content would be lost. On an error the run is
// unchanged. UnmarshalJSON does not check whether the run belongs to a plan: [Check] does, and
// step.Step calls it.
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
