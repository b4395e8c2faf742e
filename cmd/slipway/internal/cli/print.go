package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/backoff"
)

// The formats of -o.
const (
	Table = "table"
	Wide  = "wide"
	JSON  = "json"
	YAML  = "yaml"
	Name  = "name"
)

// Formats returns the formats of lists.
func Formats() []string { return []string{Table, Wide, JSON, YAML, Name} }

// CheckOutput reports a value of -o that is not a format of the verb.
func (o *Options) CheckOutput() error {
	formats := o.Formats
	if formats == nil {
		formats = Formats()
	}
	if slices.Contains(formats, o.Output) {
		return nil
	}
	last := len(formats) - 1
	return Usagef("-o %s: want %s or %s", o.Output, strings.Join(formats[:last], ", "), formats[last])
}

// IsValue reports whether -o asks for values, as JSON or YAML.
func (o *Options) IsValue() bool { return o.Output == JSON || o.Output == YAML }

// IsTable reports whether -o asks for a table.
func (o *Options) IsTable() bool { return o.Output == Table || o.Output == Wide }

// List is the output of a verb.
type List struct {
	// Kind is the kind of the rows, the prefix for -o name.
	Kind string
	// Columns are the headers of the cells; those after the first Narrow ones are shown with -o
	// wide. 0 means all.
	Columns []string
	Narrow  int
	// Value replaces the rows for -o json and -o yaml, unless it is nil.
	Value any
	// None is the text of a table without rows; default "no" and the kind.
	None string
	rows []row
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

// Values returns the values of the rows for -o json.
func (l *List) Values() []any {
	out := []any{}
	for _, r := range l.rows {
		out = append(out, r.value)
	}
	return out
}

// Only drops the rows with other names, which may be prefixed by the kind as in run/NAME, and
// returns the names without a row.
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

// Sort sorts the rows by name; rows with one name keep their order.
func (l *List) Sort() {
	slices.SortStableFunc(l.rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
}

type row struct {
	name  string
	cells []any
	// value is the value for -o json and -o yaml.
	value any
}

// Add adds a row: its name, which is the first cell, the value for -o json, and the other cells.
func (l *List) Add(name string, value any, cells ...any) {
	l.rows = append(l.rows, row{name, cells, value})
}

// Plural returns the plural of a kind.
func Plural(kind string) string {
	if stem, is := strings.CutSuffix(kind, "y"); is {
		return stem + "ies"
	}
	return kind + "s"
}

// Print shows a list in the format of -o. For a table without rows it says on standard error that
// there are none, like kubectl.
func (o *Options) Print(l *List) error {
	switch {
	case o.IsTable() && len(l.rows) == 0:
		_, err := fmt.Fprintln(o.ErrOut, cmp.Or(l.None, "no "+Plural(l.Kind)))
		return err
	case o.IsValue() && l.Value != nil:
		return o.PrintValue(l.Value)
	case o.IsValue():
		return o.PrintValue(map[string]any{"items": l.Values()})
	}
	return o.NewStream().Show(l)
}

// PrintLine shows a value on one line: as JSON for -o json, otherwise as text.
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

// PrintValue shows one value as YAML for -o yaml, otherwise as JSON.
func (o *Options) PrintValue(v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	shown := text.Bytes()
	if o.Output == YAML {
		var err error
		if shown, err = yaml.JSONToYAML(shown); err != nil {
			return err
		}
	}
	return o.Said("%s", bytes.TrimSuffix(shown, []byte("\n")))
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
		cells := append([]any{r.name}, r.cells...)
		for i := range cells {
			cells[i] = Cell(cells[i])
		}
		t.Rows = append(t.Rows, metav1.TableRow{Cells: cells})
	}
	return t
}

// Cell formats a value as text: an empty value is a dash, and nothing breaks a line or controls a
// terminal.
func Cell(v any) string {
	p := reflect.ValueOf(v)
	at, isTime := v.(time.Time)
	switch isPointer := p.Kind() == reflect.Pointer; {
	case isPointer && p.IsNil(), isTime && at.IsZero():
		return "-"
	case isPointer:
		return Cell(p.Elem().Interface())
	case isTime:
		return at.UTC().Format(time.RFC3339)
	}
	return cmp.Or(Printable(strings.Join(strings.Fields(fmt.Sprint(v)), " ")), "-")
}

// Printable returns text in which control characters are replaced by JSON escapes, because names
// and messages come from files and clusters. It keeps line ends, and JSON keeps its meaning.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) { // JSON reads two of them as one character
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Section shows a list below a title, or nothing if it is empty or -o selects values.
func (o *Options) Section(title string, l *List) error {
	if l.Len() == 0 || !o.IsTable() {
		return nil
	}
	return errors.Join(o.Said("\n%s:", title), o.Print(l))
}

// Stream shows rows as they arrive: rows of a table are aligned with earlier ones, and with -o
// json each row is a line.
type Stream struct {
	o *Options
	// table aligns the cells of a table.
	table interface {
		io.Writer
		Flush() error
	}
	begun bool
}

// NewStream returns a stream on the output.
func (o *Options) NewStream() *Stream { return &Stream{o: o, table: printers.GetNewTabWriter(o.Out)} }

// Show shows the rows of a list. The column headers precede the first ones.
func (s *Stream) Show(l *List) error {
	if len(l.rows) == 0 {
		return nil
	}
	var err error
	switch {
	case s.o.IsTable():
		p := printers.NewTablePrinter(printers.PrintOptions{Wide: s.o.Output == Wide, NoHeaders: s.begun})
		s.begun = true
		return cmp.Or(p.PrintObj(l.table(), s.table), s.table.Flush())
	case s.o.Output == Name:
		for _, r := range l.rows {
			err = cmp.Or(err, s.o.Said("%s/%s", l.Kind, r.name))
		}
	case s.o.Output == YAML:
		for _, r := range l.rows {
			err = cmp.Or(err, s.o.Said("---"), s.o.PrintValue(r.value))
		}
	default:
		for _, r := range l.rows {
			err = cmp.Or(err, s.o.PrintLine(r.value, ""))
		}
	}
	return err
}

// watchEvery is the interval of readings of a watched list.
const watchEvery = time.Second

// Watch shows a list, and then each changed row, until ctx ends.
func (o *Options) Watch(ctx context.Context, get func() (*List, error)) error {
	s, before := o.NewStream(), map[string]bool{}
	for {
		l, err := get()
		if err != nil {
			return err
		}
		changed, now := *l, map[string]bool{}
		changed.rows = nil
		for _, r := range l.rows {
			text := fmt.Sprintf("%q %q", r.name, r.cells)
			if now[text] = true; !before[text] {
				changed.rows = append(changed.rows, r)
			}
		}
		if err := s.Show(&changed); err != nil {
			return err
		}
		if before = now; !backoff.Sleep(ctx, watchEvery) {
			return ctx.Err()
		}
	}
}

// Fields shows one object in detail: its list of one row, a line for each column, with the narrow
// ones first.
func (o *Options) Fields(l *List) error {
	if !o.IsTable() {
		return o.Print(l)
	}
	w := printers.GetNewTabWriter(o.Out)
	for _, r := range l.rows {
		for i, cell := range append([]any{r.name}, r.cells...) {
			fmt.Fprintf(w, "%s:\t%s\n", l.Columns[i], Cell(cell)) // errors are returned by Flush
		}
	}
	return w.Flush()
}
