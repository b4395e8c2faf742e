package azure

import (
	"strings"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// Problem is one thing that is wrong with a document.
type Problem struct {
	// File is the name that [Read] was given; Line counts from 1.
	File string
	Line int
	// Field is the path of a field, for example stages[0].groups[1].name; empty
	// where the problem is the whole document's.
	Field string
	// Text says what is wrong and what would be right.
	Text string
}

// Error returns file:line: field: text, without the field where that is empty.
func (p Problem) Error() string {
	return yamldoc.Problem{File: p.File, Line: p.Line, Field: p.Field, Text: p.Text}.Error()
}

// Problems is the error of reading: everything that is wrong, by line.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string { return yamldoc.Lines(p) }

func asError(d *yamldoc.Doc) error {
	return yamldoc.AsError[Problems](&d.Report, func(p yamldoc.Problem) Problem {
		return Problem{File: p.File, Line: p.Line, Field: p.Field, Text: p.Text}
	})
}

// place turns the path of a field of a strategy into that of what it was read from.
func place(path string) string {
	if below, ok := strings.CutPrefix(path, "rollback"); ok {
		return rollbackField + below
	}
	return strings.NewReplacer(
		"labelSelector", "memberSelector", "maxFailures", "maxAllowedFailures",
		"beforeStageTasks", "beforeGates", "afterStageTasks", "afterGates",
		"beforeGroupTasks", "beforeGates", "afterGroupTasks", "afterGates",
		"schedule.day", "scheduledStartConfiguration.startDay", "schedule.time", "scheduledStartConfiguration.startTime",
		"schedule.offset", "scheduledStartConfiguration.utcOffset", "schedule", "scheduledStartConfiguration",
	).Replace(path)
}
