// Package problem has the problems of documents that the packages below formats read.
package problem

import (
	"fmt"
	"strings"
)

// Problem is one problem of a document, or of several documents together.
type Problem struct {
	// File is the name that the reader was given, and Line counts from 1. Both are empty for an
	// object that did not come from a file.
	File string
	Line int
	// Kind and Name are the kind and the name of the document's object; empty if it has none.
	Kind, Name string
	// Field is the path of a field, for example spec.stages[0].name. It is empty if the problem
	// concerns the whole document.
	Field string
	// Text describes the problem and the remedy.
	Text string
}

// Error returns file:line: kind/name: field: text, without the parts that are empty.
func (p Problem) Error() string {
	var parts []string
	switch {
	case p.File != "":
		parts = append(parts, fmt.Sprintf("%s:%d", p.File, p.Line))
	case p.Line != 0:
		parts = append(parts, fmt.Sprintf("line %d", p.Line))
	}
	if id := strings.Trim(p.Kind+"/"+p.Name, "/"); id != "" {
		parts = append(parts, id)
	}
	if p.Field != "" {
		parts = append(parts, p.Field)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// List is the error of a reader: all problems of all documents, by line.
type List []Problem

// Error returns one line for each problem.
func (l List) Error() string {
	lines := make([]string, len(l))
	for i := range l {
		lines[i] = l[i].Error()
	}
	return strings.Join(lines, "\n")
}
