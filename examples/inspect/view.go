package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
)

// view is a file that is inspected.
type view struct {
	line
	page

	store  *bolt.Store
	engine *fleet.Engine
	// bad is how much was shown as unreadable.
	bad int
}

// newView returns a view of a store. Its engine only reads: it knows no
// clusters, and is not run.
func newView(l line, s *bolt.Store, out io.Writer) (*view, error) {
	e, err := fleet.New(fleet.Config{Store: s, Inventory: backend.InventoryFunc(noClusters), Updater: idle{}, Name: "inspect"})
	return &view{line: l, page: page{out: out}, store: s, engine: e}, err
}

func noClusters(context.Context) iter.Seq2[placement.Cluster, error] {
	return func(func(placement.Cluster, error) bool) {}
}

// idle is the updater of an engine that drives nothing.
type idle struct{}

var errReads = fmt.Errorf("inspect only reads: %w", backend.ErrPermanent)

func (idle) Update(context.Context, fleet.Assignment) (fleet.Proof, error) {
	return fleet.Proof{}, errReads
}

func (idle) Observe(context.Context, fleet.Assignment) (fleet.Proof, error) {
	return fleet.Proof{}, errReads
}

// trouble is what is wrong although everything was shown that could be.
func (v *view) trouble() error {
	if v.err != nil {
		return v.err
	}
	if v.bad > 0 {
		return fmt.Errorf("%s of %s could not be read, see above", count(v.bad, "part"), v.file)
	}
	return nil
}

// failed notes that something is shown as unreadable, and returns how.
func (v *view) failed(err error) string {
	if err == nil {
		return ""
	}
	v.bad++
	return err.Error()
}

// remarksOf are the remarks below what could not be read.
func remarksOf(problem string) []string {
	if problem == "" {
		return nil
	}
	return []string{"cannot be read: " + problem}
}

// list prints values: each as an object, or all as a table.
func list[T any](v *view, nothing string, all []T, head []string, rowOf func(T) row) {
	switch {
	case v.json:
		for _, one := range all {
			v.object(one)
		}
	case len(all) == 0:
		v.write("  " + nothing + "\n")
	default:
		var rows []row
		for _, one := range all {
			rows = append(rows, rowOf(one))
		}
		v.table(head, rows)
	}
}

// stored is what a record is besides its value.
type stored struct {
	Key      string           `json:"key"`
	Revision backend.Revision `json:"revision"`
	Bytes    int              `json:"bytes"`
}

// stored returns what is stored under prefix, ascending by key.
func (v *view) stored(ctx context.Context, prefix string) ([]stored, error) {
	var all []stored
	for rec, err := range v.store.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		all = append(all, stored{rec.Key, rec.Revision, len(rec.Value)})
	}
	return all, nil
}

// placements returns the placements that are asked for.
func (v *view) placements(ctx context.Context) ([]string, error) {
	names, err := v.engine.Placements(ctx)
	if err != nil || v.placement == "" {
		return names, err
	}
	if !slices.Contains(names, v.placement) {
		return nil, missing("placement", v.placement, names)
	}
	return []string{v.placement}, nil
}

// missing says that there is no such thing, and which there are.
func missing(kind, name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("there is no %s %s: the file has none", kind, name)
	}
	if more := len(known) - 10; more > 0 {
		known = append(slices.Clone(known[:10]), fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("there is no %s %s: the file has %s", kind, name, strings.Join(known, ", "))
}

// runNames returns the names of all runs, those of one placement one after the
// other as they were created, and whose they are. Runs that no placement tells
// of, because its record cannot be read, come last.
func (v *view) runNames(ctx context.Context) (names []string, of map[string]string, err error) {
	placements, err := v.engine.Placements(ctx)
	if err != nil {
		return nil, nil, err
	}
	of = map[string]string{}
	for _, p := range placements {
		runs, err := v.engine.Runs(ctx, p)
		if err != nil && !errors.Is(err, backend.ErrPermanent) {
			return nil, nil, err
		}
		for _, r := range runs {
			names, of[r] = append(names, r), p
		}
	}
	keys, err := v.stored(ctx, "run/")
	for _, k := range keys {
		if name := strings.TrimPrefix(k.Key, "run/"); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, of, err
}
