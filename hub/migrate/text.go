package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/hub/internal/api"
)

// String returns the plan as text for people.
func (p *Plan) String() string {
	var b strings.Builder
	for _, one := range p.Placements {
		one.writeText(&b)
	}
	for _, one := range p.Members {
		fmt.Fprintf(&b, "Member %s: ", one.Name)
		if one.Error != "" {
			fmt.Fprintf(&b, "%s\n", one.Error)
			continue
		}
		fmt.Fprintf(&b, "%d objects of %d AppliedWorks\n", one.Objects, one.AppliedWorks)
	}
	for _, one := range p.Runs {
		fmt.Fprintf(&b, "%s of %s: %s %s\n", one, one.Placement, one.State, one.Reason)
	}
	for _, one := range p.Agents {
		fmt.Fprintf(&b, "Agent on %s\n", one)
	}
	writeList(&b, "Removed from the hub by a take-over, once it is in the backup", p.removed())
	writeList(&b, "To be known", p.Notes)
	writeList(&b, "To be done first", p.Blockers)
	if len(p.Blockers) == 0 {
		fmt.Fprintf(&b, "\nNothing is in the way of a take-over.\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func (p *Placement) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "%s %s: ", p.Kind, keyName(api.Key{Namespace: p.Namespace, Name: p.Name}))
	switch {
	case p.Refused != "":
		fmt.Fprintf(b, "refused: %s\n", p.Refused)
	default:
		fmt.Fprintf(b, "%s, snapshot %s\n", p.Strategy, cmp.Or(p.Snapshot, "none"))
	}
	for _, c := range p.Clusters {
		fmt.Fprintf(b, "  %s: %s %s\n", c.Name, cmp.Or(c.State, "no binding"), c.Snapshot)
		for _, work := range c.Works {
			applied, available := cmp.Or(work.Applied, "Unknown"), cmp.Or(work.Available, "Unknown")
			fmt.Fprintf(b, "    Work %s: %d objects, Applied %s, Available %s\n", work.Name, work.Objects, applied, available)
		}
		for _, d := range c.Differences {
			fmt.Fprintf(b, "    %s\n", d)
		}
	}
}

func (p *Plan) removed() (out []string) {
	for _, resource := range slices.Sorted(maps.Keys(p.Removed)) {
		out = append(out, fmt.Sprintf("%d %s", p.Removed[resource], resource))
	}
	return out
}

func writeList(b *strings.Builder, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", title)
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(line, "\n", "\n    "))
	}
}
