// Package environment is the environment of the soak program's scenarios: clusters, a hub and
// engines over two bolt files of a directory. A later process that opens the directory continues
// with the same environment, however the previous process ended. Package laws checks the records
// of the engines and the contents of the clusters.
package environment

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/soak/laws"
)

// EngineFile and ClusterFile are the files of an environment in its directory: the store of the
// engines, and the clusters with the hub and the state of the scenario.
const (
	EngineFile  = "engine.db"
	ClusterFile = "clusters.db"
)

// Options says how an environment is opened.
type Options struct {
	Dir string
	// Engines is the number of engines, at least one.
	Engines int
	// Faults makes the faults of the engines' calls, which end when healed is true; nil is for none.
	Faults func(healed func() bool) *faulty.Plan
	// Lease is the time that a run stays with an engine that does not renew it; 0 means the
	// engine's default.
	Lease time.Duration
	// Meter counts the writes; nil is for a meter of its own.
	Meter *Meter
}

// Environment is the view of one process on an environment. Its methods may be called
// concurrently, except for Check and Close.
type Environment struct {
	Options
	// Store is the engines' store, without meter and faults.
	Store   *bolt.Store
	Members *durable.Fleet
	Hub     *durable.Source
	Clocks  *Clocks
	// Workers are the running engines; Observer is an engine without faults that reads their state.
	Workers    []*fleet.Engine
	Observer   *fleet.Engine
	Violations laws.Violations

	clusterStore *bolt.Store
	audited      *audited
	checker      *checker
	healed       atomic.Bool

	mu     sync.Mutex
	absent map[string]bool
}

// Open opens the files of the directory, creates missing files, and creates the engines without
// running them. Only one process at a time can have the files open; a second one waits for up to
// five seconds.
func Open(ctx context.Context, o Options) (_ *Environment, err error) {
	o.Engines = max(1, o.Engines)
	if o.Meter == nil {
		o.Meter = &Meter{}
	}
	env := &Environment{Options: o, absent: map[string]bool{}, checker: newChecker(), Clocks: newClocks(o.Engines)}
	defer func() {
		if err != nil {
			err = errors.Join(err, env.Close())
		}
	}()
	if env.Store, err = bolt.Open(filepath.Join(o.Dir, EngineFile), bolt.Options{Wait: 5 * time.Second}); err != nil {
		return nil, err
	}
	if env.clusterStore, err = bolt.Open(filepath.Join(o.Dir, ClusterFile), bolt.Options{Wait: 5 * time.Second}); err != nil {
		return nil, err
	}
	if env.audited, err = openAudited(ctx, &meteredStore{env.clusterStore, o.Meter}); err != nil {
		return nil, err
	}
	env.Members = durable.NewFleet(env.audited)
	if env.Hub, err = durable.OpenSource(ctx, env.audited); err != nil {
		return nil, err
	}
	return env, env.newEngines()
}

func (env *Environment) newEngines() (err error) {
	cfg := env.Config()
	cfg.Name = "observer"
	if env.Observer, err = fleet.New(cfg); err != nil {
		return err
	}
	if env.Faults != nil {
		faults := env.Faults(env.Healed)
		cfg.Store, cfg.Dialer = faults.BatchStore(&meteredStore{env.Store, env.Meter}), faults.Dialer(cfg.Dialer)
	}
	for i := range env.Engines {
		cfg.Name, cfg.Clock = fmt.Sprintf("engine-%d", i+1), env.Clocks.of(i)
		e, err := fleet.New(cfg)
		if err != nil {
			return err
		}
		env.Workers = append(env.Workers, e)
	}
	return nil
}

// Config returns the configuration of an engine that meets no fault and has the right time.
func (env *Environment) Config() fleet.Config {
	return fleet.Config{
		Store: &meteredStore{env.Store, env.Meter}, Inventory: inventory{env}, Dialer: env.dialer(), Source: env.Hub,
		Lease: env.Lease, CallTimeout: env.Lease * 2 / 3,
	}
}

// Close closes the files.
func (env *Environment) Close() error {
	var errs []error
	for _, f := range []*bolt.Store{env.Store, env.clusterStore} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Run drives the engines until ctx ends.
func (env *Environment) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, e := range env.Workers {
		all.Go(func() { _ = e.Start(ctx) })
	}
	all.Wait()
}

// Heal ends the faults and makes clocks right.
func (env *Environment) Heal() {
	env.healed.Store(true)
	env.Meter.Full.Store(false)
	env.Clocks.Correct()
}

// Healed reports whether Heal was called.
func (env *Environment) Healed() bool { return env.healed.Load() }

// Compact rewrites both files without the space that they do not use.
func (env *Environment) Compact(ctx context.Context) error {
	return errors.Join(env.Store.Compact(ctx), env.clusterStore.Compact(ctx))
}

// Edit sets the value of the object of a placement at the hub.
func (env *Environment) Edit(ctx context.Context, placed, value string) error {
	return env.Hub.Put(ctx, setting(placed, value))
}

func setting(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": SettingKind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"value": value},
	}}
}

// SettingKind is the kind of the objects that are placed.
const SettingKind = "Setting"
