package fleet

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/stages"
)

// flightsPerPage is how many slots share a page: few enough that a cluster
// that moves on rewrites little, however many are in flight.
const flightsPerPage = 8

// flightsHere is how many slots are in the run's record itself: another record
// costs more than what they add to it.
const flightsHere = 32

// flightHead is where the clusters in flight of a run are, as its record tells.
type flightHead struct {
	// Here are the slots themselves, where they are few.
	Here []stages.Flight `json:"here,omitempty"`
	// Pages name the pages, without their common prefix; "" is a page without
	// any cluster.
	Pages []string `json:"pages,omitempty"`
	// Exceptions and Waiting name the pages of those lists of the run, where they
	// would not be short: see listPages.
	Exceptions []string `json:"exceptions,omitempty"`
	Waiting    []string `json:"waiting,omitempty"`
}

// names returns the names of all pages.
func (h *flightHead) names() []string { return slices.Concat(h.Pages, h.Exceptions, h.Waiting) }

// flightPages keeps the clusters in flight of a run in pages, of which a save
// writes those that changed. A page is written under a new key and never
// changed; the run's record names the pages that count.
type flightPages struct {
	store backend.Store
	uid   string
	// none reports whether the run has so few clusters that it never has a page.
	none bool
	// saved are the slots as the named pages hold them; names and revisions are
	// those of the pages.
	saved     []stages.Flight
	names     []string
	revisions []backend.Revision
	// exceptions and waiting are the pages of those lists.
	exceptions listPages[stages.Exception]
	waiting    listPages[stages.Yielded]
	// tries counts the attempts to save, so that what one of unknown outcome
	// wrote is not written over.
	tries int
}

type flightPage struct {
	Format  int             `json:"format"`
	Flights []stages.Flight `json:"flights"`
}

func (p *flightPages) key(name string) string { return "flight/" + p.uid + "/" + name }

// write returns where the clusters in flight, and the lists of a run that are
// long, will be. It adds the pages that differ from what is saved to a commit, and
// the deletions of those that no longer count.
func (p *flightPages) write(c *commit, epoch, seq int64, run *stages.Run) flightHead {
	p.tries++
	h := p.writeFlights(c, epoch, seq, run.Flights)
	prefix := p.key(fmt.Sprintf("%d-%d-%d-", epoch, seq, p.tries))
	h.Exceptions = p.exceptions.write(c, p.key(""), prefix+"x", byPosition(run.Exceptions))
	h.Waiting = p.waiting.write(c, p.key(""), prefix+"w", byPlace(places(p.waiting.saved), run.Waiting))
	return h
}

func (p *flightPages) writeFlights(c *commit, epoch, seq int64, flights []stages.Flight) (h flightHead) {
	if len(flights) <= flightsHere {
		h.Here = flights
	} else {
		h.Pages = make([]string, (len(flights)+flightsPerPage-1)/flightsPerPage)
	}
	names := h.Pages
	for i := range names {
		slots := page(flights, i)
		if i < len(p.names) && slices.Equal(slots, page(p.saved, i)) {
			names[i] = p.names[i]
		} else if slices.ContainsFunc(slots, func(f stages.Flight) bool { return f.Attempt != 0 }) {
			names[i] = fmt.Sprintf("%d-%d-%d-%d", epoch, seq, p.tries, i)
			c.page(p.key(names[i]), encodeRecord(flightPage{Format: recordFormat, Flights: slots}))
		}
	}
	for i, name := range p.names {
		if name != "" && (i >= len(names) || names[i] != name) {
			c.drop(p.key(name), p.revisions[i])
		}
	}
	return h
}

// commit takes in that a commit was written, and that the named pages count now.
func (p *flightPages) commit(c *commit, h flightHead, flights []stages.Flight) {
	names := h.Pages
	p.exceptions.commit(c, p.key(""), h.Exceptions)
	p.waiting.commit(c, p.key(""), h.Waiting)
	revisions := make([]backend.Revision, len(names))
	for i, name := range names {
		if i < len(p.names) && p.names[i] == name {
			revisions[i] = p.revisions[i]
		} else {
			revisions[i] = c.revisions[p.key(name)]
		}
	}
	p.names, p.revisions, p.saved = names, revisions, slices.Clone(flights)
}

// sweep deletes the pages of epochs up to last, but for those that are kept:
// what a crash, a save that failed or a leader that was fenced left. Those of
// newer epochs belong to somebody else.
func (p *flightPages) sweep(ctx context.Context, last int64, kept []string) error {
	if p.none {
		return nil
	}
	var left []backend.Write
	for rec, err := range p.store.List(ctx, p.key("")) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(rec.Key, p.key(""))
		if epochOf(name) <= last && !slices.Contains(kept, name) {
			left = append(left, deletion(rec.Key, rec.Revision))
		}
	}
	discard(ctx, p.store, left)
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

// read completes the run of a record by the clusters in flight and the lists that
// are in pages, and takes in those pages.
func (p *flightPages) read(ctx context.Context, rec *runRecord) (err error) {
	if err := rec.checkPaged(); err != nil {
		return err
	}
	run := &rec.Run
	if run.Flights, err = p.readFlights(ctx, rec.Flights); err != nil {
		return err
	}
	if len(rec.Flights.Exceptions) > 0 {
		if err := p.exceptions.read(ctx, p.store, p.key(""), rec.Flights.Exceptions); err != nil {
			return fmt.Errorf("the exceptions: %w", err)
		}
		run.Exceptions = slices.Concat(p.exceptions.saved...)
	}
	if len(rec.Flights.Waiting) > 0 {
		if err := p.waiting.read(ctx, p.store, p.key(""), rec.Flights.Waiting); err != nil {
			return fmt.Errorf("those that wait: %w", err)
		}
		run.Waiting = slices.DeleteFunc(slices.Concat(p.waiting.saved...), isHole)
	}
	return nil
}

func (p *flightPages) readFlights(ctx context.Context, h flightHead) ([]stages.Flight, error) {
	names := h.Pages
	if len(names) == 0 {
		p.names, p.revisions, p.saved = nil, nil, slices.Clone(h.Here)
		return h.Here, nil
	}
	out := make([]stages.Flight, len(names)*flightsPerPage)
	revisions := make([]backend.Revision, len(names))
	for i, name := range names {
		if name == "" {
			continue
		}
		rec, err := p.store.Get(ctx, p.key(name))
		if err != nil {
			return nil, fmt.Errorf("page %d of the clusters in flight: %w", i, err)
		}
		var fp flightPage
		if err := decodeRecord(rec, &fp); err != nil {
			return nil, err
		}
		revisions[i] = rec.Revision
		copy(out[i*flightsPerPage:(i+1)*flightsPerPage], fp.Flights)
	}
	for len(out) > 0 && out[len(out)-1].Attempt == 0 {
		out = out[:len(out)-1]
	}
	p.names, p.revisions, p.saved = names, revisions, slices.Clone(out)
	return out, nil
}

// page returns the slots of page i, of which the last may be short.
func page(flights []stages.Flight, i int) []stages.Flight {
	lo := min(i*flightsPerPage, len(flights))
	return flights[lo:min(lo+flightsPerPage, len(flights))]
}
