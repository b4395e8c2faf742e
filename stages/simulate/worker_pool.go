package simulate

import (
	"container/heap"
	"time"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// workerPool has the workers, one for each cluster in flight, and the times of their next
// activities.
type workerPool struct {
	env *Environment
	// at has the workers by position, active all workers.
	at     []*worker
	active []*worker
	queue  queue
	// started has the attempts by position, because an attempt keeps running during a stop of the
	// run.
	started []Attempt
	round   int
	orders  int
}

func newWorkerPool(w *Environment, clusters int) *workerPool {
	return &workerPool{env: w, at: make([]*worker, clusters), started: make([]Attempt, clusters)}
}

// resume takes over the running attempts of a run.
func (p *workerPool) resume(plan *stages.Plan, r *step.Run) {
	for i := range r.Form(runstate.Key{}).InFlight {
		f := &r.Form(runstate.Key{}).InFlight[i]
		if f.Attempt == 0 || f.Phase == stages.BackingOff {
			continue
		}
		c := &plan.Clusters[f.Pos]
		began, ok := p.env.Began[c.Name]
		if !ok {
			began = f.Started.Time()
		}
		a := Attempt{Member: p.env.member(c.Name), Number: f.Attempt, Begun: true, Began: began.Sub(p.env.Start)}
		if c.Revision >= 0 {
			a.Revision = plan.Revisions[c.Revision]
		}
		p.started[f.Pos] = a
	}
}

// due returns the time of the next activity of a worker; false if there is none.
func (p *workerPool) due() (time.Duration, bool) {
	if len(p.queue) == 0 {
		return 0, false
	}
	return p.queue[0].due, true
}

// work lets every worker carry out its due activities, and returns their observations.
func (p *workerPool) work(now time.Duration) (observed []stages.Observation) {
	for len(p.queue) > 0 && p.queue[0].due <= now {
		w := heap.Pop(&p.queue).(*worker)
		observed = w.work(now, observed)
		p.started[w.pos] = w.attempt
		p.push(w)
	}
	return observed
}

// push puts a worker into the queue, if it has something to do.
func (p *workerPool) push(w *worker) {
	if !w.gone && w.does != idling {
		heap.Push(&p.queue, w)
	}
}

// act gives every action of a step its worker, and ends the other workers.
func (p *workerPool) act(now time.Duration, actions []stages.Action) {
	p.round++
	for i := range actions {
		switch a := &actions[i]; a.Type {
		case stages.Apply, stages.Observe, stages.Remove:
			p.start(now, a)
		default:
		}
	}
	kept := p.active[:0]
	for _, w := range p.active {
		switch {
		case w.round == p.round && p.at[w.pos] == w:
			kept = append(kept, w)
		default:
			p.release(w)
		}
	}
	clear(p.active[len(kept):])
	p.active = kept
}

// start ensures that an action has a worker.
func (p *workerPool) start(now time.Duration, a *stages.Action) {
	w := p.at[a.Pos]
	same := w != nil && w.attempt.Number == a.Attempt
	if same && !w.gone {
		w.round = p.round
		return
	}
	next := p.assign(now, a)
	if same {
		next.delay = min(max(2*w.delay, reachFirst), reachMost)
		next.due += next.delay
	}
	p.at[a.Pos] = next
	p.active = append(p.active, next)
	p.push(next)
}

func (p *workerPool) assign(now time.Duration, a *stages.Action) *worker {
	p.orders++
	attempt := p.started[a.Pos]
	if attempt.Number != a.Attempt {
		attempt = Attempt{Member: p.env.member(a.Cluster), Number: a.Attempt, Revision: a.Revision}
	}
	w := &worker{
		pos: a.Pos, cluster: a.Cluster, attempt: attempt, sent: a.Sent,
		due: now, wait: reachFirst, round: p.round, order: p.orders, place: -1,
	}
	if a.Type == stages.Observe {
		w.does, w.due = observing, max(now, attempt.Began+attempt.Member.Take)
	}
	return w
}

// release ends a worker.
func (p *workerPool) release(w *worker) {
	if w.place >= 0 {
		heap.Remove(&p.queue, w.place)
	}
	if p.at[w.pos] == w {
		p.at[w.pos] = nil
	}
}

// queue has the workers by their due time, then by order of arrival.
type queue []*worker

func (q queue) Len() int { return len(q) }

func (q queue) Less(i, j int) bool {
	if q[i].due != q[j].due {
		return q[i].due < q[j].due
	}
	return q[i].order < q[j].order
}

func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push is for package heap.
func (q *queue) Push(x any) {
	w := x.(*worker)
	w.place = len(*q)
	*q = append(*q, w)
}

// Pop is for package heap.
func (q *queue) Pop() any {
	old := *q
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	w.place = -1
	return w
}
