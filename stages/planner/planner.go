package planner

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// planner is a plan under construction.
type planner struct {
	target   stages.Target
	clusters []candidate // by name
	// revisions are the distinct digests of clusters, in the order of their discovery.
	revisions []string
	stages    []*openStage
	pickers   pickers // of the stages
	plan      *stages.Plan
	warnings  []string
	errs      field.ErrorList
}

// candidate is the planner's view of a cluster.
type candidate struct {
	Name, UID string
	Labels    map[string]string
	// isNew reports whether the cluster has nothing of the placement.
	isNew bool
	// isUnproven reports whether an earlier run changed the cluster and did not prove its content.
	isUnproven bool
	// revision is an index into the planner's revisions.
	revision int32
	// position is the cluster's place in the plan, or -1.
	position int32
}

// sortByName returns the clusters in the order of their names.
func sortByName(clusters []placement.Cluster) []candidate {
	out := make([]candidate, len(clusters))
	for i, at := range values.NameOrder(len(clusters), func(i int) string { return clusters[i].Name }) {
		c := &clusters[at]
		out[i] = candidate{Name: c.Name, UID: c.UID, Labels: c.Labels, position: -1}
	}
	return out
}

// warn records a warning.
func (b *planner) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

// someOf lists names for a warning: the first ten, and how many more.
func someOf(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:most], ", ") + " and " + strconv.Itoa(len(names)-most) + " more"
}

// sortedKeys returns the keys of m in order.
func sortedKeys(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}

// fail records one problem that several clusters have. One problem per cluster would make the text
// of the error quadratic in a large fleet.
func (b *planner) fail(at *field.Path, names []string, detail string) {
	if len(names) > 0 {
		b.errs = append(b.errs, field.Invalid(at, names, detail))
	}
}

// has reports whether a cluster was picked.
func (b *planner) has(name string) bool {
	_, found := slices.BinarySearchFunc(b.clusters, name, func(c candidate, name string) int {
		return cmp.Compare(c.Name, name)
	})
	return found
}

func whereOf(stage, group string) string {
	if group == "" {
		return "stage " + stage
	}
	return "group " + group + " of stage " + stage
}
