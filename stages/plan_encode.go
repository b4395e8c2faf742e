package stages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/versioned"
)

// The stored form of a plan, and its bounds.
const (
	// planFormat is the format of a header and of a page, and the newest that is read.
	planFormat = 1
	// pageRows is the maximum number of clusters, and of revisions, in a page. pageBytes is the
	// maximum size of a page.
	pageRows  = 1000
	pageBytes = 128 << 10
	// pageFrame is the maximum size of a page without its rows, in bytes.
	pageFrame = 256
)

// headerRecord is the first record of a stored plan.
type headerRecord struct {
	Format int `json:"format"`
	// Pages is the number of pages.
	Pages int `json:"pages"`
	// Warnings is the sha256 of the warnings' JSON: the plan's digest does not
	// cover them.
	Warnings string      `json:"warnings,omitempty"`
	Plan     *planFields `json:"plan"`
}

// pageRecord is one of the other records. A cluster is a string: name, index of
// the revision, cell and UID, with a space between.
type pageRecord struct {
	Format    int      `json:"format"`
	Page      int      `json:"page"`
	Revisions []string `json:"revisions,omitempty"`
	Clusters  []string `json:"clusters,omitempty"`
}

// Encode returns the plan for storage: a header, and pages of at most 1000 clusters and 128 KiB
// each, all compact JSON with a format number. The same plan gives the same bytes. The plan
// must come from planner.Plan or [DecodePlan]; DecodePlan refuses the encoding of any other
// plan.
func (p *Plan) Encode() (header []byte, pages [][]byte) {
	for _, page := range p.pages() {
		b, err := json.Marshal(page)
		if err != nil {
			return nil, nil
		}
		pages = append(pages, b)
	}
	header, err := p.encodeHeader(len(pages))
	if err != nil {
		return nil, nil
	}
	return header, pages
}

func (p *Plan) encodeHeader(pages int) ([]byte, error) {
	return json.Marshal(headerRecord{
		Format: planFormat, Pages: pages,
		Warnings: warningsSum(p.Warnings), Plan: (*planFields)(p),
	})
}

// pages returns the revisions and the clusters as rows of pages. A row that does not fit into the
// bounds of a page begins the next page.
func (p *Plan) pages() []pageRecord {
	var out []pageRecord
	used := 0 // bytes of the last page, at most
	add := func(rows func(*pageRecord) *[]string, row string) {
		size := rowBytes(row)
		if len(out) == 0 || used+size > pageBytes || len(*rows(&out[len(out)-1])) == pageRows {
			out = append(out, pageRecord{Format: planFormat, Page: len(out)})
			used = pageFrame
		}
		used += size
		list := rows(&out[len(out)-1])
		*list = append(*list, row)
	}
	for _, digest := range p.Revisions {
		add(func(page *pageRecord) *[]string { return &page.Revisions }, digest)
	}
	for i := range p.Clusters {
		add(func(page *pageRecord) *[]string { return &page.Clusters }, p.Clusters[i].row())
	}
	return out
}

// row is the cluster as a page has it.
func (c *PlannedCluster) row() string {
	b := append(append(make([]byte, 0, len(c.Name)+len(c.UID)+16), c.Name...), ' ')
	b = append(strconv.AppendInt(b, int64(c.Revision), 10), ' ')
	b = append(strconv.AppendInt(b, int64(c.Cell), 10), ' ')
	return string(append(b, c.UID...))
}

// rowBytes returns an upper bound for the length of a row as JSON, including its separator: JSON
// needs at most six bytes for a byte.
func rowBytes(row string) int {
	n := len(row) + len(`"", `)
	for i := range len(row) {
		switch c := row[i]; {
		case c == '"', c == '\\', c == '<', c == '>', c == '&', c < ' ', c > '~':
			n += 5
		}
	}
	return n
}

func warningsSum(warnings []string) string {
	if len(warnings) == 0 {
		return ""
	}
	b, _ := json.Marshal(warnings)
	return hexSum(b)
}

// DecodePlan returns the plan that [Plan.Encode] stored. It accepts exactly
// the bytes that Encode returns, pages in their order: whatever was changed,
// lost, added or moved is an error, and so is a plan that the planner could not
// have made. A record of a newer format is refused with a [versioned.FormatError].
func DecodePlan(header []byte, pages [][]byte) (*Plan, error) {
	p, err := decodeRecords(header, pages)
	if err != nil {
		return nil, err
	}
	if err := p.compare(header, pages); err != nil {
		return nil, fmt.Errorf("stored plan %s: %w", p.Digest, err)
	}
	return p, nil
}

