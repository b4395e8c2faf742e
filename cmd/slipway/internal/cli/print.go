package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// The formats of -o.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"
)

// CheckOutput reports a value of -o that is none of the formats.
func (o *Options) CheckOutput() error {
	if !slices.Contains([]string{Table, Wide, JSON, YAML, Name}, o.Output) {
		return Usagef("-o %s: want table, wide, json, yaml or name", o.Output)
	}
	return nil
}

// IsValue reports whether -o asks for values, as JSON or YAML.
func (o *Options) IsValue() bool { return o.Output == JSON || o.Output == YAML }

// IsTable reports whether -o asks for a table.
func (o *Options) IsTable() bool { return o.Output == Table || o.Output == Wide }

// List is what a verb shows.
type List struct {
	// Kind is that of the rows, which -o name begins with.
	Kind string
	// Columns are the heads of the cells; those after the first Narrow ones are shown with -o wide.
	Columns []string
	Narrow  int
	rows    []row
}

// Len returns the number of rows.
func (l *List) Len() int { return len(l.rows) }

// Names returns the names of the rows.
func (l *List) Names() (out []string) {
	for _, r := range l.rows {
		out = append(out, r.name)
	}
	return out
}

// Values returns what -o json shows of the rows.
func (l *List) Values() []any {
	out := []any{}
	for _, r := range l.rows {
		out = append(out, r.value)
	}
	return out
}

// Keep drops the rows whose names are not kept.
func (l *List) Keep(kept func(name string) bool) {
	l.rows = slices.DeleteFunc(l.rows, func(r row) bool { return !kept(r.name) })
}

// Sort orders the rows by name; those of one name stay as they are.
func (l *List) Sort() {
	slices.SortStableFunc(l.rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
}

type row struct {
	name  string
	cells []any
	// value is what -o json and -o yaml show.
	value any
}

// Add adds a row: its name, which is the first cell, the value that -o json shows, and the other cells.
func (l *List) Add(name string, value any, cells ...any) {
	l.rows = append(l.rows, row{name, cells, value})
}

// Print shows a list as -o says. A table without rows says on the other stream that there are none, as
// kubectl does.
func (o *Options) Print(l *List) error {
	switch o.Output {
	case Name:
		for _, r := range l.rows {
			if _, err := fmt.Fprintf(o.Out, "%s/%s\n", l.Kind, r.name); err != nil {
				return err
			}
		}
		return nil
	case Table, Wide:
		if len(l.rows) == 0 {
			_, err := fmt.Fprintf(o.ErrOut, "no %ss\n", l.Kind)
			return err
		}
		return printers.NewTablePrinter(printers.PrintOptions{Wide: o.Output == Wide}).PrintObj(l.table(), o.Out)
	}
	return o.PrintValue(map[string]any{"items": l.Values()})
}

// PrintValue shows one value as JSON or YAML.
func (o *Options) PrintValue(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	text := b.Bytes()
	if o.Output == YAML {
		var err error
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
	}
	_, err := fmt.Fprint(o.Out, Printable(string(text)))
	return err
}

func (l *List) table() *metav1.Table {
	t := &metav1.Table{}
	for i, head := range l.Columns {
		c := metav1.TableColumnDefinition{Name: head, Type: "string"}
		if i >= l.Narrow {
			c.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, c)
	}
	for _, r := range l.rows {
		cells := []any{Cell(r.name)}
		for _, c := range r.cells {
			cells = append(cells, Cell(c))
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	return t
}

// Cell is a value as text: what is empty is a dash, and nothing breaks a line or steers a terminal.
func Cell(v any) string {
	switch at := v.(type) {
	case *string:
		if at == nil {
			return "-"
		}
		return Cell(*at)
	case *time.Time:
		if at == nil {
			return "-"
		}
		return Cell(*at)
	case time.Time:
		if at.IsZero() {
			return "-"
		}
		return at.UTC().Format(time.RFC3339)
	}
	text := strings.Join(strings.Fields(fmt.Sprint(v)), " ")
	if text == "" {
		return "-"
	}
	return Printable(text)
}

// Printable returns text in which what a terminal would obey is written out as an escape of JSON: names and
// messages come from files and clusters. It keeps the ends of lines, and JSON means the same afterwards.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || strconv.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff: // as two halves, which JSON reads as one character
			fmt.Fprintf(&b, `\u%04x\u%04x`, (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// Section shows a list below a title, nothing where it is empty or -o asks for values.
func (o *Options) Section(title string, l *List) error {
	if l.Len() == 0 || o.Output != Table && o.Output != Wide {
		return nil
	}
	if _, err := fmt.Fprintf(o.Out, "\n%s:\n", title); err != nil {
		return err
	}
	return o.Print(l)
}
