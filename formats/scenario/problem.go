package scenario

import "github.com/slipway-dev/slipway/formats/internal/yamldoc"

// Problem is one problem of a scenario.
type Problem struct {
	// File is the name given to [Read]; Line counts from 1.
	File string
	Line int
	// Field is the path of a field, for example clusters[0].name; empty if the problem concerns the
	// whole document.
	Field string
	// Text describes the problem and the remedy.
	Text string
}

// Error returns file:line: field: text, without the field if it is empty.
func (p Problem) Error() string {
	return yamldoc.Problem{File: p.File, Line: p.Line, Field: p.Field, Text: p.Text}.Error()
}

// Problems is the error of [Read]: all problems, by line.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string { return yamldoc.Lines(p) }

func asError(d *yamldoc.Doc) error {
	return yamldoc.AsError[Problems](&d.Report, func(p yamldoc.Problem) Problem {
		return Problem{File: p.File, Line: p.Line, Field: p.Field, Text: p.Text}
	})
}
