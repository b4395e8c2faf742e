package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a scenario.
type Problem struct {
	// File is the name that [Read] was given; Line counts from 1.
	File string
	Line int
	// Field is the path of a field, for example clusters[0].name; empty where the
	// problem is the whole document's.
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

// Problems is the error of [Read]: everything that is wrong, by line.
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

// document is a scenario while it is read.
type document struct {
	file     string
	problems Problems
	// more counts the problems that are not kept.
	more int
	// broken are the paths that have a problem.
	broken map[string]bool
}

func (d *document) report(line int, path, text string) {
	if len(d.problems) >= maxProblems {
		d.more++
		return
	}
	d.broken[path] = true
	d.problems = append(d.problems, Problem{File: d.file, Line: line, Field: path, Text: text})
}

// failed tells that a problem was reported at the path or above it.
func (d *document) failed(path string) bool {
	for {
		if d.broken[path] {
			return true
		}
		i := strings.LastIndexAny(path, ".[")
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}

// err returns the problems by line; the last one says how many more there are.
func (d *document) err() error {
	if len(d.problems) == 0 {
		return nil
	}
	p := d.problems
	slices.SortStableFunc(p, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	if d.more > 0 {
		last := p[len(p)-1]
		p = append(p, Problem{File: last.File, Line: last.Line, Text: fmt.Sprintf("and %d problems more", d.more)})
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
