package drift

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

const (
	// maxReportBytes limits the paths and values of one report: hostile names
	// may be as long as the object.
	maxReportBytes = 1 << 20
	// maxWarnings is the maximum number of warnings in a report, and maxWarningBytes is the
	// maximum length of each.
	maxWarnings     = 20
	maxWarningBytes = 512
)

// reportOf turns the findings of a member's object into a report.
func (m *Manifest) reportOf(member *unstructured.Unstructured, all []*compare.Finding) Report {
	r := Report{
		Group: m.group, Version: m.version, Kind: m.kind, Namespace: m.namespace, Name: m.name,
		State: Absent, Differences: []Difference{},
	}
	p := pass{m: m}
	if member != nil {
		p.live = member.Object
		r.State, r.Generation = p.observed()
	}
	kept := p.kept(all)
	r.Total = len(kept)
	r.Fingerprint = p.fingerprint(kept)
	r.Differences = p.differences(kept)
	r.Truncated = len(r.Differences) < r.Total
	if p.owners != nil {
		r.Warnings = cappedWarnings(p.owners.Warnings())
	}
	return r
}

// observed returns the state and the generation from the member's metadata.
func (p *pass) observed() (State, int64) {
	meta := metadataOf(p.live)
	generation, _ := value.Integer(meta["generation"])
	if meta["deletionTimestamp"] != nil {
		return Terminating, generation
	}
	return Present, generation
}

// kept returns the findings that are neither ignored nor duplicates, in the order of the paths,
// with secrets redacted. It reuses all, because there may be very many.
func (p *pass) kept(all []*compare.Finding) []*compare.Finding {
	kept := all[:0]
	for _, f := range all {
		t := p.trail(f.Path)
		if p.ignored(f, t) {
			continue
		}
		*f = p.m.secrets.redacted(*f, t, p.m.tree, p.live)
		kept = append(kept, f)
	}
	slices.SortFunc(kept, compareFound)
	return distinct(kept)
}

// compareFound orders findings by path, and at one path by importance.
func compareFound(a, b *compare.Finding) int {
	if c := fieldpath.Compare(a.Path, a.Side(), b.Path, b.Side()); c != 0 {
		return c
	}
	return int(a.Class) - int(b.Class)
}

// distinct removes duplicates: findings with the same path, and stale fields inside of a finding.
func distinct(sorted []*compare.Finding) []*compare.Finding {
	out := sorted[:0]
	for _, f := range sorted {
		if n := len(out); n > 0 && covered(out[n-1], f) {
			if len(out[n-1].Path) == len(f.Path) {
				out[n-1].Whole = max(out[n-1].Whole, f.Whole)
			}
			continue
		}
		out = append(out, f)
	}
	return out
}

// covered reports whether finding b adds no information to a. a comes before b in the order of
// paths.
func covered(a, b *compare.Finding) bool {
	if len(a.Path) > len(b.Path) || a.Side() != b.Side() {
		return false
	}
	for i, s := range a.Path {
		if fieldpath.CompareSteps(s, a.Side(), b.Path[i], b.Side()) != 0 {
			return false
		}
	}
	if len(a.Path) == len(b.Path) {
		return true
	}
	return a.Class == compare.Stale || b.Class == compare.Stale && a.Class == compare.Changed
}

// differences renders the first of the kept findings, within the limits.
func (p *pass) differences(kept []*compare.Finding) []Difference {
	out := make([]Difference, 0, min(len(kept), p.m.max))
	size := 0
	for i := range kept {
		if len(out) == p.m.max {
			break
		}
		f := kept[i]
		if size += nameBytes(f.Path); size > maxReportBytes {
			break
		}
		d := p.difference(f)
		if size += len(d.KeyPath) + len(d.Hub) + len(d.Member); size > maxReportBytes {
			break
		}
		out = append(out, d)
	}
	return out
}

// nameBytes returns the approximate length of the pointers of a path.
func nameBytes(path []fieldpath.Step) int {
	n := 0
	for _, s := range path {
		n += 2 * (len(s.Name) + 1)
	}
	return n
}

func (p *pass) difference(f *compare.Finding) Difference {
	v := value.Show(f.Hub, f.Member, f.InHub, f.InMember, p.m.maxValue)
	d := Difference{
		Path: fieldpath.Pointer(f.Path, f.Side()), KeyPath: fieldpath.KeyPath(f.Path), Class: classOf(f.Class),
		Hub: v.Hub, Member: v.Member, Note: f.Note,
	}
	if d.Note == "" {
		d.Note = v.Note
	}
	if f.InHub {
		if hub := p.m.tree.HubPointer(f.Path); hub != d.Path {
			d.HubPath = hub
		}
	}
	if f.Whole > 0 {
		d.AtomicPath = fieldpath.Pointer(f.Path[:f.Whole], f.Side())
	}
	if f.InMember || f.Whole > 0 {
		d.Owner = p.shownOwner(ownTrail(f, p.trail(f.Path)))
	}
	return d
}

// cappedWarnings returns the first warnings, each once and of a bearable length.
func cappedWarnings(all []string) []string {
	var out []string
	for i, w := range all {
		if len(out) == maxWarnings {
			return append(out, fmt.Sprintf("and %d more", len(all)-i))
		}
		if w = value.Printable(w, maxWarningBytes); !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// fingerprint returns the same text for the same differences, whatever the
// indexes of items, the managers and the times are.
func (p *pass) fingerprint(kept []*compare.Finding) string {
	if len(kept) == 0 {
		return ""
	}
	sums := make([][sha256.Size]byte, len(kept))
	var paths pathDigests
	for i := range kept {
		sums[i] = paths.digest(kept[i])
	}
	slices.SortFunc(sums, func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) })
	h := sha256.New()
	for _, s := range sums {
		h.Write(s[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// pathDigests computes digests of findings. It reuses the digests of levels that consecutive
// paths share, so that long names cost no more than their length.
type pathDigests struct {
	path []fieldpath.Step
	sums [][sha256.Size]byte
	buf  []byte
}

func (d *pathDigests) digest(f *compare.Finding) [sha256.Size]byte {
	d.follow(f.Path)
	d.buf = d.buf[:0]
	if n := len(f.Path); n > 0 {
		d.buf = append(d.buf, d.sums[n-1][:]...)
	}
	d.buf = append(append(d.buf, classOf(f.Class)...), 0)
	d.buf = appendSide(d.buf, f.Hub, f.InHub)
	d.buf = appendSide(d.buf, f.Member, f.InMember)
	return sha256.Sum256(d.buf)
}

func (d *pathDigests) follow(path []fieldpath.Step) {
	same := 0
	for same < min(len(path), len(d.path)) && sameStep(path[same], d.path[same]) {
		same++
	}
	d.sums = d.sums[:same]
	for _, s := range path[same:] {
		d.buf = d.buf[:0]
		if n := len(d.sums); n > 0 {
			d.buf = append(d.buf, d.sums[n-1][:]...)
		}
		d.buf = fieldpath.AppendStep(d.buf, s)
		d.sums = append(d.sums, sha256.Sum256(d.buf))
	}
	d.path = path
}

// sameStep reports whether two steps are the same level of two paths.
func sameStep(a, b fieldpath.Step) bool {
	return a.Item == b.Item && a.Name == b.Name && a.Hub == b.Hub && a.Member == b.Member
}
