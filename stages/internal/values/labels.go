package values

import "cmp"

// LabelValue is the value of a label, if it is there.
type LabelValue struct {
	Absent bool
	Value  string
}

// CompareLabelValues orders values, and puts the absent one last.
func CompareLabelValues(a, b LabelValue) int {
	switch {
	case a.Absent == b.Absent:
		return cmp.Compare(a.Value, b.Value)
	case b.Absent:
		return -1
	default:
		return 1
	}
}
