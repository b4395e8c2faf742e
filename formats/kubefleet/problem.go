package kubefleet

import "github.com/slipway-dev/slipway/formats/internal/yamldoc"

// Problem is one problem of a document.
type Problem struct {
	// File is the name that [Read] was given, and Line counts from 1. Both are empty for an object
	// that did not come from a file.
	File string
	Line int
	// Kind and Name are the kind and the name of the document; empty if the document has none.
	Kind, Name string
	// Field is the path of a field, for example spec.stages[0].name. It is empty if the problem
	// concerns the whole document.
	Field string
	// Text describes the problem and the remedy.
	Text string
}

// Error returns file:line: kind/name: field: text, without the parts that are
// empty.
func (p Problem) Error() string { return yamldoc.Problem(p).Error() }

// Problems is the error of [Read], [PlacementOf] and similar functions: all problems of all
// documents, by line.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string { return yamldoc.Lines(p) }

func asError(r *yamldoc.Report) error {
	return yamldoc.AsError[Problems](r, func(p yamldoc.Problem) Problem { return Problem(p) })
}
