package memory

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// key is what identifies an object in a cluster: a kind is the same in all of
// its versions.
type key struct {
	group, kind, namespace, name string
}

func keyOf(id snapshot.ID) key { return key{id.Group, id.Kind, id.Namespace, id.Name} }

func namespaceKey(name string) key { return key{kind: "Namespace", name: name} }

func (k key) isNamespace() bool { return k.group == "" && k.kind == "Namespace" && k.namespace == "" }

// isDefinition reports whether it is a CustomResourceDefinition.
func (k key) isDefinition() bool {
	return k.group == "apiextensions.k8s.io" && k.kind == "CustomResourceDefinition"
}

// in reports whether the object is in the namespace that ns names.
func (k key) in(ns key) bool { return ns.isNamespace() && k.namespace == ns.name }

func compareKeys(a, b key) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group),
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}

func (k key) id(version string) snapshot.ID {
	return snapshot.ID{Group: k.group, Version: version, Kind: k.kind, Namespace: k.namespace, Name: k.name}
}

func (k key) String() string {
	s := k.kind + " " + k.name
	if k.namespace != "" {
		s = k.kind + " " + k.namespace + "/" + k.name
	}
	return s
}

// object is what a cluster keeps. The trees in it are shared and never
// changed; the server's part of the metadata is beside them, so that ten
// thousand clusters can hold one tree.
type object struct {
	live       tree // without status and the server's metadata
	status     tree
	owner      owner   // the first manager, which is mostly the only one
	others     []owner // the other managers, in the order they came
	uid        uint64
	version    uint64
	generation int64
	created    int64 // Unix seconds
	deleted    int64 // Unix seconds, where terminating
	dying      bool
}

// owner is a manager and what it applied last.
type owner struct {
	manager string
	applied tree
}

// find returns what manager applied last.
func (o *object) find(manager string) (tree, bool) {
	if o.owner.applied != nil && o.owner.manager == manager {
		return o.owner.applied, true
	}
	for i := range o.others {
		if o.others[i].manager == manager {
			return o.others[i].applied, true
		}
	}
	return nil, false
}

// besides returns what all managers but one applied.
func (o *object) besides(manager string) []tree {
	var out []tree
	if o.owner.manager != manager && o.owner.applied != nil {
		out = append(out, o.owner.applied)
	}
	for i := range o.others {
		if o.others[i].manager != manager {
			out = append(out, o.others[i].applied)
		}
	}
	return out
}

// owners returns the managers with what they applied.
func (o *object) owners() []owner {
	if o.owner.applied == nil {
		return nil
	}
	return append([]owner{o.owner}, o.others...)
}

// setOwners replaces the managers; those that own nothing are dropped.
func (o *object) setOwners(owners []owner) {
	o.owner, o.others = owner{}, nil
	for _, w := range owners {
		switch {
		case len(w.applied) == 0:
		case o.owner.applied == nil:
			o.owner = w
		default:
			o.others = append(o.others, w)
		}
	}
}

// finalizers reports whether a finalizer still holds the object.
func (o *object) finalizers() bool {
	list, _ := metadata(o.live)["finalizers"].([]any)
	return len(list) > 0
}

func metadata(t tree) tree {
	m, _ := t["metadata"].(tree)
	return m
}

// setByServer reports whether a server sets this member of metadata.
func setByServer(field string) bool {
	switch field {
	case "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink":
		return true
	}
	return false
}

// own returns t without status and what a server sets. It is t itself where
// there is nothing of that.
func own(t tree) tree {
	out := edit{from: t}
	if _, ok := t["status"]; ok {
		out.delete("status")
	}
	meta := edit{from: metadata(t)}
	for f := range meta.from {
		if setByServer(f) {
			meta.delete(f)
		}
	}
	if meta.to != nil {
		out.set("metadata", meta.to)
	}
	return out.result()
}

// identify returns the key of obj, or an error that is ErrPermanent.
func identify(obj *unstructured.Unstructured) (key, error) {
	if obj == nil || obj.Object == nil {
		return key{}, failed("apply", "object", invalid("there is no object"))
	}
	kind, _ := obj.Object["kind"].(string)
	apiVersion, _ := obj.Object["apiVersion"].(string)
	meta := metadata(obj.Object)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	group, _ := splitVersion(apiVersion)
	k := key{group, kind, namespace, name}
	switch {
	case apiVersion == "":
		return k, failed("apply", k.String(), invalid("apiVersion is missing"))
	case kind == "":
		return k, failed("apply", k.String(), invalid("kind is missing"))
	case name == "":
		return k, failed("apply", k.String(), invalid("metadata.name is missing"))
	}
	return k, nil
}

func splitVersion(apiVersion string) (group, version string) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion, ""
	}
	return gv.Group, gv.Version
}

func timestamp(unix int64) string { return time.Unix(unix, 0).UTC().Format(time.RFC3339) }

// managedFields returns the owners of the fields, in the form of FieldsV1.
func (o *object) managedFields() []any {
	owners := o.owners()
	entries := make([]any, 0, len(owners))
	for _, w := range owners {
		operation := "Apply"
		if w.manager == Editor {
			operation = "Update"
		}
		entries = append(entries, tree{
			"manager": w.manager, "operation": operation, "apiVersion": o.live["apiVersion"],
			"fieldsType": "FieldsV1", "fieldsV1": fieldsV1(w.applied, true),
		})
	}
	return entries
}

func fieldsV1(t tree, root bool) tree {
	out := make(tree, len(t))
	for k, v := range t {
		if root && (k == "apiVersion" || k == "kind") {
			continue
		}
		below, _ := v.(tree)
		if root && k == "metadata" {
			below = maps.Clone(below)
			delete(below, "name")
			delete(below, "namespace")
		}
		out["f:"+k] = fieldsV1(below, false)
	}
	return out
}

func invalid(message string) error {
	return fmt.Errorf("%w: %s", backend.ErrPermanent, message)
}

// Editor is the manager that owns what [Cluster.Update] writes: a person with
// an editor.
const Editor = "editor"

// edited returns the owners after Editor made live the object.
func (o *object) edited(live tree) []owner {
	changed := difference(o.live, live)
	owners, found := o.owners(), false
	for i := range owners {
		owners[i].applied = intersect(owners[i].applied, live)
		if owners[i].manager == Editor {
			owners[i].applied, found = merge(owners[i].applied, changed), true
		}
	}
	if !found {
		owners = append(owners, owner{Editor, changed})
	}
	return owners
}

// appliedBy returns the owners after by was applied.
func (o *object) appliedBy(by owner) []owner {
	owners, found := o.owners(), false
	for i := range owners {
		if owners[i].manager == by.manager {
			owners[i], found = by, true
		} else {
			owners[i].applied = surrender(owners[i].applied, o.live, by.applied)
		}
	}
	if !found {
		owners = append(owners, by)
	}
	return owners
}
