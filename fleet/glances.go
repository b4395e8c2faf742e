package fleet

import (
	"sync"
	"time"
)

// glances are when clusters were last looked at by this engine. What was seen is
// stored only when it changes; that it was seen again is not worth a write.
type glances struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (g *glances) note(key string, at time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at == nil {
		g.at = map[string]time.Time{}
	}
	g.at[key] = at
}

// refresh gives a sighting the time of the last look, if that was here.
func (g *glances) refresh(key string, c *ClusterDrift) {
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
