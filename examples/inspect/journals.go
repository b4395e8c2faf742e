package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// journalInfo is a journal: the events of a placement or of a run.
type journalInfo struct {
	// Stream is its name in the keys of its pages.
	Stream string `json:"stream"`
	// Run or Placement is whose it is; both are empty where nothing reads it, or
	// where the record of whose it is cannot be read.
	Run       string `json:"run,omitempty"`
	Placement string `json:"placement,omitempty"`
	// Events counts those that are committed; Pages and Bytes are of all pages,
	// which do not have the last events: those are in the placement or the run.
	Events int       `json:"events"`
	First  time.Time `json:"first,omitzero"`
	Last   time.Time `json:"last,omitzero"`
	Pages  int       `json:"pages"`
	Bytes  int       `json:"bytes"`
}

// told are the committed events of a journal.
type told struct {
	events      int
	first, last time.Time
}

// listJournals shows the journals.
func listJournals(ctx context.Context, v *view) error {
	runs, err := v.runs(ctx)
	if err != nil {
		return err
	}
	all, err := v.journals(ctx, runs)
	if err != nil {
		return err
	}
	heard := map[string]told{}
	err = v.past(ctx, func(e stages.Event) {
		stream := streamOf(e, runs)
		heard[stream] = heard[stream].with(e)
	})
	if err != nil {
		return err
	}
	for i := range all {
		t := heard[all[i].Stream]
		all[i].Events, all[i].First, all[i].Last = t.events, t.first, t.last
	}
	list(v, "no journals", all, []string{"JOURNAL OF", "EVENTS", "PAGES", "SIZE", "LAST EVENT"}, journalInfo.row)
	return nil
}

// journals returns the journals that are asked for: those of placements and runs,
// and those of which there are only pages left. The keys of pages are documented
// in package fleet; the last events of a journal are in no page.
func (v *view) journals(ctx context.Context, runs []runInfo) (all []journalInfo, err error) {
	at := map[string]int{}
	add := func(stream string, pages, bytes int) {
		j := journalOf(stream, runs)
		if !v.wants(j) {
			return
		}
		if _, known := at[stream]; !known {
			at[stream], all = len(all), append(all, j)
		}
		all[at[stream]].Pages += pages
		all[at[stream]].Bytes += bytes
	}
	placements, err := v.engine.Placements(ctx)
	for _, name := range placements {
		add("placement."+name, 0, 0)
	}
	for _, r := range runs {
		if r.UID != "" {
			add(r.UID, 0, 0)
		}
	}
	records, listed := v.stored(ctx, "journal/")
	for _, rec := range records {
		stream, _, _ := strings.Cut(strings.TrimPrefix(rec.Key, "journal/"), "/")
		add(stream, 1, rec.Bytes)
	}
	return inOrder(all, runs), errors.Join(err, listed)
}

func journalOf(stream string, runs []runInfo) journalInfo {
	j := journalInfo{Stream: stream}
	if name, ok := strings.CutPrefix(stream, "placement."); ok {
		j.Placement = name
		return j
	}
	for _, r := range runs {
		if r.UID == stream {
			j.Run, j.Placement = r.Run, r.Placement
		}
	}
	return j
}

func (v *view) wants(j journalInfo) bool {
	return (v.run == "" || v.run == j.Run) && (v.placement == "" || v.placement == j.Placement)
}

// inOrder puts the journals of placements first, then those of runs in their
// order, then what belongs to none.
func inOrder(all []journalInfo, runs []runInfo) (out []journalInfo) {
	pick := func(want func(journalInfo) bool) {
		for _, j := range all {
			if want(j) {
				out = append(out, j)
			}
		}
	}
	pick(func(j journalInfo) bool { return j.Run == "" && j.Placement != "" })
	for _, r := range runs {
		pick(func(j journalInfo) bool { return r.UID != "" && j.Stream == r.UID })
	}
	pick(func(j journalInfo) bool { return j.Run == "" && j.Placement == "" })
	return out
}

// streamOf is the journal that an event is from. What package fleet tells of a
// placement, also that a run was created or deleted, is in that of the placement.
func streamOf(e stages.Event, runs []runInfo) string {
	switch e.Type {
	case stages.SnapshotTaken, stages.SelectionChanged, stages.RunCreated, stages.RunDeleted:
		return "placement." + e.Placement
	}
	for _, r := range runs {
		if r.Run == e.Run {
			return r.UID
		}
	}
	return ""
}

func (t told) with(e stages.Event) told {
	if t.events++; t.first.IsZero() {
		t.first = e.Time
	}
	t.last = e.Time
	return t
}

func (j journalInfo) row() row {
	whose := "no run: " + j.Stream
	switch {
	case j.Run != "":
		whose = "run " + j.Run
	case j.Placement != "":
		whose = "placement " + j.Placement
	}
	return row{cells: []string{whose, strconv.Itoa(j.Events), strconv.Itoa(j.Pages), size(int64(j.Bytes)), moment(j.Last)}}
}
