package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// starter is the identity that starts runs: the author of a change of the application is not known here.
const starter = "canary"

// record is what was published last of an application. It is stored before the run that it tells of is
// made, and is all that is needed to make it: policies and workflows may change meanwhile.
type record struct {
	Format  int         `json:"format"`
	Release oam.Release `json:"release"`

	key      string
	revision backend.Revision
}

const recordFormat = 1

func (r *record) isThere() bool { return r.revision != "" }

// published reads what was published last of an application.
func (c *controller) published(ctx context.Context, app *unstructured.Unstructured) (record, error) {
	r := record{key: "canary/release/" + app.GetNamespace() + "/" + app.GetName()}
	rec, err := c.records.Get(ctx, r.key)
	if errors.Is(err, backend.ErrNotFound) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(rec.Value, &r); err != nil {
		return r, fmt.Errorf("%s: %w", r.key, err)
	}
	if r.Format != recordFormat {
		return r, fmt.Errorf("%s has format %d, this program knows %d", r.key, r.Format, recordFormat)
	}
	r.revision = rec.Revision
	return r, nil
}

// save stores a release as the last one.
func (c *controller) save(ctx context.Context, r *record, release oam.Release) error {
	r.Format, r.Release = recordFormat, release
	value, err := json.Marshal(r)
	if err == nil {
		r.revision, err = c.records.Put(ctx, r.key, value, r.revision)
	}
	return err
}

func (c *controller) forget(ctx context.Context, r record) error {
	return c.records.Delete(ctx, r.key, r.revision)
}

// problem keeps a workflow from beginning until something is changed; any other error is one of a store
// or a connection, and tells nothing of the application.
type problem struct{ error }

func (p problem) Unwrap() error { return p.error }

// publish begins a workflow where one is due, and reports whether it has. After a problem last is what it was,
// or the release that could not begin.
func (c *controller) publish(ctx context.Context, obj *unstructured.Unstructured, last *record) (begun bool, err error) {
	app, err := oam.ApplicationOf(obj)
	if err != nil {
		return false, problem{err}
	}
	if last.isThere() && app.PublishVersion != "" && app.PublishVersion == last.Release.Version {
		return c.ensure(ctx, last.Release)
	}
	release, err := c.resolve(ctx, app)
	switch {
	case err != nil:
		return false, err
	case last.isThere() && release.Version == last.Release.Version:
		return c.ensure(ctx, last.Release)
	}
	return c.begin(ctx, last, release)
}

// begin makes a release the last one, and then its run.
func (c *controller) begin(ctx context.Context, last *record, release oam.Release) (begun bool, err error) {
	if release.Run.Name, err = c.freeName(ctx, release.Run.Name); err != nil {
		return false, err
	}
	release.Run.Starter = approval.Identity{Name: starter}
	if err := c.save(ctx, last, release); err != nil {
		return false, err
	}
	return c.ensure(ctx, release)
}

// freeName returns a name that no run has: a version that comes back, and a workflow that is restarted, are
// other runs.
func (c *controller) freeName(ctx context.Context, name string) (string, error) {
	const most = 63
	free := name
	for n := 2; ; n++ {
		_, err := c.engine.Status(ctx, free)
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

// ensure makes the run of a release, unless it is there, and reports whether it has.
func (c *controller) ensure(ctx context.Context, release oam.Release) (begun bool, err error) {
	_, err = c.engine.Status(ctx, release.Run.Name)
	if !errors.Is(err, backend.ErrNotFound) {
		return false, err
	}
	err = c.engine.PutPlacement(ctx, release.Placement)
	if err == nil {
		_, err = c.engine.CreateRun(ctx, release.Run)
	}
	if err != nil && ctx.Err() == nil && !isConflict(err) {
		err = problem{err} // of the plan, as a rule
	}
	return err == nil, err
}

// resolve makes a release of an application as it is now, with the policies and the workflow of its
// namespace.
func (c *controller) resolve(ctx context.Context, app oam.Application) (oam.Release, error) {
	docs := oam.Documents{Applications: []oam.Application{app}}
	var unread error
	if err := errors.Join(
		declared(ctx, c.hub, policies.query(app.Namespace, ""), oam.PolicyOf, &docs.Policies, &unread),
		declared(ctx, c.hub, workflows.query(app.Namespace, ""), oam.WorkflowOf, &docs.Workflows, &unread),
	); err != nil {
		return oam.Release{}, err
	}
	var clusters []placement.Cluster
	for cluster, err := range c.inventory.Clusters(ctx) {
		if err != nil {
			return oam.Release{}, err
		}
		clusters = append(clusters, cluster)
	}
	release, err := oam.Publish(docs, app, clusters, oam.Options{})
	if err != nil {
		return release, problem{errors.Join(err, unread)} // what is missing may be what cannot be read
	}
	return release, c.referenced(ctx, app)
}

// referenced tells of what an application refers to and the hub does not have: nothing is delivered in part.
func (c *controller) referenced(ctx context.Context, app oam.Application) error {
	var missing []error
	for _, component := range app.Components {
		for _, ref := range component.Objects {
			q := snapshot.Query{Group: ref.Group, Version: ref.Version, Kind: ref.Kind, Namespace: app.Namespace, Name: ref.Name}
			objs, err := collect(ctx, c.hub, q)
			if err != nil {
				return err
			}
			selector := labels.SelectorFromSet(ref.Labels)
			if !slices.ContainsFunc(objs, func(o *unstructured.Unstructured) bool { return selector.Matches(labels.Set(o.GetLabels())) }) {
				missing = append(missing, fmt.Errorf("component %s: there is no %s", component.Name, wanted(q, ref)))
			}
		}
	}
	if len(missing) > 0 {
		return problem{errors.Join(missing...)}
	}
	return nil
}

// wanted says what a component refers to.
func wanted(q snapshot.Query, ref oam.ObjectRef) string {
	if ref.Name != "" {
		return q.String()
	}
	return q.String() + " with labels " + labels.Set(ref.Labels).String()
}

// declared reads the objects that a query asks for. One that is wrong is left out and added to unread:
// applications that do not name it do not suffer.
func declared[T any](ctx context.Context, hub hub, q snapshot.Query, read func(*unstructured.Unstructured) (T, error), into *[]T, unread *error) error {
	objs, err := collect(ctx, hub, q)
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
