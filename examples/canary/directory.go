package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/placement"
)

// directory is a fleet of simulated clusters: a hub and its members, and the records of the engine. It is
// in memory, or in the files of a directory.
type directory struct {
	*controller
	hub     clusterSource
	members *durable.Fleet
	closes  []func() error
}

// The files in the directory of -data. Only the first is a host's: what real clusters hold is theirs.
const (
	engineFile  = "slipway.db"
	hubFile     = "hub.db"
	membersFile = "members.db"
)

// dying is how long a process that was killed may take to give its files free.
const dying = time.Second

// The members that there are from the beginning.
const (
	testCluster = "managedcluster-test"
	prodCluster = "managedcluster-prod"
)

// stores are where a fleet is kept.
type stores struct{ engine, hub, members backend.Store }

// openDirectory opens the fleet in a directory, which is made if it is missing, or one in memory.
func openDirectory(ctx context.Context, dir string) (d *directory, err error) {
	if dir == "" {
		return newDirectory(ctx, stores{memory.NewStore(), memory.NewStore(), memory.NewStore()})
	}
	kept, closes, err := openFiles(dir)
	if err == nil {
		d, err = newDirectory(ctx, kept)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-data %s: %w", dir, err), closeAll(closes))
	}
	d.closes = closes
	return d, nil
}

// openFiles opens the files of a directory.
func openFiles(dir string) (kept stores, closes []func() error, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return kept, nil, err
	}
	for _, f := range []struct {
		name  string
		store *backend.Store
	}{{engineFile, &kept.engine}, {hubFile, &kept.hub}, {membersFile, &kept.members}} {
		s, err := bolt.Open(filepath.Join(dir, f.name), bolt.Options{Wait: dying})
		if err != nil {
			return kept, closes, err
		}
		*f.store, closes = s, append(closes, s.Close)
	}
	return kept, closes, nil
}

func closeAll(closes []func() error) error {
	var errs []error
	for _, end := range slices.Backward(closes) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// newDirectory makes a fleet, or finds it as it was left.
func newDirectory(ctx context.Context, kept stores) (*directory, error) {
	d := &directory{members: durable.NewFleet(kept.members)}
	if err := d.makeHub(ctx, kept.hub); err != nil {
		return nil, err
	}
	if err := d.begin(ctx, kept.engine); err != nil {
		return nil, err
	}
	if err := d.join(ctx); err != nil {
		return nil, err
	}
	return d, d.makeController(kept.engine)
}

// makeHub makes the hub, or finds it as it was left.
func (d *directory) makeHub(ctx context.Context, kept backend.Store) error {
	f := durable.NewFleet(kept)
	if err := f.Open(ctx, placement.Cluster{Name: "hub"}); err != nil {
		return err
	}
	d.hub = clusterSource{f, f.Cluster("hub")}
	d.hub.cluster.SetClock(time.Now)
	return nil
}

// begunKey is there once the hub has the members of the beginning: those that are deleted do not come back.
const begunKey = "canary/begun"

// begin gives the hub the members that there are from the beginning.
func (d *directory) begin(ctx context.Context, records backend.Store) error {
	_, err := records.Get(ctx, begunKey)
	if !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	for _, c := range []placement.Cluster{{Name: testCluster, Labels: map[string]string{"environment": "test"}}, {Name: prodCluster, Labels: map[string]string{"environment": "prod"}}} {
		if err := d.hub.update(ctx, managedCluster(c.Name, c.Labels)); err != nil {
			return err
		}
	}
	_, err = records.Put(ctx, begunKey, []byte("1"), "")
	return err
}

// join makes the members those that the hub has ManagedClusters of, and says on the hub that they are.
func (d *directory) join(ctx context.Context) error {
	for _, obj := range d.managed() {
		name := obj.GetName()
		if d.members.Cluster(name) == nil {
			if err := d.members.Open(ctx, placement.Cluster{Name: name}); err != nil {
				return err
			}
			c := d.members.Cluster(name)
			c.SetClock(time.Now)
			c.React(simulate)
		}
		d.members.Relabel(name, obj.GetLabels())
		if _, joined, _ := unstructured.NestedSlice(obj.Object, "status", "conditions"); joined {
			continue
		}
		if err := d.hub.SetStatus(ctx, obj, joinedStatus(time.Now(), true)); err != nil {
			return err
		}
	}
	return nil
}

// managed returns the ManagedClusters of the hub.
func (d *directory) managed() []*unstructured.Unstructured {
	return slices.DeleteFunc(d.hub.cluster.List(""), func(o *unstructured.Unstructured) bool {
		return o.GroupVersionKind().GroupKind() != managedClusters.GroupKind()
	})
}

func (d *directory) makeController(records backend.Store) error {
	engine, err := fleet.New(fleet.Config{
		Name: "canary", Store: records, Inventory: d.members, Dialer: d.members, Source: d.hub, Poll: 50 * time.Millisecond,
	})
	d.controller = &controller{hub: d.hub, inventory: d.members, engine: engine, records: records}
	return err
}

// close gives the files free, once what was begun is written.
func (d *directory) close() error { return closeAll(d.closes) }

// settle lets workflows go on until nothing moves any more by itself, or for as long as that may take.
func (d *directory) settle(ctx context.Context, most time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, most)
	stopped := make(chan error, 1)
	go func() { stopped <- d.engine.Run(limited) }()
	err := d.untilStill(limited)
	cancel()
	<-stopped
	if ctx.Err() == nil && limited.Err() != nil && errors.Is(err, limited.Err()) {
		err = nil // it goes on with the next command
	}
	return err
}

// moment is how often members in motion are observed.
const moment = 20 * time.Millisecond

func (d *directory) untilStill(ctx context.Context) error {
	ticker := time.NewTicker(moment)
	defer ticker.Stop()
	for {
		moving, err := d.reconcile(ctx)
		if err != nil || !moving {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// inDirectory carries out a command on the fleet in the directory.
func inDirectory(ctx context.Context, l line, std stdio) (err error) {
	d, err := openDirectory(ctx, l.data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	return d.carryOut(ctx, l, std, os.ReadFile)
}

// carryOut carries out a command: what has moved meanwhile comes first, and what the command sets in motion
// follows.
func (d *directory) carryOut(ctx context.Context, l line, std stdio, read func(string) ([]byte, error)) error {
	if err := d.settle(ctx, l.wait); err != nil {
		return err
	}
	s := &session{
		line: l, printer: newPrinter(l, std), controller: d.controller, dialer: d.members,
		by: approval.Identity{Name: "operator"},
	}
	known, err := s.do(ctx)
	if !known {
		err = d.declare(ctx, s, std.in, read)
	}
	if err != nil || l.words[0] == "get" {
		return err
	}
	problems := map[string]error{}
	d.tell = func(app string, problem error) { problems[app] = problem }
	err = d.settle(ctx, l.wait)
	for _, app := range slices.Sorted(maps.Keys(problems)) {
		if problems[app] != nil {
			fmt.Fprintln(std.err, "warning:", printable(fmt.Sprintf("application %s does not begin: %v", app, problems[app])))
		}
	}
	return err
}
