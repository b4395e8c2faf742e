package driftwatch

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/drift"
)

// lastChecked holds the times of this engine's last comparisons, by the keys of the drift records.
// A record is stored only when the drift changes, because a repeated observation is not worth a
// write.
type lastChecked struct {
	mu sync.Mutex
	at map[string]time.Time
}

// update records the time of a comparison if the drift of the cluster is recorded.
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
