package stages

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// planLongestID bounds UIDs and digests, in bytes.
const planLongestID = 253

// check checks the arguments of a plan.
func (b *planner) check(s *Strategy) {
	b.errs = s.problems(field.NewPath("strategy"))
	b.checkClusters(field.NewPath("clusters"))
	b.checkTarget(field.NewPath("target"))
}

// fail records one problem that several clusters have. A problem for each
// would make the error's text quadratic in a large fleet.
func (b *planner) fail(at *field.Path, names []string, detail string) {
	if len(names) > 0 {
		b.errs = append(b.errs, field.Invalid(at, names, detail))
	}
}

func (b *planner) checkClusters(at *field.Path) {
	pieces := make([]planNames, planPieces(len(b.clusters)))
	planSplit(len(b.clusters), func(piece, from, to int) { pieces[piece] = b.checkNames(from, to) })
	var all planNames
	for _, p := range pieces {
		all.bad, all.uids, all.twice = append(all.bad, p.bad...), append(all.uids, p.uids...), append(all.twice, p.twice...)
	}
	b.fail(at.Child("name"), all.bad, "the name of a cluster must be a DNS label (RFC 1123)")
	b.fail(at.Child("uid"), all.uids, "the UID of a cluster must be printable ASCII without spaces, at most 253 bytes")
	b.fail(at.Child("name"), slices.Compact(all.twice), "a cluster must be given once")
}

// planNames are the names of clusters with a bad name, with a bad UID, and of those
// that are given more than once.
type planNames struct{ bad, uids, twice []string }

// checkNames checks the clusters between two bounds.
func (b *planner) checkNames(from, to int) (found planNames) {
	for i := from; i < to; i++ {
		c := &b.clusters[i]
		if !planIsName(c.Name) {
			found.bad = append(found.bad, c.Name)
		}
		if !planIsID(c.UID) && c.UID != "" {
			found.uids = append(found.uids, c.Name)
		}
		if b.isAgain(i) {
			found.twice = append(found.twice, c.Name)
		}
	}
	return found
}

// isAgain tells that cluster i has the name of the one before it.
func (b *planner) isAgain(i int) bool { return i > 0 && b.clusters[i-1].Name == b.clusters[i].Name }

func (b *planner) checkTarget(at *field.Path) {
	t := &b.target
	b.errs = append(b.errs, planCheckPlacement(at.Child("placement"), t.Placement)...)
	if t.Index < 0 {
		b.errs = append(b.errs, field.Invalid(at.Child("index"), t.Index, "must be at least 0"))
	}
	b.errs = append(b.errs, planCheckDigest(at.Child("snapshot"), t.Snapshot)...)
	b.errs = append(b.errs, planCheckDigest(at.Child("decision"), t.Decision)...)
	b.checkRevisions(at)
	b.checkRemove(at.Child("remove"))
}

// checkRevisions checks the revisions of the target and numbers them.
func (b *planner) checkRevisions(at *field.Path) {
	b.revisions = make([]planRevisions, planPieces(len(b.clusters)))
	planSplit(len(b.clusters), func(piece, from, to int) { b.revisions[piece] = b.number(from, to) })
	own, bad := 0, false
	var without []string
	for i := range b.revisions {
		r := &b.revisions[i]
		own += r.own
		bad = bad || slices.ContainsFunc(r.digests, func(digest string) bool { return !planIsID(digest) })
		without = append(without, r.without...)
	}
	if bad || own < len(b.target.Revision) {
		b.failRevisions(at.Child("revision"))
	}
	b.checkDefault(at.Child("default"), without)
}

// planRevisions are the revisions of a piece of the clusters.
type planRevisions struct {
	// ids are numbers in the order in which the digests are met.
	ids     map[string]int32
	digests []string
	// own is how many clusters have a revision of their own, without names the
	// others.
	own     int
	without []string
}

