package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// Roster is the inventory by name as it was a moment ago. Every member is looked up
// by itself, which must not list all of them each time.
type Roster struct {
	Inventory backend.Inventory

	mu  sync.Mutex
	at  time.Time
	all map[string]placement.Cluster
}

// rosterAge is how old it may be.
const rosterAge = time.Second

// Find returns the cluster of a name, by a listing that is at most rosterAge old where that has it.
func (r *Roster) Find(ctx context.Context, name string) (placement.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.all[name]; ok && time.Since(r.at) < rosterAge {
		return c, nil
	}
	if err := r.list(ctx); err != nil {
		return placement.Cluster{}, err
	}
	if c, ok := r.all[name]; ok {
		return c, nil
	}
	return placement.Cluster{}, fmt.Errorf("the inventory does not have %s yet", name)
}

// Listed are all clusters, by name. The caller does not change them.
func (r *Roster) Listed(ctx context.Context) (map[string]placement.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || time.Since(r.at) >= rosterAge {
		if err := r.list(ctx); err != nil {
			return nil, err
		}
	}
	return r.all, nil
}

func (r *Roster) list(ctx context.Context) error {
	all := map[string]placement.Cluster{}
	for c, err := range r.Inventory.Clusters(ctx) {
		if err != nil {
			return err
		}
		all[c.Name] = c
	}
	r.all, r.at = all, time.Now()
	return nil
}
