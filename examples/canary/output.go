package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// printer prints what a command has to say.
type printer struct {
	out, err io.Writer
	// json reports whether objects are printed whole, wide that tables have more columns.
	json, wide bool
}

// say prints a line.
func (p printer) say(format string, args ...any) error {
	said := printable(fmt.Sprintf(format, args...))
	if p.json {
		return p.encode(map[string]string{"message": said})
	}
	_, err := fmt.Fprintln(p.out, said)
	return err
}

// fail tells of a failure as kubectl does, and returns that it was told.
func (p printer) fail(format string, args ...any) error {
	said := printable(fmt.Sprintf(format, args...))
	fmt.Fprintln(p.err, said)
	return &saidError{fmt.Errorf("%s", said)}
}

// newPrinter prints as the line says.
func newPrinter(l line, std stdio) printer {
	return printer{out: std.out, err: std.err, json: l.output == "json", wide: l.output == "wide"}
}

// object prints the object that was asked for.
func (p printer) object(k kind, obj *unstructured.Unstructured) error {
	if p.json {
		return p.encode(obj.Object)
	}
	return p.table(k, []*unstructured.Unstructured{obj})
}

// objects prints all objects of a kind.
func (p printer) objects(k kind, objs []*unstructured.Unstructured) error {
	if p.json {
		return p.encode(list(objs).UnstructuredContent())
	}
	return p.table(k, objs)
}

func (p printer) encode(v any) error {
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	return e.Encode(v)
}

// table prints objects in the columns of kubectl.
func (p printer) table(k kind, objs []*unstructured.Unstructured) error {
	columns := k.columns
	if p.wide {
		columns = slices.Concat(columns, k.wide)
	}
	w := tabwriter.NewWriter(p.out, 6, 4, 3, ' ', 0)
	row := []string{"NAME"}
	for _, c := range columns {
		row = append(row, c.name)
	}
	fmt.Fprintln(w, strings.Join(row, "\t"))
	for _, obj := range objs {
		row = []string{obj.GetName()}
		for _, c := range columns {
			row = append(row, c.cell(obj))
		}
		for i := range row {
			row[i] = printable(strings.ReplaceAll(row[i], "\n", " "))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// printable replaces what a terminal might take for something else than text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, s)
}
