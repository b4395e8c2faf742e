package driftwatch

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/drift"
)

// lastChecked has the times at which this engine last compared clusters, by the keys of their records. Drift is
// stored only when it changes: that it was observed again is not worth a write.
type lastChecked struct {
	mu sync.Mutex
	at map[string]time.Time
}

// update stores when a cluster was compared, if its drift is recorded.
func (l *lastChecked) update(key string, c *drift.ClusterReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case isClean(c):
		delete(l.at, key)
	case c.State == drift.Unknown:
	case l.at == nil:
		l.at = map[string]time.Time{key: c.Observed}
	default:
		l.at[key] = c.Observed
	}
}

// forget drops the keys under a prefix that match.
func (l *lastChecked) forget(prefix string, match func(key string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.at, func(key string, _ time.Time) bool { return strings.HasPrefix(key, prefix) && match(key) })
}

// apply sets Observed of a recorded drift to the time of the last comparison, if that is later.
func (l *lastChecked) apply(key string, c *drift.ClusterReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.at[key]
	if !ok || at.Before(c.Observed) {
		return
	}
	c.Observed = at
	for i := range c.Objects {
		c.Objects[i].Observed = at
	}
}