// decodeRecords reads a plan whose JSON may be spelled in another way than Encode
// spells it.
func decodeRecords(header []byte, pages [][]byte) (*Plan, error) {
	p, err := decodeHeader(header, len(pages))
	if err != nil {
		return nil, err
	}
	for i, page := range pages {
		if err := p.decodePage(i, page); err != nil {
			return nil, err
		}
	}
	p.index()
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("stored plan %q: %w", p.Digest, err)
	}
	p.indexDomains()
	if err := p.Verify(); err != nil {
		return nil, fmt.Errorf("stored %w", err)
	}
	return p, nil
}

func decodeHeader(header []byte, pages int) (*Plan, error) {
	var h headerRecord
	if err := versioned.Decode("plan header", planFormat, header, &h); err != nil {
		return nil, err
	}
	switch {
	case h.Plan == nil:
		return nil, errors.New("plan header: has no plan")
	case h.Pages != pages:
		return nil, fmt.Errorf("plan header: has %d pages, but there are %d", h.Pages, pages)
	case h.Warnings != warningsSum(h.Plan.Warnings):
		return nil, errors.New("plan header: the warnings were changed after the plan was made")
	}
	return (*Plan)(h.Plan), nil
}

func (p *Plan) decodePage(i int, b []byte) error {
	what := "plan page " + strconv.Itoa(i)
	var page pageRecord
	if err := versioned.Decode(what, planFormat, b, &page); err != nil {
		return err
	}
	if page.Page != i {
		return fmt.Errorf("%s: is page %d", what, page.Page)
	}
	p.Revisions = append(p.Revisions, page.Revisions...)
	p.Clusters = slices.Grow(p.Clusters, len(page.Clusters))
	for j, row := range page.Clusters {
		c, err := decodeCluster(row)
		if err != nil {
			return fmt.Errorf("%s: clusters[%d]: %w", what, j, err)
		}
		p.Clusters = append(p.Clusters, c)
	}
	return nil
}

func decodeCluster(row string) (c PlannedCluster, err error) {
	name, rest, _ := strings.Cut(row, " ")
	revision, rest, _ := strings.Cut(rest, " ")
	cell, uid, ok := strings.Cut(rest, " ")
	c.Name, c.UID = name, uid
	if c.Revision, err = strconv.Atoi(revision); err == nil {
		c.Cell, err = strconv.Atoi(cell)
	}
	if !ok || err != nil {
		return PlannedCluster{}, errors.New("must be a name, the index of a revision, a cell and a UID, with a space between")
	}
	return c, nil
}

// compare encodes the plan again and compares the result, because JSON can spell the same value in
// several ways.
func (p *Plan) compare(header []byte, pages [][]byte) error {
	h, again := p.Encode()
	if !bytes.Equal(header, h) {
		return errors.New("the header was changed")
	}
	for i := range again {
		if !bytes.Equal(pages[i], again[i]) {
			return fmt.Errorf("page %d was changed", i)
		}
	}
	return nil
}

// wholePlan is the JSON of a whole plan: the records in which it is stored.
type wholePlan struct {
	Header json.RawMessage   `json:"header"`
	Pages  []json.RawMessage `json:"pages"`
}

// MarshalJSON returns the whole plan in one piece: an object of the header and
// the pages that [Plan.Encode] returns. A large plan should be stored in pieces, by Encode.
func (p Plan) MarshalJSON() ([]byte, error) {
	header, pages := p.Encode()
	f := wholePlan{Header: header, Pages: make([]json.RawMessage, len(pages))}
	for i := range pages {
		f.Pages[i] = pages[i]
	}
	return json.Marshal(f)
}

// UnmarshalJSON reads the output of MarshalJSON, also in another spelling, for example
// indented. It refuses the same plans as [DecodePlan]. On an error the plan is unchanged.
func (p *Plan) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var f wholePlan
	if err := d.Decode(&f); err != nil {
		return err
	}
	pages := make([][]byte, len(f.Pages))
	for i := range pages {
		pages[i] = f.Pages[i]
	}
	read, err := decodeRecords(f.Header, pages)
	if err != nil {
		return err
	}
	*p = *read
	return nil
}
