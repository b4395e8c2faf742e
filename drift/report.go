package drift

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/drift/internal/compare"
	"github.com/slipway-dev/slipway/drift/internal/fieldpath"
	"github.com/slipway-dev/slipway/drift/internal/ownership"
	"github.com/slipway-dev/slipway/drift/internal/value"
)

// differences renders the first of what is kept, as far as the limits allow.
func (p *pass) differences(kept []*compare.Finding) []Difference {
	out := make([]Difference, 0, min(len(kept), p.o.max))
	size := 0
	for i := range kept {
		if len(out) == p.o.max {
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

// nameBytes is how long the pointers of a path are about.
func nameBytes(path []fieldpath.Step) int {
	n := 0
	for _, s := range path {
		n += 2 * (len(s.Name) + 1)
	}
	return n
}

func (p *pass) difference(f *compare.Finding) Difference {
	v := value.Show(f.Hub, f.Member, f.InHub, f.InMember, p.o.maxValue)
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

// shownOwner returns the manager that wrote the member's value, nil if it is unknown.
func (p *pass) shownOwner(t fieldpath.Trail) *Owner {
	e, ok := p.owner(t)
	if !ok {
		return nil
	}
	return ownerOf(e)
}

func ownerOf(e ownership.Entry) *Owner {
	return &Owner{
		Manager: value.Printable(e.Manager, maxManager), Operation: value.Printable(e.Operation, maxManager),
		Subresource: value.Printable(e.Subresource, maxManager), Time: value.Printable(e.Time, maxManager),
	}
}

// maxManager is how long servers let the name of a manager be.
const maxManager = 128

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

// pathDigests makes digests of what was found. Those of the levels that a path has in
// common with the one before are made once, so that long names cost no more than
// their length.
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

func appendSide(b []byte, v any, has bool) []byte {
	if has {
		b = value.AppendCanonical(b, v)
	}
	return append(b, 0)
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
