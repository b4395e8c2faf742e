package memory

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// identity identifies an object in a cluster. It has no version, because an object has the same
// identity in all versions of its kind.
type identity struct {
	group, kind, namespace, name string
}

// key stands for an identity. It is a pointer, so that a fleet holds each identity once and not
// per cluster.
type key struct{ unique.Handle[identity] }

func (i identity) key() key { return key{unique.Make(i)} }

func keyOf(id snapshot.ID) key { return identity{id.Group, id.Kind, id.Namespace, id.Name}.key() }

func namespaceKey(name string) key { return identity{kind: "Namespace", name: name}.key() }

func (i identity) isNamespace() bool { return i == identity{kind: "Namespace", name: i.name} }

func compareKeys(x, y key) int {
	a, b := x.Value(), y.Value()
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.group, b.group),
		cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
}

func (k key) String() string {
	i := k.Value()
	if i.namespace == "" {
		return i.kind + " " + i.name
	}
	return i.kind + " " + i.namespace + "/" + i.name
}

// identify returns the key of obj, or an error that is ErrPermanent.
func identify(obj *unstructured.Unstructured) (key, error) {
	if obj == nil || obj.Object == nil {
		return identity{}.key(), invalid("there is no object")
	}
	return identifyTree(obj.Object)
}

func identifyTree(t tree) (k key, err error) {
	var i identity
	meta := metadata(t)
	apiVersion, _ := t["apiVersion"].(string)
	i.group, _ = splitVersion(apiVersion)
	i.kind, _ = t["kind"].(string)
	i.namespace, _ = meta["namespace"].(string)
	i.name, _ = meta["name"].(string)
	switch {
	case apiVersion == "":
		err = invalid("apiVersion is missing")
	case i.kind == "":
		err = invalid("kind is missing")
	case i.name == "":
		err = invalid("metadata.name is missing")
	}
	return i.key(), err
}

func invalid(message string) error {
	return fmt.Errorf("%w: %s", backend.ErrPermanent, message)
}

func splitVersion(apiVersion string) (group, version string) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion, ""
	}
	return gv.Group, gv.Version
}

// object is one state of an object in a cluster. Fields that a server adds are beside the
// content, so that clusters can share the content.
type object struct {
	*content
	status     tree
	uid        uint64
	version    uint64
	generation int64
	created    int64 // Unix seconds, 0 if unknown
	deleted    int64 // Unix seconds, if dying
	dying      bool
}

// with returns the object with another content: o itself if it is the same.
func (o *object) with(c *content) *object {
	if c == o.content {
		return o
	}
	next := *o
	next.content = c
	return &next
}

// content is the data that writers gave an object, without status and the metadata that a server
// sets. It is immutable.
type content struct {
	live   tree
	owners []owner // in the order of their first write
}

// contents holds the last content under each key that a cluster of a fleet got. Most clusters get
// the same content, so a hundred thousand clusters hold it once.
type contents struct {
	mu     sync.Mutex
	latest map[key]*content
}

func newContents() *contents { return &contents{latest: map[key]*content{}} }

// share returns the latest content under k if it equals c, and c otherwise.
func (x *contents) share(k key, c *content) *content {
	x.mu.Lock()
	defer x.mu.Unlock()
	if known := x.latest[k]; known != nil && equal(known.live, c.live) && slices.EqualFunc(known.owners, c.owners, owner.equal) {
		return known
	}
	x.latest[k] = c
	return c
}

func (o *object) hasFinalizers() bool {
	list, _ := metadata(o.live)["finalizers"].([]any)
	return len(list) > 0
}

// specChanged reports whether something differs besides metadata, status and the version of the
// kind.
func specChanged(a, b tree) bool {
	for k, v := range a {
		if w, ok := b[k]; !ok || k != "metadata" && k != "apiVersion" && !equal(v, w) {
			return true
		}
	}
	return len(a) != len(b)
}

func metadata(t tree) tree {
	m, _ := t["metadata"].(tree)
	return m
}

// own returns t without status and the metadata that a server sets, or t itself if it has none of
// them.
func own(t tree) tree {
	meta := edit{from: metadata(t)}
	for _, field := range []string{
		"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
		"deletionGracePeriodSeconds", "managedFields", "selfLink",
	} {
		meta.delete(field)
	}
	out := edit{from: t}
	out.delete("status")
	if meta.to != nil {
		out.set("metadata", meta.to)
	}
	return out.result()
}
