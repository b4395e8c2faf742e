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

// inFlightPerPage is how many slots share a page: few enough that a cluster
// that moves on rewrites little, however many are in flight.
const inFlightPerPage = 8

// InFlightHere is how many slots are in the run's record itself: another record
// costs more than what they add to it.
const InFlightHere = 32

// InFlight is the part of a run's record that says where its clusters in flight are stored.
type InFlight struct {
	// Here are the slots themselves, where they are few.
	Here []runstate.InFlight `json:"here,omitempty"`
	// Pages name the pages, without their common prefix; "" is a page without
	// any cluster.
	Pages []string `json:"pages,omitempty"`
	// Unsuccessful and Waiting name the pages of those lists of the run, where they
	// would not be short: see listPages.
	Unsuccessful []string `json:"unsuccessful,omitempty"`
	Waiting      []string `json:"waiting,omitempty"`
}

// Names returns the names of all pages.
func (h *InFlight) Names() []string { return slices.Concat(h.Pages, h.Unsuccessful, h.Waiting) }

// InFlightPages keeps the clusters in flight of a run in pages, of which a save
// writes those that changed. A page is written under a new key and never
// changed; the run's record names the pages that count.
type InFlightPages struct {
	Store backend.Store
	UID   string
	// None reports whether the run has so few clusters that it never has a page.
	None bool
	// saved are the slots as the named pages hold them; names and revisions are
	// those of the pages.
	saved     []runstate.InFlight
	names     []string
	revisions []backend.Revision
	// unsuccessful and waiting are the pages of those lists.
	unsuccessful listPages[runstate.Unsuccessful]
	waiting      listPages[runstate.Retrying]
	// Tries counts the attempts to save, so that what one of unknown outcome
	// wrote is not written over.
	Tries int
}

// inFlightPage is a part of the clusters in flight.
type inFlightPage struct {
	Format   int                 `json:"format"`
	InFlight []runstate.InFlight `json:"inFlight"`
}

// Key is that of the page of a name.
func (p *InFlightPages) Key(name string) string { return "inflight/" + p.UID + "/" + name }

// Write returns where the clusters in flight, and the lists of a run that are
// long, will be. It adds the pages that differ from what is saved to a commit, and
// the deletions of those that no longer count.
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

// Commit records that a commit was written: the named pages are the saved ones now.
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

// Sweep deletes the pages of epochs up to last, but for those that are kept: what a crash, a save that failed
// or a leader that was fenced left. Those of newer epochs belong to the engine that took the run over.
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

// epochOf returns the epoch that wrote a page.
func epochOf(name string) int64 {
	epoch, _, _ := strings.Cut(name, "-")
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return n
}

// Read completes the run of a record with the clusters in flight and the lists that are in pages, and
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
			return fmt.Errorf("those that wait: %w", err)
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

// page returns the slots of page i, of which the last may be short.
func page(slots []runstate.InFlight, i int) []runstate.InFlight {
	lo := min(i*inFlightPerPage, len(slots))
	return slots[lo:min(lo+inFlightPerPage, len(slots))]
}
