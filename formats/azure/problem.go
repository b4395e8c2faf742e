package azure

import (
	"strings"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// Problem is one problem of a document.
type Problem struct {
	// File is the name given to [Read]; Line counts from 1.
	File string
	Line int
	// Field is the path of a field, for example stages[0].groups[1].name; empty if the problem
	// concerns the whole document.
	Field string
	// Text describes the problem and the remedy.
	Text string
}

// Error returns file:line: field: text, without the field if it is empty.
func (p Problem) Error() string {
	return yamldoc.Problem{File: p.File, Line: p.Line, Field: p.Field, Text: p.Text}.Error()
}

// Problems is the error of reading: all problems, by line.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string { return yamldoc.Lines(p) }

func asError(d *yamldoc.Doc) error {
	return yamldoc.AsError[Problems](&d.Report, func(p yamldoc.Problem) Problem {
		return Problem{File: p.File, Line: p.Line, Field: p.Field, Text: p.Text}
	})
}

// place turns the path of a field of a strategy into the path in the source document.
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
