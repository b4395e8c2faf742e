package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/stages"
)

// baseRecord is what the clusters of a placement had before a run: the roster as it
// was when the run ended, before that was taken in. Nobody else has the placement
// while a run changes clusters, so it was recorded before the first was changed.
type baseRecord struct {
	UID    string     `json:"uid"`
	Run    string     `json:"run"`
	Roster rosterHead `json:"roster,omitzero"`
	InUse  []int      `json:"inUse,omitempty"`
}

func (b *baseRecord) inUse() []int {
	if b == nil {
		return nil
	}
	return b.InUse
}

// rollbackRecord is a run that is to take another one back. It has its place in the
// line already, and its UID, so that it is recorded once, whoever does it.
type rollbackRecord struct {
	// Of is the UID of the run that is taken back, OfRun its name.
	Of    string         `json:"of"`
	OfRun string         `json:"ofRun"`
	Run   string         `json:"run"`
	UID   string         `json:"uid"`
	Undo  stages.Undo    `json:"undo"`
	Since stages.Instant `json:"since"`
}

// isUnderway reports whether the placement has something to be done that no run does.
func (rec *placementRecord) isUnderway() bool { return rec.Deleting != nil || rec.Rollback != nil }

// isRoster reports whether a key is that of a page of a roster that counts.
func (rec *placementRecord) isRoster(key string) bool {
	name := rec.Placement.Name
	return strings.HasPrefix(key, rec.Roster.prefix(name)) || rec.Base != nil && strings.HasPrefix(key, rec.Base.Roster.prefix(name))
}

// reserves reports whether the place of a UID in the line is that of a run which is to
// take another one back and is not recorded yet.
func (rec *placementRecord) reserves(uid string) bool {
	return rec.Rollback != nil && rec.Deleting == nil && rec.Rollback.UID == uid
}

// isUndone reports whether a run is needed to plan the one that takes it back.
func (rec *placementRecord) isUndone(uid string) bool {
	return rec.Rollback != nil && rec.Rollback.Of == uid
}

// forgetBase takes in that a run is forgotten, and so cannot be taken back.
func (rec *placementRecord) forgetBase(uid string) {
	if rec.Base != nil && rec.Base.UID == uid {
		rec.Base = nil
	}
}

// expects returns an error if a run that takes another one back is not the one
// that was asked for: it was, and has been recorded and forgotten since.
func (rec *placementRecord) expects(rr *runRecord) error {
	if rr.Undoes == "" || rec.Rollback != nil && rec.Rollback.UID == rr.Run.UID {
		return nil
	}
	return fmt.Errorf("run %s: nobody asks for it any more: %w", rr.Run.Name, errIncomplete)
}

// takesBack takes in that the run is recorded which takes another one back, and
// says so; for other runs it says nothing.
func (rec *placementRecord) takesBack(rr *runRecord) string {
	b := rec.Rollback
	if b == nil || b.UID != rr.Run.UID {
		return ""
	}
	rec.Rollback = nil
	rec.note(b.Of, b.Run, "")
	return "takes back run " + b.OfRun + ": " + b.Undo.Message
}

// note records which run takes back the one of a UID, or why none does.
func (rec *placementRecord) note(uid, by, kept string) {
	if r := rec.entry(uid); r != nil {
		r.Undone, r.Kept = by, kept
	}
}

// undoing names the run that takes back the one of a UID and has not ended, or "".
func (rec *placementRecord) undoing(uid string) string {
	for _, r := range rec.Runs {
		if r.Undoes == uid && r.Ended == "" {
			return r.Name
		}
	}
	return ""
}

// untakeable says why a run that has ended cannot be taken back, or "".
func (rec *placementRecord) untakeable(s *Status) string {
	switch {
	case s.Plan.Rollback != nil:
		return "it takes back run " + s.Plan.Rollback.Run + " itself: take that back once more, or roll out the snapshot that is to be there"
	case s.Plan.Strategy.Rollback == nil:
		return "its strategy has no rollback: roll out the snapshot that is to be there, in a run of its own"
	case rec.Deleting != nil:
		return "the placement is being deleted"
	case rec.Rollback != nil:
		return "run " + rec.Rollback.OfRun + " is about to be"
	case rec.Base == nil:
		return "what the clusters had before it is not known: a run has changed them since, or was deleted"
	case rec.Base.UID != s.Run.UID:
		return "run " + rec.Base.Run + " has changed clusters since: take that back, or roll out the snapshot that is to be there"
	case stages.Touched(s.Plan, &s.Run) == 0:
		return "it has not changed any cluster"
	default:
		return ""
	}
}

