package lifecycle

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/stages"
)

// life is a placement with random events: runs, dying or slow engines, and operators.
type life struct {
	*env
	checker *checker
	dice    *dice
	// calm reports whether failures have stopped, so that every run reaches its end.
	calm bool
	// nested reports whether an event is happening between the read and the save of another one.
	nested bool
	// past are the earlier inputs.
	past []Input
	// concluded reports whether all clusters of the deleted placement are clean or released.
	concluded bool
	names     int
}

// fault plays the faults between the steps of a driver.
func (l *life) fault(step string) error {
	if l.calm {
		return nil
	}
	if l.dice.one(25) {
		return errDied
	}
	if step == "save" && !l.nested && l.dice.one(10) {
		l.nested = true
		l.act()
		l.nested = false
	}
	return nil
}

// put puts an input into the placement and remembers it.
func (l *life) put(in Input) (Outcome, error) {
	switch in.(type) {
	case RetryAsked: // only the engine that holds the lease asks for a retry
	default:
		l.past = append(l.past, in)
	}
	return l.tell(in)
}

// act plays one random event.
func (l *life) act() {
	d := l.dice
	switch n := d.n(40); n {
	case 0, 1:
		_ = l.snapshot(n == 1)
	case 2, 3:
		if s := l.state(); len(queued(&s)) < 1+d.n(4) {
			l.newRun()
		}
	case 4, 17:
		l.driveRollback()
	case 5:
		if r := l.some(all); r != nil {
			l.take(r)
		}
	case 6:
		l.deleteRun()
	case 7:
		l.changeFleet()
	case 8:
		if r := l.some(func(r *record) bool { return r.state == stages.Failed && r.request == nil && r.started && r.closed }); r != nil {
			r.retrying = true
		}
	case 9:
		s := l.state()
		if r := l.some(func(r *record) bool {
			return r.ended() && r.request == nil && (d.one(3) || s.Base != nil && s.Base.UID == r.UID)
		}); r != nil {
			_, _ = l.put(RollbackRequested{r.Entry, r.result(), undoOf(l.name("back"))})
		}
	case 11:
		_, _ = l.put(IrreversibleMarked{Index: d.n(5), Reversible: d.one(2)})
	case 12:
		l.collect()
	case 13:
		l.spec.HistoryLimit, l.spec.RunHistory = 1+d.n(3), 1+d.n(4)
		l.spec.Admission = []stages.Admission{stages.QueueRun, stages.QueueRun, stages.RejectRun, stages.SupersedeActive}[d.n(4)]
	case 14:
		if d.one(12) {
			_, _ = l.put(DeleteRequested{Deletion{Since: l.now, End: DeleteObjects, Run: deletionRun}})
		}
	case 15:
		if len(l.past) > 0 {
			in, s := l.past[d.n(len(l.past))], l.state()
			for _, old := range l.past {
				if e, ended := old.(RunEnded); ended && s.Queue.Active != nil && s.Queue.Active.UID == e.UID {
					in = e
				}
			}
			_, _ = l.tell(in)
		}
	case 16:
		_, _ = l.put(SelectionChanged{PolicyDigest: "p" + strconv.Itoa(d.n(2)), Digest: "d" + strconv.Itoa(d.n(3)), Clusters: d.n(3), Pages: 1})
	default:
		l.driveDeletion()
		s := l.state()
		if a := s.Queue.Active; a != nil && d.n(3) > 0 {
			if r := l.runs[a.Run]; r != nil {
				l.drive(r)
			}
		} else if r := l.some(func(r *record) bool { return !r.closed || r.retrying }); r != nil {
			l.drive(r)
		}
	}
}

func (l *life) name(prefix string) string {
	l.names++
	return prefix + strconv.Itoa(l.names)
}

func all(*record) bool { return true }

// some returns a run that matches, or nil.
func (l *life) some(match func(*record) bool) *record {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(l.runs)) {
		if match(l.runs[name]) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return l.runs[names[l.dice.n(len(names))]]
}

