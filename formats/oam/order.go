package oam

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/sets"
)

func itoa(i int) string { return strconv.Itoa(i) }

// subMode is how the steps of a group follow each other.
func (s *Step) subMode(of Mode) ExecuteMode {
	switch {
	case s.Mode != "":
		return s.Mode
	case of.SubSteps != "":
		return of.SubSteps
	default:
		return DAG
	}
}

// cycle returns the name of a step that depends on itself, or "".
func cycle(steps []Step) string {
	done := sets.New[string]()
	waits := func(s *Step, done sets.Set[string]) bool {
		return slices.ContainsFunc(s.DependsOn, func(on string) bool { return isStep(steps, on) && !done.Has(on) })
	}
	for more := true; more; {
		more = false
		for i := range steps {
			if s := &steps[i]; !done.Has(s.Name) && !waits(s, done) {
				done.Insert(s.Name)
				more = true
			}
		}
	}
	left := slices.IndexFunc(steps, func(s Step) bool { return !done.Has(s.Name) })
	if left < 0 {
		return ""
	}
	return steps[left].Name
}

func isStep(steps []Step, name string) bool {
	return slices.ContainsFunc(steps, func(s Step) bool { return s.Name == name })
}
