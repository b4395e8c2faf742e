package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// Stream shows rows as they come: those of a table are aligned with the ones before, and with -o json each is a line.
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

// Show shows the rows of a list. The first ones come with the heads of the columns.
func (s *Stream) Show(l *List) error {
	if len(l.rows) == 0 {
		return nil
	}
	switch s.o.Output {
	case Name:
		return s.o.Print(l)
	case Table, Wide:
		p := printers.NewTablePrinter(printers.PrintOptions{Wide: s.o.Output == Wide, NoHeaders: s.begun})
		s.begun = true
		if err := p.PrintObj(l.table(), s.table); err != nil {
			return err
		}
		return s.table.Flush()
	}
	for _, r := range l.rows {
		text, err := json.Marshal(r.value)
		if err == nil && s.o.Output == YAML {
			text, err = yaml.JSONToYAML(text)
			text = append([]byte("---\n"), text[:max(0, len(text)-1)]...)
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(s.o.Out, "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// watchEvery is how often a list that is watched is read.
const watchEvery = time.Second

// Watch shows a list, and then each row as it changes, until ctx ends.
func (o *Options) Watch(ctx context.Context, get func() (*List, error)) error {
	s, before := o.NewStream(), map[string]bool{}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
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
		before = now
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Fields shows what describes one object: its list of one row, a line for each column, with the narrow ones first.
func (o *Options) Fields(l *List) error {
	if !o.IsTable() {
		return o.Print(l)
	}
	w := printers.GetNewTabWriter(o.Out)
	for _, r := range l.rows {
		for i, head := range l.Columns {
			cell := r.name
			if i > 0 {
				cell = Cell(r.cells[i-1])
			}
			if _, err := fmt.Fprintf(w, "%s:\t%s\n", head, cell); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}
