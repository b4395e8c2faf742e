package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/placement"
)

// setup says how an environment is opened.
type setup struct {
	dir     string
	engines int
	// faults is what happens to the calls of the engines, nil for nothing.
	faults *faulty.Plan
	// lease is how long a run stays with an engine that is not heard of; 0 is
	// the engine's default.
	lease time.Duration
	meter *meter
	// nth tells the processes of a scenario apart.
	nth int
}

// environment is a fleet, a hub and engines over two files of a directory: what one
// process has of them. Another process that opens the directory later goes on
// with the same environment.
type environment struct {
	setup
	engineFile, worldFile *bolt.Store
	notes                 *audited
	members               *durable.Fleet
	hub                   *durable.Source
	engines               []*fleet.Engine
	clocks                *clocks
	// eyes reads what the engines do, and meets no fault.
	eyes *fleet.Engine
	laws *laws
	// healed ends whatever refuses and fails.
	healed atomic.Bool

	mu     sync.Mutex
	absent map[string]bool
}

func newEnvironment(s setup) *environment {
	if s.meter == nil {
		s.meter = &meter{}
	}
	return &environment{setup: s, absent: map[string]bool{}, laws: newLaws(), clocks: newClocks(max(1, s.engines))}
}

// open opens the files of the directory, and makes them where there are none.
func (w *environment) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	if w.engineFile, err = bolt.Open(filepath.Join(w.dir, "engine.db"), bolt.Options{Wait: 5 * time.Second}); err != nil {
		return err
	}
	if w.worldFile, err = bolt.Open(filepath.Join(w.dir, "world.db"), bolt.Options{Wait: 5 * time.Second}); err != nil {
		return err
	}
	if w.notes, err = openAudited(ctx, &meteredStore{w.worldFile, w.meter}); err != nil {
		return err
	}
	w.members = durable.NewFleet(w.notes)
	if w.hub, err = durable.OpenSource(ctx, w.notes); err != nil {
		return err
	}
	return w.employ()
}

// employ makes the engines.
func (w *environment) employ() (err error) {
	store := &meteredStore{w.engineFile, w.meter}
	cfg := fleet.Config{Inventory: inventory{w}, Source: w.hub, Lease: w.lease, CallTimeout: w.lease * 2 / 3}
	cfg.Store, cfg.Dialer, cfg.Name = store, w.dialer(), "eyes"
	if w.eyes, err = fleet.New(cfg); err != nil {
		return err
	}
	for i := range max(1, w.setup.engines) {
		cfg.Name, cfg.Clock = fmt.Sprintf("engine-%d", i+1), w.clocks.of(i)
		if w.faults != nil {
			cfg.Store, cfg.Dialer = w.faults.BatchStore(store), w.faults.Dialer(w.dialer())
		}
		e, err := fleet.New(cfg)
		if err != nil {
			return err
		}
		w.engines = append(w.engines, e)
	}
	return nil
}

// close gives the files free.
func (w *environment) close() error {
	var errs []error
	for _, f := range []*bolt.Store{w.engineFile, w.worldFile} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// run drives the engines until ctx ends.
func (w *environment) run(ctx context.Context) {
	var all sync.WaitGroup
	for _, e := range w.engines {
		all.Go(func() { _ = e.Run(ctx) })
	}
	all.Wait()
}

func (w *environment) isAbsent(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.absent[name]
}

func (w *environment) setAbsent(name string, absent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.absent[name] = absent
}

// resident is what is noted of a cluster: the rest of it survives by itself.
type resident struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	Absent bool              `json:"absent,omitempty"`
}

// settle makes the fleet what was noted of it, or these clusters where nothing
// was.
func (w *environment) settle(ctx context.Context, first []resident) error {
	all := first
	found, err := w.read(ctx, "soak/fleet", &all)
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := w.members.Open(ctx, placement.Cluster{Name: r.Name, Labels: r.Labels}); err != nil {
			return err
		}
		w.setAbsent(r.Name, r.Absent)
	}
	if found {
		return nil
	}
	return w.note(ctx, "soak/fleet", all)
}

// change notes a change of one cluster, and then makes it.
func (w *environment) change(ctx context.Context, name string, how func(*resident)) error {
	var all []resident
	if _, err := w.read(ctx, "soak/fleet", &all); err != nil {
		return err
	}
	for i := range all {
		if all[i].Name != name {
			continue
		}
		how(&all[i])
		if err := w.note(ctx, "soak/fleet", all); err != nil {
			return err
		}
		w.setAbsent(name, all[i].Absent)
		w.members.Relabel(name, all[i].Labels)
	}
	return nil
}

// read reads a note, and reports whether there is one.
func (w *environment) read(ctx context.Context, key string, into any) (bool, error) {
	r, err := w.worldFile.Get(ctx, key)
	if errors.Is(err, backend.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, json.Unmarshal(r.Value, into)
}

// note writes a note.
func (w *environment) note(ctx context.Context, key string, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var prev backend.Revision
	switch r, err := w.worldFile.Get(ctx, key); {
	case err == nil:
		prev = r.Revision
	case !errors.Is(err, backend.ErrNotFound):
		return err
	}
	_, err = w.notes.Put(ctx, key, value, prev)
	return err
}

// erase deletes a note.
func (w *environment) erase(ctx context.Context, key string) error {
	r, err := w.worldFile.Get(ctx, key)
	if err == nil {
		err = w.notes.Delete(ctx, key, r.Revision)
	}
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	return err
}

// edit makes the object of a placement at the hub say value.
func (w *environment) edit(ctx context.Context, placed, value string) error {
	return w.hub.Put(ctx, setting(placed, value))
}

func setting(name, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": settingKind,
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"value": value},
	}}
}

// settingKind is the kind of the objects that are placed.
const settingKind = "Setting"
