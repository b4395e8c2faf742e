package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/formats/manifest"
	"github.com/slipway-dev/slipway/hub/hubapi"
)

// objects reads the objects of the files of -f, for a hub.
func (o *options) objects(files []string) ([]manifest.Object, error) {
	inputs, closeAll, err := o.Inputs(files)
	if err != nil {
		return nil, err
	}
	defer closeAll()
	var all []manifest.Object
	var errs []error
	for _, in := range inputs {
		some, err := manifest.Read(in.Text, in.Name)
		all, errs = append(all, some...), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("-f: there is no document")
	}
	return all, nil
}

// applyToHub applies objects on a hub, if the API server accepts all of them in a dry run. An
// object whose namespace or kind does not exist yet may need another file, so the hub checks it
// when it is applied.
func (o *options) applyToHub(ctx context.Context, c call, files []string, how hubapi.ApplyOptions) error {
	changes, all, err := o.previewOnHub(ctx, c, files, how.Force)
	if err != nil {
		return err
	}
	return o.carryOut(c, changes, carrying{dry: how.DryRun, inOrder: true, do: func(i int) (string, error) {
		if how.DryRun {
			return "", nil
		}
		_, err := c.Hub.Apply(ctx, all[i].Unstructured, how)
		return "", atPlace(all[i], err)
	}})
}

// previewOnHub returns the changes of objects by a dry run, and the object of each.
func (o *options) previewOnHub(ctx context.Context, c call, files []string, force bool) ([]declare.Change, []manifest.Object, error) {
	all, err := o.objects(files)
	if err != nil {
		return nil, nil, err
	}
	var changes []declare.Change
	var errs []error
	for _, obj := range all {
		change := declare.Change{Action: declare.Created}
		done, err := c.Hub.Apply(ctx, obj.Unstructured, hubapi.ApplyOptions{Force: force, DryRun: true})
		switch {
		case apierrors.IsNotFound(err), errors.Is(err, backend.ErrNotFound):
			change.Note = "not checked, because its kind or its namespace does not exist yet"
		case err != nil:
			errs = append(errs, atPlace(obj, err))
		case done.Unchanged():
			change.Action = declare.Unchanged
		case done.Before != nil:
			change.Action, change.Fields = declare.Configured, masked(done.After, declare.Differences(done.Before.Object, done.After.Object))
		}
		changes = append(changes, change)
	}
	name(changes, all)
	return changes, all, errors.Join(errs...)
}

// name names changes after their objects: KIND or, if the files have this kind in several groups,
// KIND.GROUP.
func name(changes []declare.Change, objects []manifest.Object) {
	groups := map[string]map[string]bool{}
	for _, obj := range objects {
		kind := strings.ToLower(obj.GetKind())
		if groups[kind] == nil {
			groups[kind] = map[string]bool{}
		}
		groups[kind][obj.GroupVersionKind().Group] = true
	}
	for i, obj := range objects {
		kind, group := strings.ToLower(obj.GetKind()), obj.GroupVersionKind().Group
		changes[i].Name, changes[i].Kind = qualified(obj.Unstructured), kind
		if len(groups[kind]) > 1 && group != "" {
			changes[i].Kind += "." + group
		}
	}
}

// masked returns the fields of an object that change, without the values of a Secret. Its
// annotations may repeat them.
func masked(obj *unstructured.Unstructured, fields []declare.Field) []declare.Field {
	if obj.GetKind() != "Secret" || obj.GroupVersionKind().Group != "" {
		return fields
	}
	for i := range fields {
		f := &fields[i]
		for _, hidden := range []string{"data", "stringData", "metadata.annotations"} {
			if f.Path == hidden || strings.HasPrefix(f.Path, hidden+".") {
				f.Now, f.Then = mask(f.Now, "before"), mask(f.Then, "after")
			}
		}
	}
	return fields
}

// mask hides a value, unless it is missing.
func mask(value, when string) string {
	if value == "" {
		return ""
	}
	return "*** (" + when + ")"
}

// atPlace adds the place of an object to an error.
func atPlace(obj manifest.Object, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s:%d: %s/%s: %w", obj.Place.File, obj.Place.Line, obj.GetKind(), obj.GetName(), err)
}

// qualified returns [NAMESPACE/]NAME.
func qualified(u *unstructured.Unstructured) string {
	return strings.TrimPrefix(u.GetNamespace()+"/"+u.GetName(), "/")
}

// diffWithHub shows the fields that applying files would change on a hub.
func (o *options) diffWithHub(ctx context.Context, c call, files []string) error {
	changes, _, err := o.previewOnHub(ctx, c, files, true)
	if err != nil {
		return err
	}
	return o.printChanges(changes)
}

// deleteOnHub deletes the objects of files on a hub, the last ones first.
func (o *options) deleteOnHub(ctx context.Context, c call, d deletion) error {
	if d.placed.Policy != "" {
		return cli.Usagef("--policy: leave it out, because a hub deletes by the policy in the spec of a placement")
	}
	all, err := o.objects(d.files)
	if err != nil {
		return err
	}
	slices.Reverse(all)
	var changes []declare.Change
	var errs []error
	for _, obj := range all {
		change := declare.Change{Action: declare.Missing}
		exists, err := c.Hub.Remove(ctx, obj.Unstructured, d.force, true)
		if errors.Is(err, backend.ErrNotFound) { // its kind was deleted, and all objects with it
			err = nil
		}
		if exists {
			change.Action = declare.Deleted
		}
		errs = append(errs, atPlace(obj, err))
		changes = append(changes, change)
	}
	name(changes, all)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !d.dry && slices.ContainsFunc(changes, func(c declare.Change) bool { return c.Differs() }) {
		for i := range changes {
			if changes[i].Differs() {
				fmt.Fprintf(o.ErrOut, "%s will be deleted\n", changes[i].Object())
			}
		}
		if err := o.Confirm(ctx, d.sure, "delete", notDeleted); err != nil {
			return err
		}
	}
	return o.carryOut(c, changes, carrying{dry: d.dry, inOrder: true, do: func(i int) (string, error) {
		if d.dry {
			return "", nil
		}
		_, err := c.Hub.Remove(ctx, all[i].Unstructured, d.force, false)
		return "", atPlace(all[i], err)
	}})
}
