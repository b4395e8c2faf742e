package stages

import (
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages/internal/values"
)

// checkShares checks the stages with a share of the remaining clusters, or with the rest.
func checkShares(at *field.Path, stages []Stage, unassigned Unassigned) (errs field.ErrorList) {
	rest := -1
	for i := range stages {
		st, at := &stages[i], at.Child("stages").Index(i)
		errs = append(errs, values.CheckLimit(at.Child("take"), st.Take, 1)...)
		errs = append(errs, st.checkShare(at)...)
		switch {
		case st.Rest && rest >= 0:
			errs = append(errs, field.Forbidden(at.Child("rest"), "stage "+stages[rest].Name+" has the rest already: there is one at most"))
		case st.Rest:
			rest = i
		}
	}
	if rest < 0 {
		return errs
	}
	for i, st := range stages[rest+1:] {
		if !st.Pause && !st.Rest {
			errs = append(errs, field.Forbidden(at.Child("stages").Index(rest).Child("rest"),
				"the rest must be the last stage that has clusters, and stage "+st.Name+" comes after it: move stages["+strconv.Itoa(rest+1+i)+"] before it"))
			break
		}
	}
	if unassigned == UnassignedFinalStage {
		errs = append(errs, field.Forbidden(at.Child("unassigned"), "stage "+stages[rest].Name+" has the rest, so that no cluster is left for a final stage: leave one of the two out"))
	}
	return errs
}

// checkShare refuses fields that contradict a share or the rest.
func (s *Stage) checkShare(at *field.Path) (errs field.ErrorList) {
	if s.Take != nil && s.Rest {
		errs = append(errs, field.Forbidden(at.Child("take"), "a stage takes a share or has the rest: leave take or rest out"))
	}
	if s.Take != nil && len(s.Clusters) > 0 {
		errs = append(errs, field.Forbidden(at.Child("take"), "clusters that are picked by name are taken as they are: leave take or clusters out"))
	}
	if s.Rest && (s.Selector != nil || len(s.Clusters) > 0) {
		errs = append(errs, field.Forbidden(at.Child("rest"), "the rest is all that no other stage has: leave out labelSelector and clusters, or take 100% of what the selector matches"))
	}
	if s.Pause && (s.Take != nil || s.Rest) {
		errs = append(errs, field.Forbidden(at.Child("pause"), "a pause picks no clusters: leave take and rest out"))
	}
	return errs
}
