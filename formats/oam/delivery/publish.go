package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/versioned"
)

// published is the record of the last release of an application.
type published struct {
	Format  int         `json:"format"`
	Release oam.Release `json:"release"`

	key      string
	revision backend.Revision
}

const recordFormat = 1

func (p *published) exists() bool { return p.revision != "" }

// published reads the record of the last release of an application; exists returns false if
// there was none.
func (a *Applications) published(ctx context.Context, namespace, name string) (*published, error) {
	p := &published{key: "application/" + namespace + "/" + name}
	rec, err := a.Store.Get(ctx, p.key)
	if errors.Is(err, backend.ErrNotFound) {
		return p, nil
	}
	if err == nil {
		err = versioned.Decode("record "+p.key, recordFormat, rec.Value, p)
	}
	p.revision = rec.Revision
	return p, err
}

// save stores a release as the last one.
func (a *Applications) save(ctx context.Context, p *published, release oam.Release) error {
	value, err := json.Marshal(published{Format: recordFormat, Release: release})
	if err != nil {
		return err
	}
	revision, err := a.Store.Put(ctx, p.key, value, p.revision)
	if err == nil {
		p.Format, p.Release, p.revision = recordFormat, release, revision
	}
	return err
}

// problem prevents a workflow until something is changed.
type problem struct{ error }

func (p problem) Unwrap() error { return p.error }

// publish begins a workflow if one is due, and reports whether it did. If a workflow is due,
// publish stores its release in last, even if the workflow could not begin. Otherwise last stays
// unchanged.
func (a *Applications) publish(ctx context.Context, obj *unstructured.Unstructured, last *published, confirm func(context.Context) error) (begun bool, err error) {
	app, err := oam.ApplicationOf(obj)
	if err != nil {
		return false, problem{err}
	}
	if last.exists() && app.PublishVersion != "" && app.PublishVersion == last.Release.Version {
		return a.ensure(ctx, last.Release)
	}
	release, err := a.resolve(ctx, app)
	switch {
	case err != nil:
		return false, err
	case last.exists() && release.Version == last.Release.Version:
		return a.ensure(ctx, last.Release)
	}
	if confirm != nil {
		if err := confirm(ctx); err != nil {
			return false, err
		}
	}
	release.Run.Starter = a.Starter
	return a.begin(ctx, last, release)
}

// begin stores a release as the last one, and then makes its run.
func (a *Applications) begin(ctx context.Context, last *published, release oam.Release) (begun bool, err error) {
	if err := a.checkName(ctx, release.Placement); err != nil {
		return false, err
	}
	if release.Run.Name, err = a.freeName(ctx, release.Run.Name); err != nil {
		return false, err
	}
	// On a hub the owner of a run is the object that declares it, and the run of a deleted object is
	// deleted.
	release.Run.Owner = ""
	if err := a.save(ctx, last, release); err != nil {
		return false, err
	}
	return a.ensure(ctx, release)
}

// checkName reports a placement of the engine with the name of an application's placement and
// another owner.
func (a *Applications) checkName(ctx context.Context, p fleet.Placement) error {
	before, err := a.Engine.Placement(p.Name).Get(ctx)
	switch {
	case errors.Is(err, errdef.ErrDeleting):
		return fmt.Errorf("%w: %w", backend.ErrConflict, err) // an earlier application is still being removed
	case errors.Is(err, backend.ErrNotFound):
		return nil
	case err == nil && before.Owner != p.Owner:
		return problem{fmt.Errorf("the name is taken: the engine has a placement %s that is not of the application: delete that placement, or rename the application", p.Name)}
	}
	return err
}

// freeName returns an unused name for a run, because a repeated version and a restarted workflow
// are separate runs.
func (a *Applications) freeName(ctx context.Context, name string) (string, error) {
	const most = 63
	free := name
	for n := 2; ; n++ {
		_, err := a.Engine.Run(free).Status(ctx)
		if errors.Is(err, backend.ErrNotFound) {
			return free, nil
		}
		if err != nil {
			return "", err
		}
		suffix := fmt.Sprintf("-%d", n)
		free = strings.TrimRight(name[:min(len(name), most-len(suffix))], "-.") + suffix
	}
}

