package azure

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	at := fmt.Sprintf("%s:%d: ", p.File, p.Line)
	if p.Field != "" {
		at += p.Field + ": "
	}
	return at + p.Text
}

// Problems is the error of reading: everything that is wrong, by line.
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

// reading is what is wrong with a document so far.
type reading struct {
	file     string
	problems Problems
	// more counts the problems that are not kept.
	more int
	// broken are the paths that have a problem.
	broken map[string]bool
}

func newReading(file string) *reading { return &reading{file: file, broken: map[string]bool{}} }

func (r *reading) report(line int, path, text string) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.broken[path] = true
	r.problems = append(r.problems, Problem{File: r.file, Line: line, Field: path, Text: text})
}

// failed tells that a problem was reported at the path or above it.
func (r *reading) failed(path string) bool {
	for {
		if r.broken[path] {
			return true
		}
		if path == "" {
			return false
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// problem returns the problems by line; the last one says how many more there are.
func (r *reading) problem() error {
	if len(r.problems) == 0 {
		return nil
	}
	p := r.problems
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if r.more > 0 {
		last := p[len(p)-1]
		p = append(p, Problem{File: last.File, Line: last.Line, Text: fmt.Sprintf("and %d problems more", r.more)})
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

// fieldErrors returns the errors of fields that an error is made of.
func fieldErrors(err error) field.ErrorList {
	var all utilerrors.Aggregate
	if !errors.As(err, &all) {
		return nil
	}
	var out field.ErrorList
	for _, e := range all.Errors() {
		if fe, ok := errors.AsType[*field.Error](e); ok {
			out = append(out, fe)
		}
	}
	return out
}
