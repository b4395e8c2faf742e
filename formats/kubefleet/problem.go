package kubefleet

import "github.com/slipway-dev/slipway/formats/internal/yamldoc"

// Problem is one thing that is wrong with a document.
type Problem struct {
	// File is the name that [Read] was given; Line counts from 1. What is wrong
	// with an object that is no file's has neither.
	File string
	Line int
	// Kind and Name are the document's, empty where it does not tell.
	Kind, Name string
	// Field is the path of a field, for example spec.stages[0].name; empty
	// where the problem is the whole document's.
	Field string
	// Text says what is wrong and what would be right.
	Text string
}

// Error returns file:line: kind/name: field: text, without the parts that are
// empty.
func (p Problem) Error() string { return yamldoc.Problem(p).Error() }

// Problems is the error of [Read]: everything that is wrong with all
// documents, by line. It is that of [PlacementOf] and its like too.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string { return yamldoc.Lines(p) }

func asError(r *yamldoc.Report) error {
	return yamldoc.AsError[Problems](r, func(p yamldoc.Problem) Problem { return Problem(p) })
}
