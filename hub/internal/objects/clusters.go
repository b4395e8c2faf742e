package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// Clusters is a short-lived cache of the inventory by name, so that a lookup of one member does
// not list all members.
type Clusters struct {
	Inventory backend.Inventory

	mu  sync.Mutex
	at  time.Time
	all map[string]placement.Cluster
}

// clustersAge is the maximum age of the cache.
const clustersAge = time.Second

// Find returns the cluster of a name, or an error of kind [backend.ErrNotFound]. It lists the
// inventory again if the cache is older than clustersAge or lacks the name.
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
	return placement.Cluster{}, fmt.Errorf("the inventory does not have %s yet: %w", name, backend.ErrNotFound)
}

// All returns all clusters by name. The caller must not change them.
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
