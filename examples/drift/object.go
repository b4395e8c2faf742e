package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// take takes what stands in a document: an object, or a list of them.
func (r *reader) take(v any, at place) {
	o, ok := v.(map[string]any)
	switch {
	case v == nil:
		return
	case !ok:
		r.problems = append(r.problems, problem{at, "must be an object with apiVersion, kind and metadata"})
		return
	}
	list, there := o["items"]
	if items, ok := list.([]any); isList(o) && (ok || there && list == nil) {
		for i, item := range items {
			below := at
			below.item = i
			r.take(item, below)
		}
		return
	}
	if text := wrong(o); text != "" {
		r.problems = append(r.problems, problem{at, text})
		return
	}
	r.objects = append(r.objects, object{&unstructured.Unstructured{Object: o}, at})
}

// isList reports whether the kind is a list's. Lists have no name.
func isList(o map[string]any) bool {
	kind, _ := o["kind"].(string)
	meta, _ := o["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	return strings.HasSuffix(kind, "List") && name == ""
}

// wrong tells why something is no object that can be matched.
func wrong(o map[string]any) string {
	for _, name := range []string{"apiVersion", "kind"} {
		if s, ok := o[name].(string); !ok || s == "" {
			return name + " must be text, and not empty"
		}
	}
	if _, err := schema.ParseGroupVersion(o["apiVersion"].(string)); err != nil {
		return fmt.Sprintf("apiVersion: %q must be a group and a version, such as apps/v1", shorten(o["apiVersion"].(string)))
	}
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		return "metadata must be an object"
	}
	if name, ok := meta["name"].(string); !ok || name == "" {
		if _, generated := meta["generateName"]; generated {
			return "metadata.name is missing: an object with generateName cannot be matched"
		}
		return "metadata.name must be text, and not empty"
	}
	if ns, there := meta["namespace"]; there && ns != nil {
		if _, ok := ns.(string); !ok {
			return "metadata.namespace must be text"
		}
	}
	return ""
}

// shorten bounds what an error repeats of its input.
func shorten(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
