package fleet

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// errIdle ends a driver whose run does nothing until it is asked to, or its
// turn comes, and whose place another run can use.
var errIdle = errors.New("the run waits, and makes room for others")

// limited tells that a run needs one of the places that Config.MaxRuns gives.
// One that has ended needs none: seeing to its end is short, and a placement
// waits for it.
func (r *runner) limited(rec *runRecord) bool {
	return r.e.cfg.MaxRuns > 0 && !rec.Run.IsEnded()
}

// line puts a run among those that wait for a place.
func (r *runner) line(rec *runRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, waits := r.waiting[rec.Run.Name]; !waits {
		r.waiting[rec.Run.Name] = rec.Run.Created
	}
}

// leave takes a driver that has ended from its place. One whose run is to be
// taken again is the first to get a place: its engine has the lease still.
func (r *runner) leave(d *driver, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.drivers, d.name)
	if d.place && again {
		r.waiting[d.name] = 0
	}
}

// oldest takes the run that was created first out of those that wait for a
// place; false where there is no place, or none waits.
func (r *runner) oldest() (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 || r.placesTaken() >= r.e.cfg.MaxRuns {
		return "", false
	}
	name := slices.MinFunc(slices.Collect(maps.Keys(r.waiting)), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.waiting[a], r.waiting[b]), cmp.Compare(a, b))
	})
	delete(r.waiting, name)
	return name, true
}

func (r *runner) placesTaken() (n int) {
	for _, d := range r.drivers {
		if d.place {
			n++
		}
	}
	return n
}

// idle tells that a run needs no driver until something is asked of it, or its
// turn on its placement comes. Without Config.MaxRuns such a run is driven
// nevertheless: that costs little, and it starts a little sooner.
func (r *runner) idle(ctx context.Context, rec *runRecord) (bool, error) {
	run := &rec.Run
	if !r.limited(rec) || rec.Lease.Holder != "" || run.Started != 0 && run.State != stages.Stopped {
		return false, nil
	}
	_, taken, err := r.e.commands(ctx, run.UID)
	if err != nil || len(r.e.heard(ctx, run, taken)) > 0 {
		return false, err
	}
	if run.State == stages.Stopped || run.Hold {
		return true, nil
	}
	return r.e.waitsBehind(ctx, run)
}

// waitsBehind tells that the turn of a run on its placement has not come, and
// makes sure that those in whose place it will be know that.
func (e *Engine) waitsBehind(ctx context.Context, run *stages.Run) (bool, error) {
	p, _, err := e.placementAt(ctx, run.Placement)
	if err != nil {
		return false, err
	}
	if err = e.clearLine(ctx, p); err != nil || !p.behind(run.UID) {
		return false, err
	}
	var superseded []stages.Entry
	for _, s := range p.Line.Superseded {
		if s.By == run.Name {
			superseded = append(superseded, s.Entry)
		}
	}
	return true, e.supersede(ctx, run.Name, run.UID, superseded)
}

// behind tells that a run stands in the line of its placement and is not next.
func (rec *placementRecord) behind(uid string) bool {
	i := slices.IndexFunc(rec.Line.Waiting, func(e stages.Entry) bool { return e.UID == uid })
	return i > 0 || i == 0 && rec.Line.Active != nil
}

// watchIdle has an idle run looked at when its placement changes. Commands and
// changes of its record have it looked at anyway.
func (r *runner) watchIdle(rec *runRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.idling[rec.Run.Name] = rec.Run.Placement
	r.lookLocked(rec.Run.Name, time.Now().Add(takeMost))
}

// lookIdle has the idle runs of a placement looked at.
func (r *runner) lookIdle(placement string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, of := range r.idling {
		if of == placement {
			r.lookLocked(name, time.Now())
		}
	}
}

// isIdle tells that a driver's run only waits, so that it gives up its place.
func (d *driver) isIdle() bool {
	run := &d.rec.Run
	if !d.place || len(d.in.Commands) > 0 {
		return false
	}
	return run.State == stages.Stopped || run.Started == 0 && (run.Hold || d.in.Blocked != "")
}

// forgetPlaceLocked drops what is known of a run because it is not driven here.
func (r *runner) forgetPlaceLocked(name string) {
	delete(r.sights, name)
	delete(r.waiting, name)
	delete(r.idling, name)
}

// forget drops what is known of a run that needs no driver, or is gone.
func (r *runner) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgetLocked(name)
}

func (r *runner) forgetLocked(name string) {
	delete(r.failed, name)
	delete(r.rests, name)
	r.forgetPlaceLocked(name)
}
