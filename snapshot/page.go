package snapshot

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	"github.com/slipway-dev/slipway/versioned"
)

const (
	// Format is the version of encoded pages and roots that this package writes, and the newest that
	// it reads, except for roots with Unplaced objects. Roots with Unplaced objects have newer
	// formats. Otherwise an older program would apply the other objects of the set and report the set
	// as complete.
	Format = 1

	// unnamedFormat is the format of roots with objects that lack a name, reasonsFormat of roots
	// with objects that are not placed for another reason.
	unnamedFormat = 2
	reasonsFormat = 3

	// maxPageItems limits a page; pageMask makes one of 64 names the last of its page.
	maxPageItems = 256
	pageMask     = 1<<6 - 1
)

// Page is a run of a set's items, stored under its digest.
type Page struct {
	// Digest is the sha256 of the encoded page, in hex.
	Digest string
	// Items has 1 to 256 items in the order of the set.
	Items []Item
}

// Root names the pages of a set, in order. The digest of the encoded root is the digest of the
// set.
type Root struct {
	Format int `json:"format"`
	// Objects is the number of items in all pages.
	Objects int      `json:"objects"`
	Pages   []string `json:"pages"`
	// Unplaced are the Unplaced objects of the set, ascending.
	Unplaced []Unplaced `json:"unnamed,omitempty"`
}

// Pages cuts the items into pages. A page ends after an item whose name hashes to a multiple of 64,
// or after 256 items. So if an item is changed, added or removed, its own page changes and rarely
// the next page, but no page after that.
func (s Set) Pages() []Page {
	var pages []Page
	for from, i := 0, 0; i < len(s.Items); i++ {
		if i+1 == len(s.Items) || i+1-from == maxPageItems || endsPage(s.Items[i].ID) {
			p := Page{Items: s.Items[from : i+1 : i+1]}
			p.Digest = Digest(p.Encode())
			pages, from = append(pages, p), i+1
		}
	}
	return pages
}

// endsPage depends on the name alone, never on the items before or after.
func endsPage(id ID) bool {
	var buf [256]byte
	sum := sha256.Sum256(appendFields(buf[:0], id.Group, id.Version, id.Kind, id.Namespace, id.Name))
	return sum[len(sum)-1]&pageMask == 0
}

// appendFields appends each field with its length before it, so that two different lists of
// fields never give the same bytes.
func appendFields(b []byte, fields ...string) []byte {
	for _, f := range fields {
		b = append(strconv.AppendInt(b, int64(len(f)), 10), ':')
		b = append(b, f...)
	}
	return b
}

// Root returns the root of the set.
func (s Set) Root() Root {
	r := Root{Format: Format, Objects: len(s.Items), Pages: []string{}, Unplaced: s.Unplaced}
	r.Format = r.formatOfUnplaced()
	for _, p := range s.Pages() {
		r.Pages = append(r.Pages, p.Digest)
	}
	return r
}

// Encode returns the page as JSON. The same items always give the same bytes.
func (p Page) Encode() []byte {
	b := make([]byte, 0, 32+len(p.Items)*208)
	b = strconv.AppendInt(append(b, `{"format":`...), Format, 10)
	b = append(b, `,"items":[`...)
	for i, item := range p.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendItem(b, item)
	}
	return append(b, "]}"...)
}

// appendItem writes an item as JSON, by its tags.
func appendItem(b []byte, item Item) []byte {
	return append(appendString(append(appendID(b, item.ID), `,"digest":`...), item.Digest), '}')
}

// appendID writes an ID as JSON, by its tags, without the closing brace.
func appendID(b []byte, id ID) []byte {
	next := byte('{')
	for _, f := range [...]struct{ key, value string }{
		{"group", id.Group}, {"version", id.Version}, {"kind", id.Kind}, {"namespace", id.Namespace}, {"name", id.Name},
	} {
		if f.value == "" && (f.key == "group" || f.key == "namespace") {
			continue
		}
		b = append(append(append(b, next, '"'), f.key...), `":`...)
		b, next = appendString(b, f.value), ','
	}
	return b
}

// formatOfUnplaced returns the format of a root with these Unplaced objects.
func (r Root) formatOfUnplaced() int {
	switch {
	case len(r.Unplaced) == 0:
		return Format
	case slices.ContainsFunc(r.Unplaced, func(u Unplaced) bool { return u.Reason != NoName }):
		return reasonsFormat
	}
	return unnamedFormat
}

// appendUnplaced writes an object that is not placed as JSON, by its tags.
func appendUnplaced(b []byte, u Unplaced) []byte {
	b = appendID(b, u.ID)
	if u.GenerateName != "" {
		b = appendString(append(b, `,"generateName":`...), u.GenerateName)
	}
	if u.Reason != "" {
		b = appendString(append(b, `,"reason":`...), string(u.Reason))
	}
	b = append(appendID(append(b, `,"envelope":`...), u.Envelope), '}')
	if u.First != nil {
		b = append(appendID(append(b, `,"first":`...), *u.First), '}')
	}
	return append(b, '}')
}

