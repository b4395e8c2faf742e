// Command updater brings clusters to a revision in a way of its own: here a cluster is an edge site, a directory, and
// an update writes each object as a file. The engine does the rest: stages, waits, approvals, retries and proof.
//
//	go run ./examples/updater DIR        # DIR has a directory for each site
//
// Change Update and Observe to what your clusters are: a call of a device's API, a commit for GitOps, an upgrade.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"log"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: updater DIR")
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	web := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "web"}}}
	state, err := rollOut(ctx, sites(os.Args[1]), web)
	fmt.Println(state, err)
}

// sites are directories below one; it is their inventory and their updater.
type sites string

var (
	_ backend.Inventory = sites("")
	_ fleet.Updater     = sites("")
)

// record is what a site says of itself: the revision it has, and the highest epoch that wrote to it.
type record struct {
	Revision string
	Epoch    int64
}

// Clusters lists the sites.
func (s sites) Clusters(context.Context) iter.Seq2[placement.Cluster, error] {
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

// Observe says which revision a site has, and changes nothing.
func (s sites) Observe(_ context.Context, a fleet.Assignment) (fleet.Proof, error) {
	r, err := s.read(a)
	there := r.Revision == a.Revision
	return fleet.Proof{Applied: there, Unchanged: there, Revision: r.Revision, Current: there, Healthy: there}, err
}

// Update brings a site to the revision. It may be called again at any time, and by another engine with a higher
// epoch; one with a lower epoch was replaced.
func (s sites) Update(ctx context.Context, a fleet.Assignment) (fleet.Proof, error) {
	proof, err := s.Observe(ctx, a)
	if err != nil || proof.Current {
		return proof, err
	}
	var set snapshot.Set
	if a.Content != nil { // nil where everything is to go
		if set, err = a.Content(ctx); err != nil {
			return fleet.Proof{}, err
		}
	}
	_ = set
	return proof, nil
}

func (s sites) read(a fleet.Assignment) (r record, err error) {
	text, err := os.ReadFile(filepath.Join(string(s), a.Cluster.Name, "slipway.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err = errors.Join(err, json.Unmarshal(text, &r)); err == nil && r.Epoch > a.Epoch {
		err = fmt.Errorf("site %s: epoch %d: %w", a.Cluster.Name, r.Epoch, backend.ErrFenced)
	}
	return r, err
}
