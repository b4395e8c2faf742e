package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// unit is the unit of a row's samples.
type unit int

const (
	seconds unit = iota
	requestsPerMinute
	mebibytes
	// failures counts failures: each sample is 1 for a failure, otherwise 0.
	failures
)

// row is a line of the table.
type row struct {
	name string
	unit unit
	// atMost is the limit for a median of Slipway; 0 is no limit.
	atMost float64
	// reason explains why the peer may be better here; if it is empty, the peer must not be.
	reason string
}

// table has the samples of each system by row. Less is better in all of them.
type table struct {
	rows    []row
	systems []string
	samples map[string]map[string][]float64 // by system and row
}

func (t *table) add(system, row string, sample float64) {
	if t.samples == nil {
		t.samples = map[string]map[string][]float64{}
	}
	if t.samples[system] == nil {
		t.samples[system] = map[string][]float64{}
	}
	t.samples[system][row] = append(t.samples[system][row], sample)
}

func (t *table) took(system, row string, d time.Duration) { t.add(system, row, d.Seconds()) }

// print writes the table as Markdown. The error names the rows in which Slipway, the last system,
// exceeds its limit.
func (t *table) print(w io.Writer) error {
	fmt.Fprintf(w, "| | %s |\n|---%s|\n", strings.Join(t.systems, " | "), strings.Repeat("|---", len(t.systems)))
	var missed []error
	var notes []string
	for i := range t.rows {
		r := &t.rows[i]
		cells := []string{r.name}
		for _, system := range t.systems {
			cells = append(cells, r.cell(t.samples[system][r.name]))
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
		if err := t.missed(r); err != nil {
			missed = append(missed, err)
		} else if r.center(t.ours(r)) > r.center(t.theirs(r)) {
			notes = append(notes, fmt.Sprintf("%s is better in %q: %s.", t.systems[0], r.name, r.reason))
		}
	}
	for _, note := range notes {
		fmt.Fprintf(w, "\n%s\n", note)
	}
	return errors.Join(missed...)
}

func (t *table) theirs(r *row) []float64 { return t.samples[t.systems[0]][r.name] }
func (t *table) ours(r *row) []float64   { return t.samples[t.systems[len(t.systems)-1]][r.name] }

func (t *table) missed(r *row) error {
	theirs, ours := t.theirs(r), t.ours(r)
	switch {
	case len(theirs) == 0 || len(ours) == 0:
		return fmt.Errorf("%s: not measured", r.name)
	case r.atMost > 0 && r.center(ours) > r.atMost:
		return fmt.Errorf("%s: %.0f, which is more than %.0f", r.name, r.center(ours), r.atMost)
	case r.center(ours) > r.center(theirs) && r.reason == "":
		return fmt.Errorf("%s: %s is better", r.name, t.systems[0])
	}
	return nil
}

// center returns the median of samples, or their sum if they are failures.
func (r *row) center(samples []float64) float64 {
	if r.unit == failures {
		var sum float64
		for _, s := range samples {
			sum += s
		}
		return sum
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (r *row) cell(samples []float64) string {
	switch {
	case len(samples) == 0:
		return "-"
	case r.unit == failures:
		return fmt.Sprintf("%.0f of %d", r.center(samples), len(samples))
	case len(samples) == 1:
		return r.value(samples[0])
	}
	return fmt.Sprintf("%s (%s to %s)", r.value(r.center(samples)), r.value(slices.Min(samples)), r.value(slices.Max(samples)))
}

func (r *row) value(v float64) string {
	switch {
	case r.unit == mebibytes:
		return fmt.Sprintf("%.0f MiB", v)
	case r.unit != seconds:
		return fmt.Sprintf("%.0f", v)
	case v < 0.9995:
		return fmt.Sprintf("%.0f ms", v*1000)
	case v < 9.95:
		return fmt.Sprintf("%.1f s", v)
	default:
		return fmt.Sprintf("%.0f s", v)
	}
}
