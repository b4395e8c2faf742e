package stages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// The stored form of a plan, and its bounds.
const (
	// planHeaderFormat is the newest format of a header. Plans that use nothing
	// that came with it are stored in format 1 for ever.
	planHeaderFormat = 3
	// planPageFormat is the newest format of a page: format 2, of plans with failure
	// domains, has the cells of the clusters.
	planPageFormat = 2
	// planPageRows is how many clusters, and how many revisions, a page has at
	// most, planPageBytes how long it is at most.
	planPageRows  = 1000
	planPageBytes = 128 << 10
)

// planHeader is the first record of a stored plan.
type planHeader struct {
	Format int `json:"format"`
	// Pages is how many pages there are.
	Pages int `json:"pages"`
	// Warnings is the sha256 of the warnings' JSON: the plan's digest does not
	// cover them.
	Warnings string `json:"warnings,omitempty"`
	Plan     *Plan  `json:"plan"`
}

// planPage is one of the other records. A cluster is a string: name, index of
// the revision and UID, with a space between; in format 2 its cell is before the
// UID.
type planPage struct {
	Format    int      `json:"format"`
	Page      int      `json:"page"`
	Revisions []string `json:"revisions,omitempty"`
	Clusters  []string `json:"clusters,omitempty"`
}

// Encode returns the plan for storage: a header, and pages of at most 1000
// clusters and 128 KiB each, all compact JSON with a format number. The same
// plan gives the same bytes. The plan must be one from [NewPlan] or
// [DecodePlan]; what is returned for another one, DecodePlan refuses.
func (p *Plan) Encode() (header []byte, pages [][]byte) {
	n := p.eachPage(func(b []byte) { pages = append(pages, bytes.Clone(b)) })
	header, err := p.encodeHeader(n)
	if err != nil {
		return nil, nil
	}
	return header, pages
}

func (p *Plan) encodeHeader(pages int) ([]byte, error) {
	return json.Marshal(planHeader{
		Format: p.format(), Pages: pages,
		Warnings: planWarningsSum(p.Warnings), Plan: p,
	})
}

// format is the lowest in which the plan can be read: format 2 has gates of
// groups, scheduled starts, strict budgets and names of tasks, format 3 has
// rollbacks, failure domains, caps and what only workflows have.
func (p *Plan) format() int {
	if p.Rollback != nil || p.Strategy.Rollback != nil || p.Strategy.isCapped() || p.Strategy.flows() {
		return 3
	}
	tasks := slices.Concat(p.Strategy.Removal.Before, p.Strategy.Removal.After)
	for i := range p.Strategy.Stages {
		tasks = slices.Concat(tasks, p.Strategy.Stages[i].Before, p.Strategy.Stages[i].After)
	}
	isNew := func(t Task) bool { return t.Schedule != nil || t.DisplayName != "" }
	if slices.ContainsFunc(tasks, isNew) || slices.ContainsFunc(p.Stages, PlannedStage.isNew) {
		return 2
	}
	return 1
}

// isNew tells that the stage has what format 1 does not.
func (s PlannedStage) isNew() bool {
	scheduled := func(g PlannedGate) bool { return g.Schedule != nil }
	return s.Strict || slices.ContainsFunc(s.Gates, scheduled) || slices.ContainsFunc(s.Groups, func(g PlannedGroup) bool {
		return g.Strict || len(g.Gates) > 0
	})
}

// eachPage calls do with every page, which is do's until it returns, and
// returns how many there are.
func (p *Plan) eachPage(do func([]byte)) int {
	w := planPager{do: do, format: p.pageFormat()}
	for _, digest := range p.Revisions {
		w.revision(digest)
	}
	for i := range p.Clusters {
		w.cluster(&p.Clusters[i])
	}
	w.flush()
	return w.pages
}

func planWarningsSum(warnings []string) string {
	if len(warnings) == 0 {
		return ""
	}
	b, _ := json.Marshal(warnings)
	return planTextSum(b)
}