// id returns the number of a digest.
func (r *planRevisions) id(digest string) int32 {
	id, ok := r.ids[digest]
	if !ok {
		id = int32(len(r.digests))
		r.ids[digest] = id
		r.digests = append(r.digests, digest)
	}
	return id
}

// number numbers the revisions of the clusters between two bounds.
func (b *planner) number(from, to int) planRevisions {
	r := planRevisions{ids: map[string]int32{}}
	var asked [planBlock]planOwn
	for ; from < to; from += planBlock {
		block := b.clusters[from:min(from+planBlock, to)]
		b.target.own(block, &asked)
		for i := range block {
			switch {
			case !asked[i].is:
				asked[i].digest = b.target.Default
				r.without = append(r.without, block[i].Name)
			case !b.isAgain(from + i):
				r.own++
			}
			block[i].revision = r.id(asked[i].digest)
		}
	}
	return r
}

// planBlock is how many clusters are taken at a time where something that lies
// anywhere in memory is asked of each: asked in a row, while nothing else is
// done, many of the answers come at the same time.
const planBlock = 64

// planOwn is the revision that a target names for a cluster, if it is named.
type planOwn struct {
	digest string
	is     bool
}

// own looks up the revisions of a block of clusters.
func (t *Target) own(block []planCluster, into *[planBlock]planOwn) {
	for i := range block {
		into[i].digest, into[i].is = t.Revision[block[i].Name]
	}
}

// failRevisions reports the revisions that are no digests, and those of
// clusters that were not picked.
func (b *planner) failRevisions(at *field.Path) {
	var bad, unknown []string
	for _, name := range planKeys(b.target.Revision) {
		if !planIsID(b.target.Revision[name]) {
			bad = append(bad, name)
		}
		if !b.has(name) {
			unknown = append(unknown, name)
		}
	}
	b.fail(at, bad, "the revision of a cluster must be a digest: printable ASCII, 1 to 253 bytes")
	b.fail(at, unknown, "is not among the clusters")
}

// has tells whether a cluster was picked.
func (b *planner) has(name string) bool {
	_, found := slices.BinarySearchFunc(b.clusters, name, func(c planCluster, name string) int {
		return cmp.Compare(c.Name, name)
	})
	return found
}

// checkDefault checks the revision of the clusters that have none of their own.
func (b *planner) checkDefault(at *field.Path, without []string) {
	switch {
	case b.target.Default != "":
		b.errs = append(b.errs, planCheckDigest(at, b.target.Default)...)
	case len(without) > 0:
		b.errs = append(b.errs, field.Required(at, "there are clusters without a revision of their own: "+planSome(without)))
	}
}

func (b *planner) checkRemove(at *field.Path) {
	var bad, uids, picked []string
	for _, name := range planKeys(b.target.Remove) {
		if !planIsName(name) {
			bad = append(bad, name)
		}
		if uid := b.target.Remove[name]; uid != "" && !planIsID(uid) {
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

// planCheckPlacement tells what keeps name from being that of a placement.
func planCheckPlacement(at *field.Path, name string) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(at, "a DNS subdomain (RFC 1123), for example web")}
	}
	if len(name) > MaxPlacementName {
		errs = append(errs, field.TooLong(at, "", MaxPlacementName))
	}
	for _, msg := range validation.IsDNS1123Subdomain(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

func planCheckDigest(at *field.Path, digest string) field.ErrorList {
	switch {
	case digest == "":
		return field.ErrorList{field.Required(at, "a digest")}
	case !planIsID(digest):
		return field.ErrorList{field.Invalid(at, digest, "must be a digest: printable ASCII without spaces, at most 253 bytes")}
	default:
		return nil
	}
}

// planIsName tells whether s is a DNS label. The library's own test is a
// regular expression, which costs too much for every cluster of a large fleet.
func planIsName(s string) bool {
	if s == "" || len(s) > validation.DNS1123LabelMaxLength {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return true
}

// planIsID tells whether s can stand in a plan as a UID or a digest.
func planIsID(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= planLongestID
}
