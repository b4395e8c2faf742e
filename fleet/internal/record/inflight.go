package record

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages/step"
)

// inFlightPerPage is the number of slots in a page. It is small, so that a change of one cluster
// rewrites little, however many are in flight.
const inFlightPerPage = 8

// InFlightHere is the maximum number of slots that the run's record itself holds. Up to this
// number, a further record would cost more than the slots add to the record.
const InFlightHere = 32

// InFlight is the part of a run's record that holds or locates its clusters in flight.
type InFlight struct {
	// Here are the slots themselves, if there are at most InFlightHere.
	Here []runstate.InFlight `json:"here,omitempty"`
	// Pages are the names of the pages, without their common prefix. An empty name stands for a
	// page without clusters.
	Pages []string `json:"pages,omitempty"`
	// Unsuccessful and Waiting are the names of the pages of the lists Unsuccessful and Waiting of
	// the run, if these are long: see listPages.
	Unsuccessful []string `json:"unsuccessful,omitempty"`
	Waiting      []string `json:"waiting,omitempty"`
}

// Names returns the names of all pages.
func (h *InFlight) Names() []string { return slices.Concat(h.Pages, h.Unsuccessful, h.Waiting) }

// InFlightPages stores the clusters in flight of a run in pages; a save writes only the changed
// pages. A page is written under a new key and never changed. The run's record names the current
// pages.
type InFlightPages struct {
	Store backend.Store
	UID   string
	// None reports whether the run has so few clusters that it never has a page.
	None bool
	// saved are the slots in the named pages. names and revisions belong to these pages.
	saved     []runstate.InFlight
	names     []string
	revisions []backend.Revision
	// unsuccessful and waiting are the pages of those two lists.
	unsuccessful listPages[runstate.Unsuccessful]
	waiting      listPages[runstate.Retrying]
	// Tries counts the attempts to save, so that a later attempt does not overwrite the pages of an
	// attempt with an unknown outcome.
	Tries int
}

// inFlightPage is a part of the clusters in flight.
type inFlightPage struct {
	Format   int                 `json:"format"`
	InFlight []runstate.InFlight `json:"inFlight"`
}

// Key returns the key of the page with this name.
func (p *InFlightPages) Key(name string) string { return "inflight/" + p.UID + "/" + name }

// Write returns the new locations of the clusters in flight and of the run's long lists. It adds
// the changed pages to a commit, and the deletions of the pages that are no longer named.
func (p *InFlightPages) Write(c *Commit, epoch, seq int64, run *step.Run) InFlight {
	p.Tries++
	h := p.writeInFlight(c, epoch, seq, run.Form(runstate.Key{}).InFlight)
	prefix := p.Key(fmt.Sprintf("%d-%d-%d-", epoch, seq, p.Tries))
	h.Unsuccessful = p.unsuccessful.write(c, p.Key(""), prefix+"x", byPosition(run.Form(runstate.Key{}).Unsuccessful))
	h.Waiting = p.waiting.write(c, p.Key(""), prefix+"w", byPlace(places(p.waiting.saved), run.Form(runstate.Key{}).Waiting))
	return h
}

func (p *InFlightPages) writeInFlight(c *Commit, epoch, seq int64, all []runstate.InFlight) (h InFlight) {
	if len(all) <= InFlightHere {
		h.Here = all
	} else {
		h.Pages = make([]string, (len(all)+inFlightPerPage-1)/inFlightPerPage)
	}
	names := h.Pages
	for i := range names {
		slots := page(all, i)
		if i < len(p.names) && slices.Equal(slots, page(p.saved, i)) {
			names[i] = p.names[i]
		} else if slices.ContainsFunc(slots, func(f runstate.InFlight) bool { return f.Attempt != 0 }) {
			names[i] = fmt.Sprintf("%d-%d-%d-%d", epoch, seq, p.Tries, i)
			c.page(p.Key(names[i]), Encode(inFlightPage{Format: Format, InFlight: slots}))
		}
	}
	for i, name := range p.names {
		if name != "" && (i >= len(names) || names[i] != name) {
			c.drop(p.Key(name), p.revisions[i])
		}
	}
	return h
}

