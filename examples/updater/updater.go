// Package updater shows an updater of a host: a cluster is an edge site, represented by a
// directory, and an update writes each object as a file into it. The engine does the rest:
// stages, waits, approvals, retries and proof. A host passes the sites to its engine, which then
// needs no Dialer:
//
//	sites := updater.Sites("/srv/sites")
//	fleet.Config{Inventory: sites, Updater: sites, ...}
//
// Change Update and Observe for your clusters: a call of a device's API, a commit for GitOps, an
// upgrade. The test runs such a host:
//
//	go test ./examples/updater
package updater

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// Sites is a directory with a directory for each site. It is the inventory and the updater.
type Sites string

var (
	_ backend.Inventory = Sites("")
	_ backend.Updater   = Sites("")
)

// record is the state that a site reports: its revision, the run of the revision, and the epoch
// of the engine that wrote it.
type record struct {
	Revision, Run string
	Epoch         int64
}

// Clusters lists the sites.
func (s Sites) Clusters(context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		entries, err := os.ReadDir(string(s))
		if err != nil {
			yield(placement.Cluster{}, err)
			return
		}
		for _, e := range entries {
			if e.IsDir() && !yield(placement.Cluster{Name: e.Name()}, nil) {
				return
			}
		}
	}
}

// Observe returns the revision of a site, and changes nothing.
func (s Sites) Observe(_ context.Context, a backend.Assignment) (backend.Proof, error) {
	var r record
	text, err := os.ReadFile(s.file(a, "slipway"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil // a site that never got anything
	}
	if err == nil && r.Epoch > a.Epoch {
		err = fmt.Errorf("site %s: epoch %d: %w", a.Cluster.Name, r.Epoch, backend.ErrFenced) // this engine was replaced
	}
	there := r.Revision == a.Revision
	return backend.Proof{Applied: there, Unchanged: there && r.Run != a.RunUID, Revision: r.Revision, Current: there, Healthy: there}, err
}

// Update brings a site to the revision. It may be called again at any time, because it writes
// only the missing parts.
func (s Sites) Update(ctx context.Context, a backend.Assignment) (backend.Proof, error) {
	proof, err := s.Observe(ctx, a)
	if err != nil || proof.Current {
		return proof, err
	}
	var objects snapshot.Set
	if a.Content != nil { // nil if all objects must be deleted
		if objects, err = a.Content(ctx); err != nil {
			return backend.Proof{}, err
		}
	}
	sent := backend.Proof{Sent: true}                                                    // from here on the site is being changed
	if err := s.write(a, "slipway", record{Run: a.RunUID, Epoch: a.Epoch}); err != nil { // and proves nothing until all is there
		return sent, err
	}
	old, err := filepath.Glob(s.file(a, "object-*"))
	for _, file := range old {
		err = errors.Join(err, os.Remove(file))
	}
	for i, o := range objects.Items {
		err = errors.Join(err, s.write(a, fmt.Sprintf("object-%s-%s-%s", o.Kind, o.Namespace, o.Name), json.RawMessage(objects.Bodies[i])))
	}
	if err == nil {
		err = s.write(a, "slipway", record{a.Revision, a.RunUID, a.Epoch})
	}
	if err != nil {
		return sent, err
	}
	return s.Observe(ctx, a)
}

func (s Sites) file(a backend.Assignment, name string) string {
	return filepath.Join(string(s), a.Cluster.Name, name+".json")
}

func (s Sites) write(a backend.Assignment, name string, v any) error {
	text, err := json.Marshal(v)
	return errors.Join(err, os.WriteFile(s.file(a, name), text, 0o600))
}
