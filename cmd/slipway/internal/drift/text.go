package drift

import (
	"cmp"
	"fmt"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/drift"
)

// element is a report for JSON and YAML: the keys of the object come first, and always.
type element struct {
	Group     string `json:"group"`
	Version   string `json:"version"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	drift.Report
}

// show prints the findings in the format of -o: for people a row for each difference, and the
// number of objects.
func show(o *cli.Options, reports []drift.Report, unmatched int) error {
	elements, differing, missing := []element{}, &cli.List{Kind: "object"}, 0
	rows := &cli.List{Kind: "difference", Columns: []string{"Object", "Path", "Difference", "Hub", "Member", "By", "In"}, Narrow: 5}
	for _, r := range reports {
		elements = append(elements, element{r.Group, r.Version, r.Kind, r.Namespace, r.Name, r})
		if r.Drifted() {
			differing.Add(r.Kind+"/"+r.Name, nil)
		}
		if r.State == drift.Absent {
			missing++
		}
		if o.IsTable() {
			addRows(o, rows, &r)
		}
	}
	switch {
	case o.IsValue():
		return o.PrintValue(elements)
	case o.Output == cli.Name:
		return o.Print(differing)
	case rows.Len() > 0:
		if err := o.Print(rows); err != nil {
			return err
		}
	}
	more := ""
	if unmatched > 0 {
		more = fmt.Sprintf(" Only the member's file has %d more, not compared.", unmatched)
	}
	n := differing.Len()
	return o.Said("%d of %d objects differ, %d missing, %d without differences.%s", n, len(reports), missing, len(reports)-n, more)
}

// addRows adds a row for each difference of an object, and reports warnings about it.
func addRows(o *cli.Options, l *cli.List, r *drift.Report) {
	name := r.Kind + " " + r.Name
	if r.Namespace != "" {
		name = r.Kind + " " + r.Namespace + "/" + r.Name
	}
	for _, w := range r.Warnings {
		o.Warn("%s: %s", name, w)
	}
	if r.State == drift.Absent {
		l.Add(name, nil, "", "missing on the member", "", "", "", "")
		return
	}
	if r.State == drift.Terminating && r.Drifted() {
		l.Add(name, nil, "", "being deleted on the member", "", "", "", "")
	}
	for _, d := range r.Differences {
		what := map[drift.Class]string{
			drift.Changed: "changed", drift.Missing: "missing on the member", drift.Stale: "stale, the hub has it no longer",
			drift.Order: "in another order", drift.Unmanaged: "on the member only",
		}[d.Class]
		if d.Note != "" {
			what += " (" + d.Note + ")"
		}
		l.Add(name, nil, cmp.Or(d.KeyPath, d.Path), what, value(o, d.Hub), value(o, d.Member), author(d.Owner), d.AtomicPath)
	}
	if rest := r.Total - len(r.Differences); rest > 0 {
		l.Add(name, nil, "", fmt.Sprintf("and %d more that are not shown", rest), "", "", "", "")
	}
}

// cut is the maximum number of characters of a value in a table; -o wide shows all.
const cut = 40

// value returns a value for a table.
func value(o *cli.Options, v []byte) string {
	if r := []rune(string(v)); o.Output != cli.Wide && len(r) > cut {
		return string(r[:cut-3]) + "..."
	}
	return string(v)
}

// author describes which manager wrote a field, how and when.
func author(o *drift.Owner) string {
	if o == nil {
		return ""
	}
	author := fmt.Sprintf("%s (%s)", o.Manager, o.Operation)
	if o.Subresource != "" {
		author = fmt.Sprintf("%s (%s of %s)", o.Manager, o.Operation, o.Subresource)
	}
	if o.Time != "" {
		author += ", " + o.Time
	}
	return author
}