// Commit records that a commit was written: its named pages are now the saved pages.
func (p *InFlightPages) Commit(c *Commit, h InFlight, slots []runstate.InFlight) {
	names := h.Pages
	p.unsuccessful.commit(c, p.Key(""), h.Unsuccessful)
	p.waiting.commit(c, p.Key(""), h.Waiting)
	revisions := make([]backend.Revision, len(names))
	for i, name := range names {
		if i < len(p.names) && p.names[i] == name {
			revisions[i] = p.revisions[i]
		} else {
			revisions[i] = c.Revisions[p.Key(name)]
		}
	}
	p.names, p.revisions, p.saved = names, revisions, slices.Clone(slots)
}

// Sweep deletes the pages of epochs up to last, except the kept pages. A crash, a failed save or a
// fenced engine may have left them. Pages of newer epochs belong to the engine that took the run
// over.
func (p *InFlightPages) Sweep(ctx context.Context, last int64, kept []string) error {
	if p.None {
		return nil
	}
	var left []backend.Write
	for rec, err := range p.Store.List(ctx, p.Key("")) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(rec.Key, p.Key(""))
		if epochOf(name) <= last && !slices.Contains(kept, name) {
			left = append(left, Delete(rec.Key, rec.Revision))
		}
	}
	Discard(ctx, p.Store, left)
	return nil
}

// epochOf returns the epoch of the engine that wrote a page.
func epochOf(name string) int64 {
	epoch, _, _ := strings.Cut(name, "-")
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// Read completes the run of a record with the clusters in flight and the lists in pages, and
// remembers those pages as saved.
func (p *InFlightPages) Read(ctx context.Context, rec *Run) (err error) {
	if err := rec.checkPaged(); err != nil {
		return err
	}
	run := &rec.Run
	if run.Form(runstate.Key{}).InFlight, err = p.readInFlight(ctx, rec.InFlight); err != nil {
		return err
	}
	if len(rec.InFlight.Unsuccessful) > 0 {
		if err := p.unsuccessful.read(ctx, p.Store, p.Key(""), rec.InFlight.Unsuccessful); err != nil {
			return fmt.Errorf("the unsuccessful clusters: %w", err)
		}
		run.Form(runstate.Key{}).Unsuccessful = slices.Concat(p.unsuccessful.saved...)
	}
	if len(rec.InFlight.Waiting) > 0 {
		if err := p.waiting.read(ctx, p.Store, p.Key(""), rec.InFlight.Waiting); err != nil {
			return fmt.Errorf("waiting clusters: %w", err)
		}
		run.Form(runstate.Key{}).Waiting = slices.DeleteFunc(slices.Concat(p.waiting.saved...), isHole)
	}
	return nil
}

func (p *InFlightPages) readInFlight(ctx context.Context, h InFlight) ([]runstate.InFlight, error) {
	names := h.Pages
	if len(names) == 0 {
		p.names, p.revisions, p.saved = nil, nil, slices.Clone(h.Here)
		return h.Here, nil
	}
	out := make([]runstate.InFlight, len(names)*inFlightPerPage)
	revisions := make([]backend.Revision, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		rec, err := p.Store.Get(ctx, p.Key(name))
		if err != nil {
			return nil, fmt.Errorf("page %d of the clusters in flight: %w", i, err)
		}
		var fp inFlightPage
		if err := Decode(rec, &fp); err != nil {
			return nil, err
		}
		revisions[i] = rec.Revision
		copy(out[i*inFlightPerPage:(i+1)*inFlightPerPage], fp.InFlight)
	}
	for len(out) > 0 && out[len(out)-1].Attempt == 0 {
		out = out[:len(out)-1]
	}
	p.names, p.revisions, p.saved = names, revisions, slices.Clone(out)
	return out, nil
}

// page returns the slots of page i. The last page may be short.
func page(slots []runstate.InFlight, i int) []runstate.InFlight {
	lo := min(i*inFlightPerPage, len(slots))
	return slots[lo:min(lo+inFlightPerPage, len(slots))]
}
