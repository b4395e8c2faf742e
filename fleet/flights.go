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

// flightPages keeps the clusters in flight of a run in pages, of which a save
// writes those that changed. A page is written under a new key and never
// changed; the run's record names the pages that count.
type flightPages struct {
	store backend.Store
	uid   string
	// saved are the slots as the named pages hold them.
	saved []stages.Flight
	names []string
	// tries counts the attempts to save, so that what one of unknown outcome
	// wrote is not written over.
	tries int
	// revisions are those of the pages that this process wrote.
	revisions map[string]backend.Revision
}

type flightPage struct {
	Format  int             `json:"format"`
	Flights []stages.Flight `json:"flights"`
}

func (p *flightPages) key(name string) string { return "flight/" + p.uid + "/" + name }

// write stores the pages of flights that differ from what is saved and returns
// the names that make them count, and those that no longer will.
func (p *flightPages) write(ctx context.Context, epoch, seq int64, flights []stages.Flight) (names, old []string, err error) {
	pages := (len(flights) + flightsPerPage - 1) / flightsPerPage
	names = make([]string, pages)
	p.tries++
	for i := range pages {
		slots := page(flights, i)
		if i < len(p.names) && slices.Equal(slots, page(p.saved, i)) {
			names[i] = p.names[i]
			continue
		}
		if i < len(p.names) && p.names[i] != "" {
			old = append(old, p.names[i])
		}
		if names[i], err = p.put(ctx, fmt.Sprintf("%d-%d-%d-%d", epoch, seq, p.tries, i), slots); err != nil {
			return nil, nil, err
		}
	}
	for i := pages; i < len(p.names); i++ {
		if p.names[i] != "" {
			old = append(old, p.names[i])
		}
	}
	return names, old, nil
}

// put stores one page, unless no cluster is in it.
func (p *flightPages) put(ctx context.Context, name string, slots []stages.Flight) (string, error) {
	if !slices.ContainsFunc(slots, func(f stages.Flight) bool { return f.Attempt != 0 }) {
		return "", nil
	}
	rev, err := p.store.Put(ctx, p.key(name), encodeRecord(flightPage{Format: recordFormat, Flights: slots}), "")
	if err != nil {
		return "", err
	}
	if p.revisions == nil {
		p.revisions = map[string]backend.Revision{}
	}
	p.revisions[name] = rev
	return name, nil
}

// commit takes in that the named pages count now.
func (p *flightPages) commit(names []string, flights []stages.Flight) {
	p.names, p.saved = names, slices.Clone(flights)
}

// drop deletes pages that no longer count. What cannot be deleted is left for
// sweep.
func (p *flightPages) drop(ctx context.Context, names []string) {
	for _, name := range names {
		rev, ok := p.revisions[name]
		if !ok {
			rec, err := p.store.Get(ctx, p.key(name))
			if err != nil {
				continue
			}
			rev = rec.Revision
		}
		delete(p.revisions, name)
		_ = p.store.Delete(ctx, p.key(name), rev)
	}
}

// sweep deletes the pages of epochs up to last that do not count and were left
// by a crash. Those of newer epochs belong to somebody else.
func (p *flightPages) sweep(ctx context.Context, last int64) error {
	var left []string
	for rec, err := range p.store.List(ctx, p.key("")) {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(rec.Key, p.key(""))
		if epochOf(name) <= last && !slices.Contains(p.names, name) {
			left = append(left, name)
		}
	}
	p.drop(ctx, left)
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

// withdraw deletes what this process wrote, but for the pages that the leader
// which came after it has taken over.
func (p *flightPages) withdraw(ctx context.Context, kept []string) {
	for name := range p.revisions {
		if !slices.Contains(kept, name) {
			p.drop(ctx, []string{name})
		}
	}
}

// read returns the clusters in flight that the named pages hold.
func (p *flightPages) read(ctx context.Context, names []string) ([]stages.Flight, error) {
	var out []stages.Flight
	for i, name := range names {
		slots := make([]stages.Flight, flightsPerPage)
		if name != "" {
			rec, err := p.store.Get(ctx, p.key(name))
			if err != nil {
				return nil, fmt.Errorf("page %d of the clusters in flight: %w", i, err)
			}
			var fp flightPage
			if err := decodeRecord(rec, &fp); err != nil {
				return nil, err
			}
			copy(slots, fp.Flights)
		}
		out = append(out, slots...)
	}
	for len(out) > 0 && out[len(out)-1].Attempt == 0 {
		out = out[:len(out)-1]
	}
	p.commit(names, out)
	return out, nil
}

// page returns the slots of page i, of which the last may be short.
func page(flights []stages.Flight, i int) []stages.Flight {
	lo := min(i*flightsPerPage, len(flights))
	return flights[lo:min(lo+flightsPerPage, len(flights))]
}
