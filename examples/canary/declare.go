package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/snapshot"
)

// kubectl is who applies what is declared.
const kubectl = "kubectl"

// declare carries out what kubectl does on a hub of real clusters.
func (d *directory) declare(ctx context.Context, s *session, in io.Reader, read func(string) ([]byte, error)) error {
	switch s.words[0] {
	case "create":
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(namespaces.GroupVersionKind)
		obj.SetName(s.words[2])
		if _, err := d.hub.cluster.Get(snapshot.IDOf(obj)); err == nil {
			return s.fail("Error from server (AlreadyExists): namespaces %q already exists", s.words[2])
		}
		return d.apply(ctx, s, obj)
	case "apply":
		text, err := readFile(s.file, in, read)
		if err != nil {
			return err
		}
		return d.applyAll(ctx, s, text)
	default:
		return d.delete(ctx, s)
	}
}

func readFile(name string, in io.Reader, read func(string) ([]byte, error)) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(in, oam.MaxBytes+1)) // more is refused by oam.Read
	}
	return read(name)
}

// applyAll applies the documents of a file: all, or none where one cannot be read.
func (d *directory) applyAll(ctx context.Context, s *session, text []byte) error {
	_, err := oam.Read(bytes.NewReader(text), s.file)
	var objs []*unstructured.Unstructured
	if err == nil {
		objs, err = decode(text)
	}
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := d.apply(ctx, s, obj); err != nil {
			return err
		}
	}
	return d.join(ctx)
}

// decode reads the documents of a file.
func decode(text []byte) (objs []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(&obj.Object)
		switch {
		case errors.Is(err, io.EOF):
			return objs, nil
		case err != nil:
			return nil, err
		case len(obj.Object) > 0:
			objs = append(objs, obj)
		}
	}
}

// apply applies an object to the hub, and says what became of it.
func (d *directory) apply(ctx context.Context, s *session, obj *unstructured.Unstructured) error {
	k, known := kindOfObject(obj)
	if !known {
		return s.fail("error: no matches for kind %q in version %q", obj.GetKind(), obj.GetAPIVersion())
	}
	if !k.clusterWide && obj.GetNamespace() == "" {
		obj.SetNamespace(s.namespace)
	}
	before, _ := d.hub.cluster.Get(snapshot.IDOf(obj))
	var after *unstructured.Unstructured
	err := d.hub.change(ctx, func(c *memory.Cluster) (err error) {
		after, err = c.Conn().Apply(ctx, obj, backend.ApplyOptions{Manager: kubectl})
		return err
	})
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return s.fail("Error from server (NotFound): error when creating %q: namespaces %q not found", s.file, obj.GetNamespace())
	case err != nil:
		return err
	}
	return s.say("%s/%s %s", k.singular(), obj.GetName(), outcome(before, after))
}

// outcome is what kubectl says of an object that was applied.
func outcome(before, after *unstructured.Unstructured) string {
	switch {
	case before == nil:
		return "created"
	case before.GetResourceVersion() == after.GetResourceVersion():
		return "unchanged"
	}
	return "configured"
}

// delete deletes an object of the hub. An application goes once everything that it delivered is gone.
func (d *directory) delete(ctx context.Context, s *session) error {
	k, _ := kindOf(s.words[1])
	id := k.id(s.namespace, s.words[2])
	err := d.hub.change(ctx, func(c *memory.Cluster) error { return c.Delete(id) })
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return s.notFound(k, s.words[2])
	case err != nil:
		return err
	}
	if k.plural == managedClusters.plural {
		d.members.Remove(s.words[2])
	}
	said := fmt.Sprintf("%s %q deleted", k.singular(), s.words[2])
	if !k.clusterWide {
		said += fmt.Sprintf(" from %s namespace", s.namespace)
	}
	return s.say("%s", said)
}
