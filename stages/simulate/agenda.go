package simulate

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// agenda has the changes and the orders of an environment that have not happened yet, in order of
// time, and the clusters that are away because of the changes that have.
type agenda struct {
	churn  []Change
	orders []Order
	away   leavers
	// taken counts the IDs of orders that newID tried.
	taken int
}

// times returns the times of the next change and of the next order.
func (a *agenda) times() []time.Duration {
	var out []time.Duration
	if len(a.churn) > 0 {
		out = append(out, a.churn[0].At)
	}
	if len(a.orders) > 0 {
		out = append(out, a.orders[0].At)
	}
	return out
}

// follow applies the changes until now, and reports whether there were any.
func (a *agenda) follow(now time.Duration) bool {
	n := 0
	for n < len(a.churn) && a.churn[n].At <= now {
		n++
	}
	due := a.churn[:n]
	a.churn = a.churn[n:]
	return a.away.follow(due)
}

// ordered reports whether the next order is due.
func (a *agenda) ordered(now time.Duration) bool {
	return len(a.orders) > 0 && a.orders[0].At <= now
}

// add adds an order behind the orders of its time.
func (a *agenda) add(o Order) {
	i, _ := slices.BinarySearchFunc(a.orders, o.At+1, func(o Order, at time.Duration) int { return cmp.Compare(o.At, at) })
	a.orders = slices.Insert(a.orders, i, o)
}

// newID returns an ID for an order that is not among the seen ones.
func (a *agenda) newID(seen []string) string {
	for {
		a.taken++
		if id := "order-" + strconv.Itoa(a.taken); !slices.Contains(seen, id) {
			return id
		}
	}
}

// leavers are the clusters that are not in the inventory.
type leavers struct{ names []string }

// follow applies changes and reports whether there were any.
func (l *leavers) follow(changes []Change) bool {
	for _, c := range changes {
		there := !slices.Contains(l.names, c.Cluster)
		switch {
		case c.Back && !there:
			l.names = slices.DeleteFunc(slices.Clone(l.names), func(n string) bool { return n == c.Cluster })
		case !c.Back && there:
			l.names = append(slices.Clip(l.names), c.Cluster)
		}
	}
	return len(changes) > 0
}
