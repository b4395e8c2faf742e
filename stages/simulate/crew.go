package simulate

import (
	"container/heap"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// crew is all workers, one for each cluster in flight, and when each has something to do.
type crew struct {
	world *World
	// at are the workers by position, active all that there are.
	at     []*worker
	active []*worker
	queue  queue
	// begun is when attempts began, by position: one that is taken up again
	// after a stop has gone on.
	begun  []Attempt
	round  int
	orders int
}

func newCrew(w *World, clusters int) *crew {
	return &crew{world: w, at: make([]*worker, clusters), begun: make([]Attempt, clusters)}
}

// due returns when the next worker has something to do; false where none has.
func (c *crew) due() (time.Duration, bool) {
	if len(c.queue) == 0 {
		return 0, false
	}
	return c.queue[0].due, true
}

// work lets every worker do what is due, and returns their observations.
func (c *crew) work(now time.Duration) (observed []stages.Observation) {
	for len(c.queue) > 0 && c.queue[0].due <= now {
		w := heap.Pop(&c.queue).(*worker)
		observed = w.work(now, observed)
		c.begun[w.pos] = w.attempt
		c.push(w)
	}
	return observed
}

// push puts a worker into the queue, if it has something to do.
func (c *crew) push(w *worker) {
	if !w.gone && w.does != idling {
		heap.Push(&c.queue, w)
	}
}

// act gives every action of a step its worker, and ends the other workers.
func (c *crew) act(now time.Duration, actions []stages.Action) {
	c.round++
	for i := range actions {
		if a := &actions[i]; a.Type != stages.Ask {
			c.start(now, a)
		}
	}
	kept := c.active[:0]
	for _, w := range c.active {
		switch {
		case w.round == c.round && c.at[w.pos] == w:
			kept = append(kept, w)
		default:
			c.dismiss(w)
		}
	}
	clear(c.active[len(kept):])
	c.active = kept
}

// start gives an action its worker.
func (c *crew) start(now time.Duration, a *stages.Action) {
	w := c.at[a.Pos]
	same := w != nil && w.attempt.Number == a.Attempt
	if same && !w.gone {
		w.round = c.round
		return
	}
	next := c.hire(now, a)
	if same {
		next.delay = min(max(2*w.delay, reachFirst), reachMost)
		next.due += next.delay
	}
	c.at[a.Pos] = next
	c.active = append(c.active, next)
	c.push(next)
}

func (c *crew) hire(now time.Duration, a *stages.Action) *worker {
	c.orders++
	attempt := c.begun[a.Pos]
	if attempt.Number != a.Attempt {
		attempt = Attempt{Member: c.world.member(a.Cluster), Number: a.Attempt, Revision: a.Revision}
	}
	w := &worker{
		pos: a.Pos, cluster: a.Cluster, attempt: attempt, sent: a.Sent,
		due: now, wait: reachFirst, round: c.round, order: c.orders, place: -1,
	}
	if a.Type == stages.Observe {
		w.does = observing
	}
	return w
}

// dismiss ends a worker.
func (c *crew) dismiss(w *worker) {
	if w.place >= 0 {
		heap.Remove(&c.queue, w.place)
	}
	if c.at[w.pos] == w {
		c.at[w.pos] = nil
	}
}

// queue has the workers by when they are due, then by order of arrival.
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
