package planner

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/internal/values"
)

// inputs checks the inputs of a plan: the strategy, the target and the clusters.
type inputs struct{ *planner }

// check checks the arguments of a plan.
func (b inputs) check(s *stages.Strategy) {
	b.errs = s.Problems(field.NewPath("strategy"))
	b.checkClusters(field.NewPath("clusters"))
	b.checkTarget(field.NewPath("target"))
	b.checkOnly(field.NewPath("target", "remove"), s.Removal.Only)
}

func (b inputs) checkClusters(at *field.Path) {
	var bad, uids, twice []string
	for i := range b.clusters {
		c := &b.clusters[i]
		if !values.IsName(c.Name) {
			bad = append(bad, c.Name)
		}
		if !values.IsID(c.UID) && c.UID != "" {
			uids = append(uids, c.Name)
		}
		if b.isAgain(i) {
			twice = append(twice, c.Name)
		}
	}
	b.fail(at.Child("name"), bad, "the name of a cluster must be a DNS label (RFC 1123)")
	b.fail(at.Child("uid"), uids, "the UID of a cluster must be printable ASCII without spaces, at most 253 bytes")
	b.fail(at.Child("name"), slices.Compact(twice), "a cluster must be given once")
}

// isAgain reports whether cluster i has the same name as the cluster before it.
func (b inputs) isAgain(i int) bool { return i > 0 && b.clusters[i-1].Name == b.clusters[i].Name }

func (b inputs) checkTarget(at *field.Path) {
	t := &b.target
	b.errs = append(b.errs, values.CheckPlacement(at.Child("placement"), t.Placement, stages.MaxPlacementName)...)
	if t.Index < 0 {
		b.errs = append(b.errs, field.Invalid(at.Child("index"), t.Index, "must be at least 0"))
	}
	b.errs = append(b.errs, checkDigest(at.Child("snapshot"), t.Snapshot)...)
	b.errs = append(b.errs, checkDigest(at.Child("selection"), t.Selection)...)
	b.checkRevisions(at)
	b.checkRemove(at.Child("remove"))
	b.checkLeft(at.Child("left"))
	b.checkMarks(at.Child("new"), b.target.New, func(c *candidate) { c.isNew = true })
	b.checkMarks(at.Child("unproven"), b.target.Unproven, func(c *candidate) { c.isUnproven = true })
}

func (b inputs) checkLeft(at *field.Path) {
	if n := len(b.target.Left); n > stages.MaxLeft {
		b.errs = append(b.errs, field.TooMany(at, n, stages.MaxLeft))
	}
	var bad, twice, there []string
	names := slices.Sorted(slices.Values(b.target.Left))
	for i, name := range names {
		_, removed := b.target.Remove[name]
		switch {
		case !values.IsName(name):
			bad = append(bad, name)
		case removed || b.has(name):
			there = append(there, name)
		case i > 0 && names[i-1] == name:
			twice = append(twice, name)
		}
	}
	b.fail(at, bad, "the name of a cluster must be a DNS label (RFC 1123)")
	b.fail(at, twice, "a cluster must be given once")
	b.fail(at, there, "a cluster that has left cannot be updated or removed too")
}

// checkRevisions checks the revisions of the target and numbers them.
func (b inputs) checkRevisions(at *field.Path) {
	own := 0
	var without []string
	ids := map[string]int32{}
	for i := range b.clusters {
		c := &b.clusters[i]
		digest, named := b.target.Revision[c.Name]
		switch {
		case !named:
			digest = b.target.Default
			without = append(without, c.Name)
		case !b.isAgain(i):
			own++
		}
		id, known := ids[digest]
		if !known {
			id = int32(len(b.revisions))
			ids[digest] = id
			b.revisions = append(b.revisions, digest)
		}
		c.revision = id
	}
	bad := slices.ContainsFunc(b.revisions, func(digest string) bool { return !values.IsID(digest) })
	if bad || own < len(b.target.Revision) {
		b.failRevisions(at.Child("revision"))
	}
	b.checkDefault(at.Child("default"), without)
}

// failRevisions reports revisions that are no digests, and revisions of clusters that were not
// picked.
func (b inputs) failRevisions(at *field.Path) {
	var bad, unknown []string
	for _, name := range sortedKeys(b.target.Revision) {
		if !values.IsID(b.target.Revision[name]) {
			bad = append(bad, name)
		}
		if !b.has(name) {
			unknown = append(unknown, name)
		}
	}
	b.fail(at, bad, "the revision of a cluster must be a digest: printable ASCII, 1 to 253 bytes")
	b.fail(at, unknown, "is not among the clusters")
}

// checkDefault checks the revision of the clusters that have no revision of their own.
func (b inputs) checkDefault(at *field.Path, without []string) {
	switch {
	case b.target.Default != "":
		b.errs = append(b.errs, checkDigest(at, b.target.Default)...)
	case len(without) > 0:
		b.errs = append(b.errs, field.Required(at, "there are clusters without a revision of their own: "+someOf(without)))
	}
}

func (b inputs) checkRemove(at *field.Path) {
	var bad, uids, picked []string
	for _, name := range sortedKeys(b.target.Remove) {
		if !values.IsName(name) {
			bad = append(bad, name)
		}
		if uid := b.target.Remove[name]; uid != "" && !values.IsID(uid) {
			uids = append(uids, name)
		}
		if b.has(name) {
			picked = append(picked, name)
		}
	}
	b.fail(at, bad, "the name of a cluster must be a DNS label (RFC 1123)")
	b.fail(at, uids, "the UID of a cluster must be printable ASCII without spaces, at most 253 bytes")
	b.fail(at, picked, "a cluster that is picked cannot be removed too")
}

// checkOnly reports a strategy with removal.only if other clusters would be cleaned, or any would
// be updated.
func (b inputs) checkOnly(at *field.Path, only []string) {
	if len(only) == 0 {
		return
	}
	var others []string
	for _, name := range sortedKeys(b.target.Remove) {
		if !slices.Contains(only, name) {
			others = append(others, name)
		}
	}
	b.fail(at, others, "the strategy cleans the clusters of removal.only and no others")
	if len(b.clusters) > 0 {
		b.errs = append(b.errs, field.Forbidden(at, "the strategy has removal.only, so that it updates no cluster"))
	}
}

// checkMarks checks the names of the marked clusters and marks the candidates.
func (b inputs) checkMarks(at *field.Path, marked map[string]bool, mark func(*candidate)) {
	if len(marked) == 0 {
		return
	}
	known := 0
	for i := range b.clusters {
		is, named := marked[b.clusters[i].Name]
		if is {
			mark(&b.clusters[i])
		}
		if named && !b.isAgain(i) {
			known++
		}
	}
	if known == len(marked) {
		return
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(marked)) {
		if !b.has(name) {
			unknown = append(unknown, name)
		}
	}
	b.fail(at, unknown, "is not among the clusters")
}

func checkDigest(at *field.Path, digest string) field.ErrorList {
	switch {
	case digest == "":
		return field.ErrorList{field.Required(at, "a digest")}
	case !values.IsID(digest):
		return field.ErrorList{field.Invalid(at, digest, "must be a digest: printable ASCII without spaces, at most 253 bytes")}
	default:
		return nil
	}
}
