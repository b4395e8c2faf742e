package lifecycle

import (
	"fmt"
	"slices"
)

// Validate returns an error that says why if [Advance] cannot have made the state. It does not
// verify the snapshots, see [State.SnapshotAt].
func (s *State) Validate() error {
	for _, check := range []func() string{s.wrongIndex, s.wrongRun, s.wrongQueue, s.wrongRollback} {
		if why := check(); why != "" {
			return fmt.Errorf("placement state: %s", why)
		}
	}
	return nil
}

// wrongIndex checks the snapshots and the references to them. The index of a dropped snapshot is
// never used again, so a reference may be older than all kept snapshots.
func (s *State) wrongIndex() string {
	last := None
	for i := range s.Snapshots {
		if index := s.Snapshots[i].Index; index <= last || index >= s.NextIndex {
			return fmt.Sprintf("snapshot %d stands behind %d, and the next is %d", index, last, s.NextIndex)
		}
		last = s.Snapshots[i].Index
	}
	lists := map[string][]int{"in use": s.InUse, "irreversible": s.Irreversible}
	if s.Base != nil {
		lists["in use before run "+s.Base.Run] = s.Base.InUse
	}
	for what, list := range lists {
		if !ascends(list) || len(list) > 0 && (list[0] < 0 || list[len(list)-1] >= s.NextIndex) {
			return fmt.Sprintf("the indexes %v are %s, and the next is %d", list, what, s.NextIndex)
		}
	}
	for _, i := range []*int{s.Whole, s.Previous} {
		if i != nil && (*i < 0 || *i >= s.NextIndex) && s.Deleting == nil {
			return fmt.Sprintf("every cluster came to snapshot %d, and the next is %d", *i, s.NextIndex)
		}
	}
	if g := s.Bindings; g.Generation < 0 || g.Pages < 0 || (g.Generation == 0) != (g.ID == "") {
		return fmt.Sprintf("the bindings are generation %d %q of %d pages", g.Generation, g.ID, g.Pages)
	}
	return ""
}

func ascends(list []int) bool {
	for i := 1; i < len(list); i++ {
		if list[i] <= list[i-1] {
			return false
		}
	}
	return true
}

// wrongRun checks that each run is known once and that the ended runs are counted.
func (s *State) wrongRun() string {
	seen := map[string]bool{}
	nth := map[int64]bool{}
	for i, r := range slices.Concat(s.Runs, s.Retired) {
		switch {
		case r.UID == "" || r.Name == "":
			return fmt.Sprintf("a run has the name %q and the UID %q", r.Name, r.UID)
		case seen[r.UID]:
			return fmt.Sprintf("run %s stands twice", r.Name)
		case i < len(s.Runs) && r.Nth != 0 && (r.Ended == "" || r.Nth > s.Ended || nth[r.Nth]):
			return fmt.Sprintf("run %s is number %d of %d that ended, in state %q", r.Name, r.Nth, s.Ended, r.Ended)
		}
		seen[r.UID] = true
		nth[r.Nth] = i < len(s.Runs)
	}
	return ""
}

// wrongQueue checks that only runs which have not ended stand in the queue, each once.
func (s *State) wrongQueue() string {
	seen := map[string]bool{}
	place := func(uid, run string) string {
		r := s.entry(uid)
		switch pending := s.Rollback != nil && s.Rollback.UID == uid; {
		case seen[uid]:
			return fmt.Sprintf("run %s stands in the queue twice", run)
		case r == nil && !pending:
			return fmt.Sprintf("run %s stands in the queue and is not known", run)
		case r != nil && r.Ended != "":
			return fmt.Sprintf("run %s stands in the queue and has ended", run)
		}
		seen[uid] = true
		return ""
	}
	if a := s.Queue.Active; a != nil {
		if why := place(a.UID, a.Run); why != "" {
			return why
		}
	}
	for _, e := range s.Queue.Waiting {
		if why := place(e.UID, e.Run); why != "" {
			return why
		}
	}
	for _, e := range s.Queue.Superseded {
		if a := s.Queue.Active; a != nil && a.UID == e.UID {
			continue
		}
		if why := place(e.UID, e.Run); why != "" {
			return why
		}
	}
	if b := s.Rollback; b != nil && s.Deleting == nil && !seen[b.UID] {
		return fmt.Sprintf("run %s should roll back run %s and is not in the queue", b.Run, b.OfRun)
	}
	return ""
}

// wrongRollback checks the pending rollback, the base and the deletion.
func (s *State) wrongRollback() string {
	if b := s.Rollback; b != nil {
		switch {
		case b.UID == "" || b.Run == "" || b.Of == "" || b.UID == b.Of:
			return fmt.Sprintf("run %q with UID %q rolls back the run with UID %q", b.Run, b.UID, b.Of)
		case s.entry(b.UID) != nil:
			return fmt.Sprintf("run %s rolls back run %s, and must be admitted for that", b.Run, b.OfRun)
		}
	}
	if b := s.Base; b != nil {
		switch {
		case b.UID == "" || b.Bindings.Generation > s.Bindings.Generation:
			return fmt.Sprintf("before run %s the bindings were generation %d, and are %d", b.Run, b.Bindings.Generation, s.Bindings.Generation)
		case s.entry(b.UID) == nil && s.RolledBackBy(b.UID) == "":
			return fmt.Sprintf("what the clusters had before run %s is kept, which is not known", b.Run)
		}
	}
	if s.Deleting != nil && s.Deleting.Run == "" && !s.neverRolledOut() {
		return "it is being deleted by no run, and clusters may have objects of it"
	}
	return ""
}
