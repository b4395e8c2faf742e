package environment

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
)

// fleetKey is the key of the saved members.
const fleetKey = "soak/fleet"

// Member is the state of a cluster that the cluster does not store itself.
type Member struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Absent bool              `json:"absent,omitempty"`
}

// Provision opens the clusters that were saved, or saves and opens these if none were.
func (env *Environment) Provision(ctx context.Context, first []Member) error {
	all := first
	found, err := env.Load(ctx, fleetKey, &all)
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := env.Members.Open(ctx, placement.Cluster{Name: r.Name, Labels: r.Labels}); err != nil {
			return err
		}
		env.setAbsent(r.Name, r.Absent)
	}
	if found {
		return nil
	}
	return env.Save(ctx, fleetKey, all)
}

// Fleet returns the members that were saved.
func (env *Environment) Fleet(ctx context.Context) (all []Member, err error) {
	_, err = env.Load(ctx, fleetKey, &all)
	return all, err
}

// ChangeMember saves a change of one cluster and then makes it, so that a kill in between loses
// nothing. A name that is not there changes nothing.
func (env *Environment) ChangeMember(ctx context.Context, name string, how func(*Member)) error {
	all, err := env.Fleet(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Name != name {
			continue
		}
		how(&all[i])
		if err := env.Save(ctx, fleetKey, all); err != nil {
			return err
		}
		env.setAbsent(name, all[i].Absent)
		env.Members.Relabel(name, all[i].Labels)
	}
	return nil
}

func (env *Environment) isAbsent(name string) bool {
	env.mu.Lock()
	defer env.mu.Unlock()
	return env.absent[name]
}

func (env *Environment) setAbsent(name string, absent bool) {
	env.mu.Lock()
	defer env.mu.Unlock()
	env.absent[name] = absent
}

// inventory lists the members that are not absent.
type inventory struct{ env *Environment }

func (i inventory) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		for c, err := range i.env.Members.Clusters(ctx) {
			if err == nil && i.env.isAbsent(c.Name) {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func (i inventory) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return i.env.Members.WatchClusters(ctx)
}

// Load decodes the value saved under a key, which must begin with "soak/", and reports whether
// there is one.
func (env *Environment) Load(ctx context.Context, key string, into any) (bool, error) {
	r, err := env.clusterStore.Get(ctx, key)
	if errors.Is(err, backend.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(r.Value, into)
}

// Save stores a value under a key, which begins with "soak/".
func (env *Environment) Save(ctx context.Context, key string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var prev backend.Revision
	switch r, err := env.clusterStore.Get(ctx, key); {
	case err == nil:
		prev = r.Revision
	case !errors.Is(err, backend.ErrNotFound):
		return err
	}
	_, err = env.audited.Put(ctx, key, value, prev)
	return err
}

// Reset deletes all saved values and the audit.
func (env *Environment) Reset(ctx context.Context) error {
	for r, err := range env.clusterStore.List(ctx, "soak/") {
		if err == nil {
			err = env.audited.Delete(ctx, r.Key, r.Revision)
		}
		if err != nil {
			return err
		}
	}
	return env.audited.forget(ctx)
}
