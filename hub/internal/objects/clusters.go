package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// Clusters is the inventory by name as it was a moment ago. Every member is looked up
// by itself, which must not list all of them each time.
type Clusters struct {
	Inventory backend.Inventory

	mu  sync.Mutex
	at  time.Time
	all map[string]placement.Cluster
}

// clustersAge is how old it may be.
const clustersAge = time.Second

// Find returns the cluster of a name, by a listing that is at most clustersAge old where that has it.
func (r *Clusters) Find(ctx context.Context, name string) (placement.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.all[name]; ok && time.Since(r.at) < clustersAge {
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

// All are all clusters, by name. The caller does not change them.
func (r *Clusters) All(ctx context.Context) (map[string]placement.Cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil || time.Since(r.at) >= clustersAge {
		if err := r.list(ctx); err != nil {
			return nil, err
		}
	}
	return r.all, nil
}

func (r *Clusters) list(ctx context.Context) error {
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
