package drift

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/drift"
)

// cut is how many characters of a value a table shows; -o wide shows all.
const cut = 40

// showTable shows what was found to people: a row for each difference, and how many objects there are.
func showTable(o *cli.Options, found results) error {
	l := &cli.List{Kind: "difference", Columns: []string{"Object", "Path", "Difference", "Hub", "Member", "By", "In"}, Narrow: 5}
	var differ, missing, same int
	for i := range found.reports {
		r := &found.reports[i]
		switch name := objectName(r); {
		case r.State == drift.Absent:
			missing++
			l.Add(name, nil, "", "missing on the member", "", "", "", "")
		case !r.Drifted():
			same++
		default:
			differ++
			if r.State == drift.Terminating {
				l.Add(name, nil, "", "being deleted on the member", "", "", "", "")
			}
			for i := range r.Differences {
				d := &r.Differences[i]
				l.Add(name, nil, pathOf(d), what(d), value(o, d.Hub), value(o, d.Member), author(d.Owner), d.AtomicPath)
			}
			if rest := r.Total - len(r.Differences); rest > 0 {
				l.Add(name, nil, "", fmt.Sprintf("and %d more that are not shown", rest), "", "", "", "")
			}
		}
		for _, w := range r.Warnings {
			o.Warn("%s: %s", cli.Printable(objectName(r)), cli.Printable(w))
		}
	}
	if l.Len() > 0 {
		if err := o.Print(l); err != nil {
			return err
		}
	}
	more := ""
	if found.unmatched > 0 {
		more = fmt.Sprintf(" Only the member's file has %d more, not compared.", found.unmatched)
	}
	return o.Said("%d of %d objects differ, %d missing, %d without differences.%s", differ+missing, len(found.reports), missing, same, more)
}

func objectName(r *drift.Report) string {
	if r.Namespace != "" {
		return r.Kind + " " + r.Namespace + "/" + r.Name
	}
	return r.Kind + " " + r.Name
}

func pathOf(d *drift.Difference) string {
	if d.KeyPath == "" {
		return d.Path
	}
	return d.KeyPath
}

// what says what a difference is.
func what(d *drift.Difference) string {
	what := map[drift.Class]string{
		drift.Changed: "changed", drift.Missing: "missing on the member", drift.Stale: "stale, the hub has it no longer",
		drift.Order: "in another order", drift.Unmanaged: "on the member only",
	}[d.Class]
	if d.Note != "" {
		what += " (" + d.Note + ")"
	}
	return what
}

// value is a value as a table shows it.
func value(o *cli.Options, v []byte) string {
	if r := []rune(string(v)); o.Output != cli.Wide && len(r) > cut {
		return string(r[:cut-3]) + "..."
	}
	return string(v)
}

// author says which manager wrote a field, how and when.
func author(o *drift.Owner) string {
	if o == nil {
		return ""
	}
	author, how := o.Manager, o.Operation
	if o.Subresource != "" {
		how = strings.TrimSpace(how + " of " + o.Subresource)
	}
	if how != "" {
		author += " (" + how + ")"
	}
	if t, err := time.Parse(time.RFC3339, o.Time); err == nil {
		author += ", " + cli.Cell(t)
	}
	return author
}
