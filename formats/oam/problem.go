package oam

import "github.com/slipway-dev/slipway/formats/internal/yamldoc"

// Problem is one problem of a document, or of several documents together.
type Problem struct {
	// File is the name given to [Read]; Line counts from 1. Both are empty for an object that comes
	// from no file.
	File string
	Line int
	// Kind and Name belong to the document; empty if unknown.
	Kind, Name string
	// Field is the path of a field, for example steps[0].properties.policies; empty if the problem
	// concerns the whole document.
	Field string
	// Text describes the problem and the remedy.
	Text string
}

// Error returns file:line: kind/name: field: text, without the parts that are empty.
func (p Problem) Error() string { return yamldoc.Problem(p).Error() }

// Problems is the error of [Read] and of [Publish]: all problems, by line.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string { return yamldoc.Lines(p) }

func asError(r *yamldoc.Report) error {
	return yamldoc.AsError[Problems](r, func(p yamldoc.Problem) Problem { return Problem(p) })
}
