package drift

import (
	"cmp"
	"iter"
	"slices"
)

// Group is the same differences of the same object on one or more clusters.
type Group struct {
	// Fingerprint is that of the reports.
	Fingerprint string `json:"fingerprint,omitempty"`
	// Report is that of the first of the clusters.
	Report Report `json:"report"`
	// Clusters are sorted by name.
	Clusters []string `json:"clusters"`
	// Count is how many there are.
	Count int `json:"count"`
}

// GroupReports groups reports, each with the name of its cluster, so that the
// same edit on a thousand clusters is one group. Reports without a difference are
// left out, unless the object is terminating. The group with the most clusters
// comes first, then the order is that of group, kind, namespace and name; it does
// not depend on the order of the reports.
func GroupReports(reports iter.Seq2[string, Report]) []Group {
	groups := map[groupKey]*gathered{}
	for cluster, r := range reports {
		if r.Total == 0 && r.State != Terminating {
			continue
		}
		key := groupKey{r.Group, r.Version, r.Kind, r.Namespace, r.Name, r.State, r.Fingerprint}
		g := groups[key]
		if g == nil {
			g = &gathered{first: cluster, report: r}
			groups[key] = g
		}
		if cluster < g.first {
			g.first, g.report = cluster, r
		}
		g.clusters = append(g.clusters, cluster)
	}
	out := make([]Group, 0, len(groups))
	for _, g := range groups {
		out = append(out, g.group())
	}
	slices.SortFunc(out, compareGroups)
	return out
}

// gathered is a group that is not complete yet.
type gathered struct {
	first    string
	report   Report
	clusters []string
}

func (g *gathered) group() Group {
	slices.Sort(g.clusters)
	clusters := slices.Compact(g.clusters)
	return Group{Fingerprint: g.report.Fingerprint, Report: g.report, Clusters: clusters, Count: len(clusters)}
}

type groupKey struct {
	group, version, kind, namespace, name string
	state                                 State
	fingerprint                           string
}

func compareGroups(a, b Group) int {
	x, y := &a.Report, &b.Report
	return cmp.Or(
		cmp.Compare(b.Count, a.Count),
		cmp.Compare(x.Group, y.Group), cmp.Compare(x.Kind, y.Kind),
		cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name),
		cmp.Compare(x.Version, y.Version), cmp.Compare(x.State, y.State),
		cmp.Compare(a.Fingerprint, b.Fingerprint),
	)
}
