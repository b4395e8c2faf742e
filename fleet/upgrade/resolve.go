package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/parallel"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
)

// describers is the number of clusters that are described concurrently.
const describers = 16

// Resolve fixes the parts of a target that must be the same for all clusters of a run. With
// Consistent images it chooses the newest image of each family that the provider offers to all node
// pools of the family, in all regions of the clusters. It returns an error if there is no such
// image, or if a cluster cannot be described. The order of the images is taken from the first
// cluster by name. Other targets, and targets that are already resolved, are returned unchanged.
func Resolve(ctx context.Context, p Provider, clusters []placement.Cluster, t Target) (Target, error) {
	if errs := t.Validate(nil); len(errs) > 0 {
		return t, fmt.Errorf("upgrade target: %w", errs.ToAggregate())
	}
	if t.resolved() {
		return t, nil
	}
	described, failed := describe(ctx, p, clusters)
	if len(failed) > 0 {
		return t, joined(failed)
	}
	images, err := common(described)
	if err != nil {
		return t, err
	}
	t.NodeImages.Versions = images
	return t, nil
}

// ResolveFor calls [Resolve] for the clusters of an inventory that the stages of a strategy pick. A
// run with the strategy upgrades the same clusters.
func ResolveFor(ctx context.Context, p Provider, inventory backend.Inventory, s stages.Strategy, t Target) (Target, error) {
	picked, err := picks(ctx, inventory, s)
	if err != nil {
		return t, err
	}
	return Resolve(ctx, p, picked, t)
}

// picks returns the clusters of an inventory that the stages of a strategy pick.
func picks(ctx context.Context, inventory backend.Inventory, s stages.Strategy) ([]placement.Cluster, error) {
	var all, picked []placement.Cluster
	for c, err := range inventory.Clusters(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	// The picked clusters do not depend on the target.
	plan, err := planner.Plan(s, stages.Target{Placement: "any", Snapshot: "any", Selection: "any", Default: "any"}, all)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if _, is := plan.Position(c.Name); is {
			picked = append(picked, c)
		}
	}
	return picked, nil
}

// description is the result of describing a cluster.
type description struct {
	name string
	Cluster
	err error
}

// describe describes clusters, some concurrently, and returns them sorted by name. Failed
// descriptions are returned separately.
func describe(ctx context.Context, p Provider, clusters []placement.Cluster) (described, failed []description) {
	var all []description
	for d := range parallel.Map(ctx, describers, clusters, func(ctx context.Context, c placement.Cluster) description {
		d := description{name: c.Name}
		d.Cluster, d.err = p.Describe(ctx, c)
		return d
	}) {
		all = append(all, d)
	}
	asked := make(map[string]bool, len(all))
	for _, d := range all {
		asked[d.name] = true
	}
	for _, c := range clusters {
		if !asked[c.Name] { // ctx ended before
			all = append(all, description{name: c.Name, err: ctx.Err()})
		}
	}
	slices.SortFunc(all, func(a, b description) int { return strings.Compare(a.name, b.name) })
	for _, d := range all {
		if d.err != nil {
			failed = append(failed, d)
		} else {
			described = append(described, d)
		}
	}
	return described, failed
}

// joined returns one error for all failed descriptions.
func joined(failed []description) error {
	var errs []error
	for _, d := range failed {
		errs = append(errs, fmt.Errorf("cluster %s: %w", d.name, permanently(d.err)))
	}
	return errors.Join(errs...)
}

// permanently makes ErrNotFound permanent, because it does not pass by itself.
func permanently(err error) error {
	if errors.Is(err, backend.ErrNotFound) && !errors.Is(err, backend.ErrPermanent) {
		return fmt.Errorf("%w: %w", backend.ErrPermanent, err)
	}
	return err
}

// shared are the images that all pools of a family so far have in common.
type shared struct {
	images []string
	// newest is the first image that each region offers, for an error.
	newest []string
}

// common returns, for each family, the newest image that all its pools are offered.
func common(clusters []description) ([]string, error) {
	families := map[string]*shared{}
	var order []string
	for i := range clusters {
		for j := range clusters[i].Pools {
			p := &clusters[i].Pools[j]
			s := families[p.Family]
			if s == nil {
				s = &shared{images: slices.Clone(p.Images)}
				families[p.Family] = s
				order = append(order, p.Family)
			}
			s.narrow(clusters[i].Region, p)
		}
	}
	return newest(families, order)
}

// narrow drops the images that a pool is not offered.
func (s *shared) narrow(region string, p *Pool) {
	s.images = slices.DeleteFunc(s.images, func(image string) bool { return !slices.Contains(p.Images, image) })
	first := "none"
	if len(p.Images) > 0 {
		first = p.Images[0]
	}
	if offer := fmt.Sprintf("region %q offers %s", region, first); !slices.Contains(s.newest, offer) {
		s.newest = append(s.newest, offer)
	}
}

func newest(families map[string]*shared, order []string) ([]string, error) {
	if len(order) == 0 {
		return nil, errors.New("upgrade target: nodeImageSelection: there is no node pool to find a Consistent image for: name clusters that have one, or use Latest")
	}
	slices.Sort(order)
	var images []string
	var errs []error
	for _, family := range order {
		s := families[family]
		if len(s.images) == 0 {
			errs = append(errs, fmt.Errorf("upgrade target: nodeImageSelection: no image of family %q is offered in all regions: %s", family, brief(s.newest)))
			continue
		}
		if !slices.Contains(images, s.images[0]) {
			images = append(images, s.images[0])
		}
	}
	return images, errors.Join(errs...)
}
