package drift

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/slipway-dev/slipway/drift/internal/ownership"
)

// differences renders the first of what is kept, as far as the limits allow.
func (p *pass) differences(kept []*found) []Difference {
	out := make([]Difference, 0, min(len(kept), p.o.max))
	size := 0
	for i := range kept {
		if len(out) == p.o.max {
			break
		}
		f := kept[i]
		if size += nameBytes(f.path); size > maxReportBytes {
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
func nameBytes(path []step) int {
	n := 0
	for _, s := range path {
		n += 2 * (len(s.name) + 1)
	}
	return n
}

func (p *pass) difference(f *found) Difference {
	v := show(f.hub, f.member, f.inHub, f.inMember, p.o.maxValue)
	d := Difference{
		Path: pointerTo(f.path, f.side()), KeyPath: keyPath(f.path), Class: f.class,
		Hub: v.hub, Member: v.member, Note: f.note,
	}
	if d.Note == "" {
		d.Note = v.note
	}
	if f.inHub {
		if hub := p.m.hubPointer(f.path); hub != d.Path {
			d.HubPath = hub
		}
	}
	if f.inMember {
		d.Owner = p.shownOwner(p.trail(f.path))
	}
	return d
}

// shownOwner returns who wrote what the member has, nil where that is not known.
func (p *pass) shownOwner(t trail) *Owner {
	e, ok := p.owner(t)
	if !ok {
		return nil
	}
	return ownerOf(e)
}

func ownerOf(e ownership.Entry) *Owner {
	return &Owner{
		Manager: printable(e.Manager, maxManager), Operation: printable(e.Operation, maxManager),
		Subresource: printable(e.Subresource, maxManager), Time: printable(e.Time, maxManager),
	}
}

// maxManager is how long servers let the name of a manager be.
const maxManager = 128

// printable returns a text that a member made up, without what steers a terminal
// and of at most limit bytes.
func printable(s string, limit int) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return '.'
	}, cut(s, limit))
}

// cappedWarnings returns the first warnings, each once and of a bearable length.
func cappedWarnings(all []string) []string {
	var out []string
	for i, w := range all {
		if len(out) == maxWarnings {
			return append(out, fmt.Sprintf("and %d more", len(all)-i))
		}
		if w = printable(w, maxWarningBytes); !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// fingerprint returns the same text for the same differences, whatever the
// indexes of items, the managers and the times are.
func (p *pass) fingerprint(kept []*found) string {
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
	path []step
	sums [][sha256.Size]byte
	buf  []byte
}

func (d *pathDigests) digest(f *found) [sha256.Size]byte {
	d.follow(f.path)
	d.buf = d.buf[:0]
	if n := len(f.path); n > 0 {
		d.buf = append(d.buf, d.sums[n-1][:]...)
	}
	d.buf = append(append(d.buf, f.class...), 0)
	d.buf = appendSide(d.buf, f.hub, f.inHub)
	d.buf = appendSide(d.buf, f.member, f.inMember)
	return sha256.Sum256(d.buf)
}

func appendSide(b []byte, v any, has bool) []byte {
	if has {
		b = appendDigestible(b, v)
	}
	return append(b, 0)
}

func (d *pathDigests) follow(path []step) {
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
		d.buf = appendStep(d.buf, s)
		d.sums = append(d.sums, sha256.Sum256(d.buf))
	}
	d.path = path
}

// sameStep tells whether two steps are the same level of two paths.
func sameStep(a, b step) bool {
	return a.item == b.item && a.name == b.name && a.hub == b.hub && a.member == b.member
}