// ensure makes the run of a release unless it exists, and reports whether it did. If another
// process makes the run at the same time, both report it.
func (a *Applications) ensure(ctx context.Context, release oam.Release) (begun bool, err error) {
	if _, err = a.Engine.Run(release.Run.Name).Status(ctx); !errors.Is(err, backend.ErrNotFound) {
		return false, err
	}
	if err := a.checkName(ctx, release.Placement); err != nil {
		return false, err
	}
	if err = a.Engine.PutPlacement(ctx, release.Placement); err == nil {
		_, err = a.Engine.EnsureRun(ctx, release.Run)
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, backend.ErrConflict) {
		err = problem{err} // mostly an error of the plan
	}
	return err == nil, err
}

// resolve makes a release of the current application, with the policies and the workflow of its
// namespace.
func (a *Applications) resolve(ctx context.Context, app oam.Application) (oam.Release, error) {
	docs := oam.Documents{Applications: []oam.Application{app}}
	var unread error
	if err := errors.Join(
		declared(ctx, a.Source, "Policy", app.Namespace, oam.PolicyOf, &docs.Policies, &unread),
		declared(ctx, a.Source, "Workflow", app.Namespace, oam.WorkflowOf, &docs.Workflows, &unread),
	); err != nil {
		return oam.Release{}, err
	}
	var clusters []placement.Cluster
	for cluster, err := range a.Inventory.Clusters(ctx) {
		if err != nil {
			return oam.Release{}, err
		}
		clusters = append(clusters, cluster)
	}
	release, err := oam.Publish(docs, app, clusters, a.Options)
	if err != nil {
		return release, problem{errors.Join(err, unread)} // the missing one may be unreadable
	}
	return release, a.referenced(ctx, app)
}

// declared reads the policies or the workflows of a namespace. An invalid one is left out and
// added to unread, so that it affects only applications that name it.
func declared[T any](ctx context.Context, source snapshot.Source, kind, namespace string, read func(*unstructured.Unstructured) (T, error), into *[]T, unread *error) error {
	objs, err := collect(ctx, source, snapshot.Query{Group: "core.oam.dev", Version: "v1alpha1", Kind: kind, Namespace: namespace})
	for _, obj := range objs {
		x, err := read(obj)
		if err != nil {
			*unread = errors.Join(*unread, err)
			continue
		}
		*into = append(*into, x)
	}
	return err
}

// referenced reports referenced objects that the source does not have, because an application is
// never delivered in part.
func (a *Applications) referenced(ctx context.Context, app oam.Application) error {
	var missing []error
	for _, component := range app.Components {
		for _, ref := range component.Objects {
			q := snapshot.Query{Group: ref.Group, Version: ref.Version, Kind: ref.Kind, Namespace: app.Namespace, Name: ref.Name}
			objs, err := collect(ctx, a.Source, q)
			if err != nil {
				return err
			}
			selector := labels.SelectorFromSet(ref.Labels)
			if slices.ContainsFunc(objs, func(o *unstructured.Unstructured) bool { return selector.Matches(labels.Set(o.GetLabels())) }) {
				continue
			}
			what := q.String()
			if ref.Name == "" {
				what += " with labels " + labels.Set(ref.Labels).String()
			}
			missing = append(missing, fmt.Errorf("component %s: there is no %s", component.Name, what))
		}
	}
	if len(missing) > 0 {
		return problem{errors.Join(missing...)}
	}
	return nil
}

// collect reads the objects of a source, sorted by name.
func collect(ctx context.Context, source snapshot.Source, q snapshot.Query) (objs []*unstructured.Unstructured, err error) {
	for obj, err := range source.Objects(ctx, q) {
		if err != nil {
			return nil, err
		}
		objs = append(objs, obj)
	}
	slices.SortFunc(objs, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return objs, nil
}