// plotRollback records that a run is to be taken back, and puts the run that does,
// of that name, into the line, in the place of all others.
func (rec *placementRecord) plotRollback(run *stages.Run, u stages.Undo, name string, now time.Time) error {
	rec.Rollback = &rollbackRecord{Of: run.UID, OfRun: run.Name, Run: name, UID: newUID(), Undo: u, Since: stages.At(now)}
	line, _, err := rec.Line.Enter(stages.Entry{UID: rec.Rollback.UID, Run: name}, stages.SupersedeActive)
	if err == nil {
		rec.Line = line
	}
	return err
}

// superseder names the run that took the place of another one, or "".
func superseder(l stages.Line, uid string) string {
	for _, s := range l.Superseded {
		if s.UID == uid {
			return s.By
		}
	}
	return ""
}

// baseOf is what clusters had before a run.
func (rec *placementRecord) baseOf(run *stages.Run, before rosterHead, inUse []int) *baseRecord {
	if rec.Base != nil && rec.Base.UID == run.UID {
		return rec.Base // it was started again
	}
	return &baseRecord{UID: run.UID, Run: run.Name, Roster: before, InUse: inUse}
}

// rebase records what clusters had before a run that has ended, as the roster had
// it then, where the run may be taken back. A run that takes one back leaves that
// as it is, so that what it could not do can be done once more.
func (d *driver) rebase(rec *placementRecord, before rosterHead, inUse []int) {
	switch run := &d.rec.Run; {
	case run.Started == 0 || d.plan.Rollback != nil:
	case d.plan.Strategy.Rollback == nil || d.rec.Final != "" || member.ReportsOnly(&d.rec.Apply):
		rec.Base = nil
	default:
		rec.Base = rec.baseOf(run, before, inUse)
	}
}

// undoes reports whether the run is to be taken back, and that this was not taken in.
func (d *driver) undoes(rec *placementRecord) bool {
	run := &d.rec.Run
	r := rec.entry(run.UID)
	return run.Undo != nil && run.State == stages.Failed && r != nil && r.Undone+r.Kept == "" && !rec.isUndone(run.UID)
}

// undo takes in that the run is to be taken back, where it is; by is the run that
// took its place, if any did.
func (d *driver) undo(rec *placementRecord, by string) []stages.Event {
	if !d.undoes(rec) {
		return nil
	}
	run, s := &d.rec.Run, &Status{Run: d.rec.Run, Plan: d.plan}
	why := rec.untakeable(s)
	if by != "" {
		why = "run " + by + " takes its place"
	} else if why == "" {
		why = rec.busy()
	}
	if why == "" {
		name := cmp.Or(run.Undo.Run, d.e.rollbackName(run.Name, d.rec.Title, 1))
		if err := rec.plotRollback(run, *run.Undo, name, d.e.now()); err == nil {
			return nil
		}
	}
	rec.note(run.UID, "", why)
	return []stages.Event{{Type: stages.RollbackRefused, Run: run.Name, Message: why}}
}

// proven adds the digests of all that clusters have, and of what they had before a
// run that may be taken back.
func (e *Engine) proven(ctx context.Context, rec *placementRecord, into map[string]bool) error {
	heads := []rosterHead{rec.Roster}
	if rec.Base != nil && rec.Base.Roster != rec.Roster {
		heads = append(heads, rec.Base.Roster)
	}
	for _, head := range heads {
		r, err := e.rosterAt(ctx, rec.Placement.Name, head)
		if err != nil {
			return err
		}
		for _, h := range r {
			if h.Revision == "" {
				continue
			}
			if err := e.digestsOf(ctx, rec.Placement.Name, h.Revision, into); err != nil && !isNotFound(err) {
				return err
			}
		}
	}
	return nil
}
