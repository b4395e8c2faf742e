package driftwatch

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/fleet/internal/member"
)

// Glances are when clusters were last looked at by this engine. What was seen is
// stored only when it changes; that it was seen again is not worth a write.
type Glances struct {
	mu sync.Mutex
	at map[string]time.Time
}

// note takes down that a cluster was looked at, where a sighting of it is kept.
func (g *Glances) note(key string, c *member.ClusterDrift) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case isClean(c):
		delete(g.at, key)
	case c.State == member.Unknown:
	case g.at == nil:
		g.at = map[string]time.Time{key: c.Observed}
	default:
		g.at[key] = c.Observed
	}
}

// forget drops the keys under a prefix that match.
func (g *Glances) forget(prefix string, match func(key string) bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	maps.DeleteFunc(g.at, func(key string, _ time.Time) bool { return strings.HasPrefix(key, prefix) && match(key) })
}

// refresh gives a sighting the time of the last look, if that was here.
func (g *Glances) refresh(key string, c *member.ClusterDrift) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, ok := g.at[key]
	if !ok || at.Before(c.Observed) {
		return
	}
	c.Observed = at
	for i := range c.Objects {
		c.Objects[i].Observed = at
	}
}