func (l *life) newRun() {
	s, d := l.state(), l.dice
	if len(s.Snapshots) == 0 {
		return
	}
	at := len(s.Snapshots) - 1
	if d.one(4) {
		at = d.n(len(s.Snapshots))
	}
	r := &record{
		Entry: Entry{Run: l.name("r"), Index: s.Snapshots[at].Index}, hold: d.one(6), catchUp: d.one(4), noBack: d.one(4), stuck: d.one(5), taken: -1,
	}
	bound := l.bindings(s.Bindings)
	for i := range 4 {
		name := clusterName(i)
		_, is := bound[name]
		switch {
		case r.catchUp && d.one(2) || is && !l.inventory[name] && d.one(3):
		case is && l.inventory[name] && d.one(5):
			r.clusters = append(r.clusters, Reached{Cluster: name, Index: None})
		case l.inventory[name]:
			r.clusters = append(r.clusters, Reached{Cluster: name, Index: r.Index, Revision: "rev-" + strconv.Itoa(r.Index)})
		}
	}
	if name := clusterName(l.names % 4); l.names%9 == 0 && l.inventory[name] {
		if _, is := bound[name]; is {
			r.clusters, r.evicts = []Reached{{Cluster: name, Index: None}}, []string{name}
			r.Evicts, r.catchUp, r.noBack, r.Index = true, true, true, s.Snapshots[len(s.Snapshots)-1].Index
		}
	}
	if _, err := l.tell(RunRequested{Entry: Entry{UID: "asks", Run: r.Run, Index: r.Index, Evicts: r.Evicts}, Hold: r.hold}); err != nil {
		return
	}
	l.create(r)
	l.drive(r)
}

func (l *life) changeFleet() {
	name := clusterName(l.dice.n(4))
	if l.inventory[name] {
		delete(l.inventory, name)
	} else {
		l.inventory[name] = true
	}
	l.noFleet = l.dice.one(4)
}

func (l *life) take(r *record) {
	epoch := l.state().Epoch + 1
	if _, err := l.put(RunTaken{epoch}); err != nil {
		return
	}
	if now := l.runs[r.Run]; now != r || l.state().Epoch != epoch {
		return
	}
	r.epoch = epoch
	if r.acting {
		l.checker.epoch = epoch
	}
}

func (l *life) deleteRun() {
	s := l.state()
	r := l.some(func(r *record) bool { return s.RolledBackBy(r.UID) != "" })
	if r == nil {
		r = l.some(all)
	}
	if r == nil || isRollback(r.Run) && !l.dice.one(3) || !l.dice.one(2) {
		return
	}
	l.forget(r)
	if !l.dice.one(4) {
		_, _ = l.put(RunDeleted{r.Entry, r.plan, r.started})
	}
}

// forget deletes the record of a run.
func (l *life) forget(r *record) {
	r.acting = false
	delete(l.runs, r.Run)
	l.deleted[r.UID] = r
	l.plans[r.UID] = r.clusters
}

func (l *life) collect() {
	s := l.state()
	if _, err := l.put(CollectionBegun{s.GCGeneration}); err != nil {
		return
	}
	var uids []string
	for _, r := range s.Retired {
		if l.dice.one(3) {
			continue
		}
		uids = append(uids, r.UID)
		if record := l.runs[r.Name]; record != nil && record.UID == r.UID {
			l.forget(record)
		}
	}
	_, _ = l.put(Collected{uids})
}

// driveRollback takes one step of the planning of a rollback.
func (l *life) driveRollback() {
	s := l.state()
	b := s.Rollback
	if b == nil || s.Deleting != nil {
		return
	}
	switch r := l.runs[b.Run]; {
	case r != nil && r.UID == b.UID:
		l.drive(r)
		return
	case r != nil || l.dice.one(6):
		_, _ = l.put(RollbackRenamed{b.UID, b.Run, l.name("back")})
		return
	}
	back, err := l.planBack()
	if err != nil {
		_, _ = l.put(RollbackAbandoned{b.UID, err.Error()})
		return
	}
	back.taken = -1
	l.create(back)
	l.drive(back)
}

// driveDeletion takes one step of the deletion of the placement.
func (l *life) driveDeletion() {
	s := l.state()
	if s.Deleting == nil {
		return
	}
	r := l.runs[deletionRun]
	switch {
	case l.concluded, s.Deleting.Run == "":
		_, _ = l.put(Emptied{UID: s.UID})
	case r == nil:
		r = &record{Entry: Entry{Run: deletionRun}, taken: -1}
		if n := len(s.Snapshots); n > 0 {
			r.Index = s.Snapshots[n-1].Index
		}
		for _, name := range slices.Sorted(maps.Keys(l.bindings(s.Bindings))) {
			if l.inventory[name] {
				r.clusters = append(r.clusters, Reached{Cluster: name, Index: None})
			}
		}
		l.create(r)
		l.drive(r)
	case r.ended() && r.closed:
		l.concluded = true
	default:
		_, _ = l.put(DeletionContinued{r.Entry})
		l.drive(r)
	}
}

// drive takes one step of a run, as its engine does.
func (l *life) drive(r *record) {
	s := l.state()
	if _, known := s.Run(r.UID); !known {
		if r.closed = r.ended(); !r.closed {
			l.admission(r)
		}
		return
	}
	switch {
	case r.retrying:
		l.retry(r)
	case r.ended() && !r.closed:
		r.acted = max(r.acted, r.epoch)
		_, err := l.put(RunEnded{r.Entry, r.epoch, r.result()})
		r.closed = err == nil
	case r.ended():
	case r.acting:
		l.step(r)
	case r.superseder != "" || l.dice.one(20):
		l.end(r, stages.Superseded)
	case r.hold:
		r.hold = !l.calm && !l.dice.one(3)
	default:
		l.turn(r)
	}
}