// DecodePage reads an encoded page. It fills in Digest from the bytes, and the caller must
// compare it with the root, or check the bytes with [Verify] before. A page that [Page.Encode]
// would write differently is refused: unknown, missing or repeated fields, too many items, or
// items that are unnamed, out of order or without a digest. A newer format is a
// [*versioned.FormatError].
func DecodePage(body []byte) (Page, error) {
	var doc struct {
		Format int    `json:"format"`
		Items  []Item `json:"items"`
	}
	if err := versioned.Decode("snapshot page", Format, body, &doc); err != nil {
		return Page{}, err
	}
	p := Page{Digest: Digest(body), Items: doc.Items}
	if err := checkItems(p.Items); err != nil {
		return Page{}, fmt.Errorf("snapshot: page: %w", err)
	}
	return p, sameBytes("page", p.Encode(), body)
}

func checkItems(items []Item) error {
	if len(items) == 0 || len(items) > maxPageItems {
		return fmt.Errorf("items: there are %d, want 1 to %d", len(items), maxPageItems)
	}
	for i, item := range items {
		if err := item.check(); err != nil {
			return fmt.Errorf("items[%d]: %s: %w", i, item.ID, err)
		}
		if !isDigest(item.Digest) {
			return fmt.Errorf("items[%d]: %s: digest must be a sha256 in lower-case hex", i, item.ID)
		}
		if i > 0 && items[i-1].object().Compare(item.object()) >= 0 {
			return fmt.Errorf("items[%d]: %s must not come after %s", i, item.ID, items[i-1].ID)
		}
	}
	return nil
}

// Encode returns the root as JSON. Equal roots give the same bytes.
func (r Root) Encode() []byte {
	b := strconv.AppendInt([]byte(`{"format":`), int64(r.Format), 10)
	b = strconv.AppendInt(append(b, `,"objects":`...), int64(r.Objects), 10)
	b = append(b, `,"pages":[`...)
	for i, page := range r.Pages {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, page)
	}
	b = append(b, ']')
	for i, u := range r.Unplaced {
		b = appendUnplaced(append(b, []string{`,"unnamed":[`, ","}[min(i, 1)]...), u)
	}
	if len(r.Unplaced) > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

// DecodeRoot reads an encoded root. The caller must check the bytes against the digest of the set
// with [Verify] before. A root that [Root.Encode] would write differently, or with impossible
// counts, is refused. A newer format is a [*versioned.FormatError].
func DecodeRoot(body []byte) (Root, error) {
	var r Root
	if err := versioned.Decode("snapshot root", reasonsFormat, body, &r); err != nil {
		return Root{}, err
	}
	if err := r.checkUnplaced(); err != nil {
		return Root{}, fmt.Errorf("snapshot: root: %w", err)
	}
	if least, most := len(r.Pages), len(r.Pages)*maxPageItems; r.Objects < least || r.Objects > most {
		return Root{}, fmt.Errorf("snapshot: root: objects: %d cannot be on %d pages, want %d to %d", r.Objects, len(r.Pages), least, most)
	}
	if i := slices.IndexFunc(r.Pages, func(p string) bool { return !isDigest(p) }); i >= 0 {
		return Root{}, fmt.Errorf("snapshot: root: pages[%d] must be a sha256 in lower-case hex", i)
	}
	return r, sameBytes("root", r.Encode(), body)
}

// checkUnplaced returns an error if the objects that are not placed are inconsistent.
func (r Root) checkUnplaced() error {
	if r.Format != r.formatOfUnplaced() || len(r.Unplaced) > MaxUnplaced {
		return fmt.Errorf("unnamed: there are %d in format %d, want at most %d, and none in format %d, those without names in format %d, others in format %d",
			len(r.Unplaced), r.Format, MaxUnplaced, Format, unnamedFormat, reasonsFormat)
	}
	for i, u := range r.Unplaced {
		if err := cmp.Or(u.checkKind(), u.Envelope.check()); err != nil {
			return fmt.Errorf("unnamed[%d]: %w", i, err)
		}
		if !u.valid() || i > 0 && r.Unplaced[i-1].compare(u) > 0 {
			return fmt.Errorf("unnamed[%d]: must have a generateName and no name, or a known reason, and stand after the ones before it", i)
		}
	}
	return nil
}

// sameBytes refuses a document that differs from the form that this package writes.
func sameBytes(document string, want, got []byte) error {
	if !bytes.Equal(want, got) {
		return fmt.Errorf("snapshot: %s: not in the form it is written in: a field is repeated, in another order or spaced", document)
	}
	return nil
}