// DecodePlan returns the plan that [Plan.Encode] stored. It accepts exactly
// the bytes that Encode returns, pages in their order: whatever was changed,
// lost, added or moved is an error, and so is a plan that NewPlan could not
// have made. A record of a newer format is refused with a [FormatError].
func DecodePlan(header []byte, pages [][]byte) (*Plan, error) {
	p, err := planDecodeHeader(header, len(pages))
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
	if err := p.compare(header, pages); err != nil {
		return nil, fmt.Errorf("stored plan %s: %w", p.Digest, err)
	}
	return p, nil
}

func planDecodeHeader(header []byte, pages int) (*Plan, error) {
	const record = "plan header"
	var h planHeader
	if err := planDecodeRecord(record, planHeaderFormat, header, &h); err != nil {
		return nil, err
	}
	switch {
	case h.Plan == nil:
		return nil, errors.New("plan header: has no plan")
	case h.Pages != pages:
		return nil, fmt.Errorf("plan header: has %d pages, but there are %d", h.Pages, pages)
	case h.Warnings != planWarningsSum(h.Plan.Warnings):
		return nil, errors.New("plan header: the warnings were changed after the plan was made")
	}
	return h.Plan, nil
}

func (p *Plan) decodePage(i int, b []byte) error {
	record := "plan page " + strconv.Itoa(i)
	page, ok := planScanPage(p.pageFormat(), i, string(b))
	if !ok {
		if err := planDecodeRecord(record, planPageFormat, b, &page); err != nil {
			return err
		}
	}
	if page.Page != i {
		return fmt.Errorf("%s: is page %d", record, page.Page)
	}
	p.Revisions = append(p.Revisions, page.Revisions...)
	p.Clusters = slices.Grow(p.Clusters, len(page.Clusters))
	for j, row := range page.Clusters {
		c, err := planDecodeCluster(page.Format, row)
		if err != nil {
			return fmt.Errorf("%s: clusters[%d]: %w", record, j, err)
		}
		p.Clusters = append(p.Clusters, c)
	}
	return nil
}

func planDecodeCluster(format int, row string) (c PlannedCluster, err error) {
	name, rest, _ := strings.Cut(row, " ")
	number, uid, ok := strings.Cut(rest, " ")
	c.Revision, err = strconv.Atoi(number)
	if format > 1 && ok && err == nil {
		number, uid, ok = strings.Cut(uid, " ")
		c.Cell, err = strconv.Atoi(number)
	}
	if !ok || err != nil {
		return PlannedCluster{}, errors.New("must be a name, the index of a revision, in format 2 a cell, and a UID, with a space between")
	}
	c.Name, c.UID = name, uid
	return c, nil
}

// pageFormat is the format of the plan's pages.
func (p *Plan) pageFormat() int {
	if p.hasDomains() {
		return 2
	}
	return 1
}

// planDecodeRecord reads one JSON value strictly, once its format is known.
func planDecodeRecord(record string, newest int, b []byte, into any) error {
	var probe struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(b, &probe); err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	if err := planFormat(record, probe.Format, newest); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: has something behind its end", record)
	}
	return nil
}

// compare encodes the plan again: JSON has several spellings of the same.
func (p *Plan) compare(header []byte, pages [][]byte) error {
	n, first := 0, -1
	n = p.eachPage(func(b []byte) {
		if first < 0 && (n >= len(pages) || !bytes.Equal(pages[n], b)) {
			first = n
		}
		n++
	})
	h, err := p.encodeHeader(n)
	switch {
	case err != nil || !bytes.Equal(header, h):
		return errors.New("the header is not as it was written")
	case first >= 0:
		return fmt.Errorf("page %d is not as it was written", first)
	case n != len(pages):
		return fmt.Errorf("has %d pages instead of %d", len(pages), n)
	}
	return nil
}
