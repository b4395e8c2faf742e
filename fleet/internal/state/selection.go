package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/content"
	"github.com/slipway-dev/slipway/fleet/internal/lifecycle"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// Selections are the clusters of selections in a store.
type Selections struct {
	store    backend.Store
	contents *content.Store
}

// Read reads the clusters of a selection.
func (ss *Selections) Read(ctx context.Context, name string, d *lifecycle.Selection) ([]string, error) {
	var out []string
	for i := range d.Pages {
		r, err := ss.store.Get(ctx, record.PageKey(record.SelectionPagesPrefix(name, d), i))
		if err != nil {
			return nil, fmt.Errorf("placement %s: page %d of %d of its selection: %w", name, i, d.Pages, err)
		}
		var page record.SelectionPage
		if err := record.Decode(r, &page); err != nil {
			return nil, err
		}
		out = append(out, page.Clusters...)
	}
	if d.Pages > 0 && len(out) != d.Clusters {
		return nil, record.Damaged(record.SelectionPagesPrefix(name, d), fmt.Errorf("it has %d clusters, the placement says %d", len(out), d.Clusters))
	}
	return out, nil
}

// RecordOf returns a selection in the form that the placement records.
func RecordOf(d *placement.Selection) *lifecycle.Selection {
	return &lifecycle.Selection{Index: d.Index, PolicyDigest: d.PolicyDigest, Digest: d.Digest, Clusters: len(d.Clusters), Pages: record.SelectionPages(len(d.Clusters))}
}

// Updated returns the clusters that a plan updates, ascending.
func Updated(p *stages.Plan) []string {
	var out []string
	for i := range p.Clusters {
		if c := &p.Clusters[i]; c.Revision >= 0 {
			out = append(out, c.Name)
		}
	}
	slices.Sort(out)
	return out
}

// NewClusters returns the clusters in the plan's groups of new clusters, ascending.
func NewClusters(p *stages.Plan) []string {
	var out []string
	for i := range p.Stages {
		for _, g := range p.Stages[i].Groups {
			for pos := g.First; g.New && pos < g.First+g.Len; pos++ {
				out = append(out, p.Clusters[pos].Name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// Write stores the clusters of a selection. It writes existing pages again, so that a
// deletion that has seen them spares them.
func (ss *Selections) Write(ctx context.Context, name string, d *lifecycle.Selection, clusters []string) error {
	var writes []backend.Write
	for names := range slices.Chunk(clusters, record.SelectionPerPage) {
		value := record.Encode(record.SelectionPage{Format: record.Format, Clusters: names})
		writes = append(writes, backend.Write{Key: record.PageKey(record.SelectionPagesPrefix(name, d), len(writes)), Value: value})
	}
	return ss.contents.PutAll(ctx, writes)
}
