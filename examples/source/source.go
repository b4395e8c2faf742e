// Package source shows a source of a host: a file of manifests, such as the output of helm
// template or kustomize build, in place of the objects of a hub cluster. A host passes the file to
// its engine:
//
//	fleet.Config{Source: source.File("rendered.yaml"), ...}
//
// Change Objects for your place of objects: a repository, a registry, a database. The test runs
// such a host:
//
//	go test ./examples/source
package source

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/formats/manifest"
	"github.com/slipway-dev/slipway/snapshot"
)

// File is the path of a file of manifests, YAML or JSON.
type File string

var _ snapshot.Source = File("")

// Objects yields the objects of the file that match a query. It reads the file in each call, so a
// snapshot has the content that the file has at this moment. Replace the file by a rename, so that
// no call reads half of it.
func (f File) Objects(ctx context.Context, q snapshot.Query) iter.Seq2[*unstructured.Unstructured, error] {
	return func(yield func(*unstructured.Unstructured, error) bool) {
		objects, err := f.read()
		if err = errors.Join(ctx.Err(), err); err != nil {
			yield(nil, err)
			return
		}
		for _, o := range objects {
			if matches(o.Unstructured, q) && !yield(o.Unstructured, nil) {
				return
			}
		}
	}
}

// read reads all objects. An empty file is an error, because its snapshot would remove all objects
// from the clusters.
func (f File) read() ([]manifest.Object, error) {
	file, err := os.Open(string(f))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	objects, err := manifest.Read(file, string(f))
	if err == nil && len(objects) == 0 {
		err = fmt.Errorf("%s has no objects", f)
	}
	return objects, err
}

// matches reports whether a query selects an object. A query without a Kind selects all objects of
// its Namespace.
func matches(o *unstructured.Unstructured, q snapshot.Query) bool {
	gvk := o.GroupVersionKind()
	kind := q.Kind == "" || q.Kind == gvk.Kind && q.Group == gvk.Group && (q.Version == "" || q.Version == gvk.Version)
	return kind && (q.Namespace == "" || q.Namespace == o.GetNamespace()) && (q.Name == "" || q.Name == o.GetName())
}
