package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/fleet/upgrade/embedded"
	"github.com/slipway-dev/slipway/placement"
)

// simulator is the provider of the members: what is simulated is kept in the file, so
// that what was begun goes on while no process is there. Only the process that drives
// begins anything.
type simulator struct {
	*embedded.Provider
	store *store

	mu  sync.Mutex // one write at a time
	rev backend.Revision
}

var _ upgrade.Watcher = (*simulator)(nil)

// keptState is the record of what is simulated.
type keptState struct {
	Format int            `json:"format"`
	World  embedded.State `json:"world"`
}

// family is the kind of all nodes.
const family = "AKSUbuntu-2204gen2containerd"

// newSimulator reads what is simulated.
func newSimulator(ctx context.Context, s *store) (*simulator, error) {
	var kept keptState
	rev, err := s.read(ctx, worldKey, &kept)
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return nil, err
	}
	return &simulator{Provider: embedded.New(kept.World, nil), store: s, rev: rev}, nil
}

// images are what a region offers, newest first. It takes a while until a new image is
// everywhere.
func images(region string) []string {
	all := []string{family + "-202410.15.0", family + "-202409.30.0", family + "-202409.09.0"}
	switch region {
	case "eastus":
		return all
	case "westeurope":
		return all[1:]
	case "southeastasia":
		return all[1:]
	default:
		return all[2:]
	}
}

// first is what the nodes of a new member were made from.
const first = family + "-202408.12.0"

// ensure adds a member that was not simulated yet, and one that was made again.
func (s *simulator) ensure(ctx context.Context, c placement.Cluster) error {
	if there, ok := s.Cluster(c.Name); ok && (c.UID == "" || there.UID == c.UID) {
		return nil
	}
	m, _, err := s.store.member(ctx, c.Name)
	if err != nil {
		return fmt.Errorf("%w: %w", backend.ErrNotFound, err)
	}
	s.Edit(func(w *embedded.State) {
		if w.Regions == nil {
			w.Regions = map[string]*embedded.Region{}
		}
		if w.Clusters == nil {
			w.Clusters = map[string]*embedded.Cluster{}
		}
		w.Regions[m.Region] = &embedded.Region{Images: map[string][]string{family: images(m.Region)}}
		w.Clusters[m.Name] = &embedded.Cluster{
			UID: m.UID, Region: m.Region, ControlPlane: m.Version, Takes: m.Takes, Fail: m.Fail,
			Pools: []upgrade.Pool{{Name: "nodepool1", Version: m.Version, Image: first, Family: family}},
		}
	})
	return nil
}

// Describe says how a member is.
func (s *simulator) Describe(ctx context.Context, c placement.Cluster) (upgrade.Cluster, error) {
	if err := s.ensure(ctx, c); err != nil {
		return upgrade.Cluster{}, err
	}
	return s.Provider.Describe(ctx, c)
}

// Begin begins a change, and keeps that it did.
func (s *simulator) Begin(ctx context.Context, c placement.Cluster, change upgrade.Change) error {
	if err := s.ensure(ctx, c); err != nil {
		return err
	}
	if err := s.Provider.Begin(ctx, c, change); err != nil {
		return err
	}
	return s.save(ctx)
}

// Watch yields when a member has changed.
func (s *simulator) Watch(ctx context.Context, c placement.Cluster) iter.Seq2[struct{}, error] {
	return func(yield func(struct{}, error) bool) {
		if err := s.ensure(ctx, c); err != nil {
			yield(struct{}{}, err)
			return
		}
		s.Provider.Watch(ctx, c)(yield)
	}
}

func (s *simulator) save(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, err := json.Marshal(keptState{Format: keptVersion, World: s.State()})
	if err != nil {
		return err
	}
	rev, err := s.store.Put(ctx, worldKey, value, s.rev)
	if errors.Is(err, backend.ErrConflict) { // by an earlier write of which that was not known
		var rec backend.Record
		if rec, err = s.store.Get(ctx, worldKey); err == nil {
			rev, err = s.store.Put(ctx, worldKey, value, rec.Revision)
		}
	}
	if err == nil {
		s.rev = rev
	}
	return err
}
