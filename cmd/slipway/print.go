package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// The formats of -o.
const (
	table = "table"
	wide  = "wide"
	asTxt = "name"
)

func isFormat(f string) bool { return slices.Contains([]string{table, wide, "json", "yaml", asTxt}, f) }

// list is what a verb shows.
type list struct {
	kind string
	// columns are the heads of the cells; those after the first narrow ones are shown with -o wide.
	columns []string
	narrow  int
	rows    []row
}

type row struct {
	name  string
	cells []any
	// value is what -o json and -o yaml show.
	value any
}

func (l *list) add(name string, value any, cells ...any) {
	l.rows = append(l.rows, row{name, cells, value})
}

// print shows a list as -o says. A table without rows says on the other stream that there are none, as
// kubectl does.
func (o *options) print(l *list) error {
	switch o.output {
	case asTxt:
		for _, r := range l.rows {
			if _, err := fmt.Fprintf(o.Out, "%s/%s\n", l.kind, r.name); err != nil {
				return err
			}
		}
		return nil
	case table, wide:
		if len(l.rows) == 0 {
			_, err := fmt.Fprintf(o.ErrOut, "no %ss\n", l.kind)
			return err
		}
		return printers.NewTablePrinter(printers.PrintOptions{Wide: o.output == wide}).PrintObj(l.table(), o.Out)
	}
	values := struct {
		Items []any `json:"items"`
	}{[]any{}}
	for _, r := range l.rows {
		values.Items = append(values.Items, r.value)
	}
	return o.printValue(values)
}

// printValue shows one value as JSON or YAML.
func (o *options) printValue(v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err == nil && o.output == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(o.Out, strings.TrimSuffix(string(text), "\n"))
	return err
}

func (l *list) table() *metav1.Table {
	t := &metav1.Table{}
	for i, head := range l.columns {
		c := metav1.TableColumnDefinition{Name: head, Type: "string"}
		if i >= l.narrow {
			c.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, c)
	}
	for _, r := range l.rows {
		cells := []any{r.name}
		for _, c := range r.cells {
			cells = append(cells, cell(c))
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	return t
}

// cell is a value as text: what is empty is a dash, and nothing breaks a line.
func cell(v any) string {
	if at, is := v.(time.Time); is {
		if at.IsZero() {
			return "-"
		}
		return at.UTC().Format(time.RFC3339)
	}
	text := strings.Join(strings.Fields(fmt.Sprint(v)), " ")
	if text == "" {
		return "-"
	}
	return text
}
