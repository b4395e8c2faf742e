package kubefleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

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
func (p Problem) Error() string {
	var parts []string
	if p.File != "" {
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	}
	if id := strings.Trim(p.Kind+"/"+p.Name, "/"); id != "" {
		parts = append(parts, id)
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// Problems is the error of [Read]: everything that is wrong with all
// documents, by line. It is that of [PlacementOf] and its like too.
type Problems []Problem

// Error returns one line for each problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds what is told about hostile input.
const maxProblems = 1000

// asError returns the problems by line; the last one says how many more there
// are.
func (p Problems) asError(more int) error {
	if len(p) == 0 {
		return nil
	}
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if more > 0 {
		last := p[len(p)-1]
		p = append(p, Problem{File: last.File, Line: last.Line, Text: fmt.Sprintf("and %d problems more", more)})
	}
	return p
}

// clip bounds what an error repeats of its input.
func clip(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
