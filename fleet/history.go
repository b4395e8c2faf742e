package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/stages"
)

// History is a range of the events of one run, or of one placement itself.
type History struct {
	// UID is the UID of the run or the placement. A different UID than before means that it was
	// deleted and created again: then begin with event 0.
	UID string `json:"uid"`
	// After is the number of the first event, counted from 0. It is the requested number unless
	// events were forgotten.
	After int64 `json:"after"`
	// Next is the number of the next event; request it the next time.
	Next int64 `json:"next"`
	// Events are the events from After up to, but not including, Next, in their order.
	Events []stages.Event `json:"events"`
	// Status is the state of the run; zero for the history of a placement.
	Status Status `json:"-"`
}

// History returns the events of the run from number after on, in the order in which they were
// committed, and the state of the run at that point. If after is 0, it returns all events. The
// state is slightly older than the events if the run's record was written between the reads.
// History reads the run's record and the pages of its journal from event number after on; if there
// are no new events, it costs as much as [RunHandle.Status]. Any process can therefore update a
// state computed from the events at any time, if it stores the number with it.
//
// If after is beyond the last event, the error matches backend.ErrPermanent: the number belongs to
// another run.
func (h RunHandle) History(ctx context.Context, after int64) (History, error) {
	var status state.RunStatus
	first, _, err := h.e.state.Run(ctx, h.name)
	if err == nil {
		status, err = h.e.state.StatusOf(ctx, first)
	}
	if err != nil {
		return History{}, err
	}
	read := func() (string, eventStream, error) {
		rr := first
		if first = nil; rr == nil { // its journal was trimmed or deleted in between
			var err error
			if rr, _, err = h.e.state.Run(ctx, h.name); err != nil {
				return "", eventStream{}, err
			}
		}
		return rr.Run.UID, eventStream{name: rr.Run.UID, head: rr.Journal, key: record.RunKey(h.name)}, nil
	}
	out, err := history(ctx, h.e.store, after, read)
	out.Status = Status(status)
	return out, err
}

// History is [RunHandle.History] for the events of the placement itself: its snapshots, its
// selections, and its runs. The oldest of these events are forgotten, as [PlacementHandle.Follow]
// says. If after is older than that, the error is a *MissedError, and the history begins with the
// oldest event that is kept.
func (h PlacementHandle) History(ctx context.Context, after int64) (History, error) {
	return history(ctx, h.e.store, after, func() (string, eventStream, error) {
		rec, _, err := h.e.state.Placement(ctx, h.name)
		if err != nil {
			return "", eventStream{}, err
		}
		return rec.UID, eventStream{name: record.PlacementStream(h.name), head: rec.Journal, key: record.PlacementKey(h.name)}, nil
	})
}

// history reads a journal from an event on, and retries if it was trimmed or deleted during the
// read.
func history(ctx context.Context, store backend.Store, after int64, find func() (uid string, s eventStream, err error)) (History, error) {
	var last record.Journal
	for again := false; ; again = true {
		uid, s, err := find()
		if err != nil {
			return History{}, err
		}
		h := History{UID: uid, After: max(after, s.head.First), Next: s.head.Events}
		if after < 0 || after > h.Next {
			return History{}, fmt.Errorf("%s: there is no event %d, the next one is %d: begin with 0: %w", s.key, after, h.Next, backend.ErrPermanent)
		}
		h.Events, err = eventsOf(ctx, store, s, h.After)
		switch {
		case state.IsNotFound(err) && (!again || !s.head.IsAt(last)):
			last = s.head
			continue
		case err != nil:
			return History{}, fmt.Errorf("%s: its events: %w", s.key, state.PermanentIfGone(err))
		case h.After > after:
			return h, &MissedError{Placement: strings.TrimPrefix(s.name, record.PlacementStream("")), Events: h.After - after}
		}
		return h, nil
	}
}

// eventsOf reads the events of a stream from number n on.
func eventsOf(ctx context.Context, store backend.Store, s eventStream, n int64) ([]stages.Event, error) {
	if n == s.head.Events {
		return nil, nil
	}
	pages, err := record.ReadJournal(ctx, store, s.name, s.head, n)
	if err != nil {
		return nil, err
	}
	out := make([]stages.Event, 0, s.head.Events-n)
	for _, page := range pages {
		for i := max(0, n-page.First); i < int64(len(page.Events)); i++ {
			var ev stages.Event
			if err := json.Unmarshal(page.Events[i], &ev); err != nil {
				return nil, record.Damaged(record.JournalPrefix(s.name), err)
			}
			out = append(out, ev)
		}
	}
	return out, nil
}
