package cli

import (
	"bytes"
	"encoding/json"
	"errors"
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

// Formats returns those of lists.
func Formats() []string { return []string{Table, Wide, JSON, YAML, Name} }

// CheckOutput reports a value of -o that is none of the formats of the verb. Where the verb has no tables, -o that is not
// set is its first format.
func (o *Options) CheckOutput() error {
	formats := o.Formats
	if formats == nil {
		formats = Formats()
	}
	if slices.Contains(formats, o.Output) {
		return nil
	}
	if o.Output == Table {
		o.Output = formats[0]
		return nil
	}
	last := len(formats) - 1
	return Usagef("-o %s: want %s", o.Output, strings.TrimPrefix(strings.Join(formats[:last], ", ")+" or "+formats[last], " or "))
}

// IsValue reports whether -o asks for values, as JSON or YAML.
func (o *Options) IsValue() bool { return o.Output == JSON || o.Output == YAML }

// IsTable reports whether -o asks for a table.
func (o *Options) IsTable() bool { return o.Output == Table || o.Output == Wide }

// List is what a verb shows.
type List struct {
	// Kind is that of the rows, which -o name begins with.
	Kind string
	// Columns are the heads of the cells; those after the first Narrow ones are shown with -o wide. 0 is all.
	Columns []string
	Narrow  int
	// Value is what -o json and -o yaml show in the place of the rows, unless it is nil.
	Value any
	rows  []row
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

// Only drops the rows with other names than these, which may have the kind before them as in run/NAME, and returns the
// names that no row has.
func (l *List) Only(names ...string) (missing []string) {
	all := l.Names()
	for i, name := range names {
		names[i] = strings.TrimPrefix(name, l.Kind+"/")
		if !slices.Contains(all, names[i]) {
			missing = append(missing, name)
		}
	}
	l.rows = slices.DeleteFunc(l.rows, func(r row) bool { return !slices.Contains(names, r.name) })
	return missing
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
	switch {
	case o.Output == Name:
		var err error
		for _, r := range l.rows {
			err = errors.Join(err, o.Said("%s/%s", l.Kind, r.name))
		}
		return err
	case o.IsTable() && len(l.rows) == 0:
		_, err := fmt.Fprintf(o.ErrOut, "no %ss\n", l.Kind)
		return err
	case o.IsTable():
		return printers.NewTablePrinter(printers.PrintOptions{Wide: o.Output == Wide}).PrintObj(l.table(), o.Out)
	case l.Value != nil:
		return o.PrintValue(l.Value)
	}
	return o.PrintValue(map[string]any{"items": l.Values()})
}

// PrintLine shows a value on a line of its own: as JSON where -o asks for that, otherwise as text.
func (o *Options) PrintLine(v any, text string) error {
	if o.Output == JSON {
		line, err := json.Marshal(v)
		if err != nil {
			return err
		}
		text = string(line)
	}
	return o.Said("%s", text)
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
		if l.Narrow > 0 && i >= l.Narrow {
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
	if l.Len() == 0 || !o.IsTable() {
		return nil
	}
	return errors.Join(o.Said("\n%s:", title), o.Print(l))
}