func (l *life) admission(r *record) {
	if l.state().Deleting == nil && r.Run == deletionRun {
		l.forget(r)
		return
	}
	_, err := l.admit(r)
	if !isFinal(err) || l.runs[r.Run] != r {
		return
	}
	if s := l.state(); s.entry(r.UID) != nil {
		return
	}
	l.forget(r)
	if isOf(err, ErrIncomplete) {
		_, _ = l.put(RunAbandoned{r.Entry, r.plan})
	} else {
		_, _ = l.put(RunDeleted{r.Entry, r.plan, false})
	}
}

func (l *life) turn(r *record) {
	if r.epoch == 0 {
		l.take(r)
	}
	epoch := r.epoch
	if epoch == 0 {
		return
	}
	out, err := l.put(TurnAsked{r.Entry, epoch})
	switch {
	case l.runs[r.Run] != r || r.epoch != epoch || err != nil: // another engine has it, or it was deleted
	case out.Turn.SupersededBy != "":
		l.end(r, stages.Superseded)
	case out.Turn.Retake:
		l.take(r)
	case out.Turn.Starts && !r.acting && !r.ended():
		l.checker.starts(r)
		l.begin(r)
	}
}

// retry asks to retry a failed run, under its own lease.
func (l *life) retry(r *record) {
	l.take(r)
	epoch := r.epoch
	if !r.retrying || epoch != l.state().Epoch || epoch <= r.acted {
		return
	}
	out, err := l.put(RetryAsked{r.Entry, r.attempt + 1, epoch})
	switch {
	case l.runs[r.Run] != r || r.epoch != epoch || !r.retrying:
	case isOf(err, ErrNotFound):
		r.retrying = false
	case err != nil || out.Turn.Retake:
	case out.Turn.SupersededBy != "": // superseded since the first request
		l.end(r, stages.Superseded)
		r.retrying = false
	case !out.Turn.Starts:
		r.retrying = false
	case l.dice.one(4): // there is nothing to retry
		r.retrying, r.closed = false, false
	default:
		l.checker.starts(r)
		l.begin(r)
		r.retrying, r.closed = false, false
	}
}

// step lets the active run change a cluster.
func (l *life) step(r *record) {
	if r.superseder != "" {
		l.end(r, stages.Superseded)
		return
	}
	if s := l.state(); r.stuck && (!l.calm && !l.dice.one(20) || l.calm && s.superseder(r.UID) != "") {
		return // only the command ends a superseded run
	}
	done := true
	for i := range r.clusters {
		c := &r.clusters[i]
		switch {
		case c.Got == Gone || c.Got == Proven:
			continue
		case !l.inventory[c.Cluster]:
			c.Got = Gone
		case c.Got == Attempted && !l.dice.one(3):
			c.Got = Proven
		default:
			c.Got = Attempted
		}
		done = false
		break
	}
	switch {
	case done:
		l.end(r, stages.Completed)
	case !l.calm && l.dice.one(8) && r.Run != deletionRun:
		if !r.noBack && r.back == "" && l.dice.one(2) {
			u := undoOf("")
			r.request = &u
		}
		l.end(r, stages.Failed)
	case !l.calm && l.dice.one(30):
		l.end(r, stages.Aborted)
	}
}

func (l *life) end(r *record, state stages.State) { r.state, r.acting, r.closed = state, false, false }

// drain lets every run reach its end, to check law 11.
func (l *life) drain() {
	if len(l.checker.found) > 0 {
		return
	}
	var names []string
	for range 20 + 15*len(l.runs) {
		l.driveDeletion()
		l.driveRollback()
		if s := l.state(); len(s.Retired) > 0 {
			l.collect()
		}
		s := l.state()
		for _, e := range s.unended() {
			if r := l.deleted[e.UID]; r != nil { // its deletion was not recorded
				_, _ = l.put(RunDeleted{r.Entry, r.plan, r.started})
			}
		}
		names = slices.Sorted(maps.Keys(l.runs))
		for _, name := range names {
			r := l.runs[name]
			if r == nil {
				continue
			}
			if r.ended() && !r.closed {
				l.take(r)
			}
			l.drive(r)
		}
		if len(l.checker.found) > 0 {
			return
		}
	}
	s := l.state()
	if len(queued(&s)) > 0 || s.Rollback != nil && s.Deleting == nil {
		l.checker.broken("11", "the queue is %v, of runs %s", queued(&s), strings.Join(names, " "))
	}
	for _, e := range s.unended() {
		if r := l.runs[e.Run]; r != nil {
			l.checker.broken("11", "run %s is %s", e.Run, r.state)
		}
	}
}
