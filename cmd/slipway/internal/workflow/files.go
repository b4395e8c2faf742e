package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/placement"
)

// documents are what files declare.
type documents struct {
	applications []*unstructured.Unstructured
	// objects are the policies, the workflows and what applications refer to, with the namespaces of all.
	objects  []*unstructured.Unstructured
	clusters []placement.Cluster
}

// readFiles reads files, and the files of directories whose names end as those of YAML and JSON do. The error has
// everything that is wrong in any of them. What has no namespace is in this one.
func readFiles(args []string, namespace string) (documents, error) {
	var docs documents
	paths, err := expand(args)
	if err != nil {
		return docs, err
	}
	var errs []error
	named := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		read, err := oam.Read(bytes.NewReader(text), path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, p := range read.Policies {
			topologyClusters(p, named)
		}
		for _, app := range read.Applications {
			for _, p := range app.Policies {
				topologyClusters(p, named)
			}
		}
		if err := docs.decode(text, namespace); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return docs, err
	}
	if len(docs.clusters) == 0 {
		for name := range named {
			docs.add(name, nil)
		}
	}
	if len(docs.applications) == 0 {
		return docs, errors.New("the files have no Application of core.oam.dev/v1beta1: nothing is delivered")
	}
	return docs, nil
}

// expand returns the files of directories in their place.
func expand(args []string) (paths []string, err error) {
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			paths = append(paths, arg)
			continue
		}
		entries, err := fs.ReadDir(os.DirFS(arg), ".")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
				paths = append(paths, filepath.Join(arg, e.Name()))
			}
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%v: no file ends with .yaml, .yml or .json", args)
	}
	return paths, nil
}

func topologyClusters(p oam.Policy, into map[string]bool) {
	if p.Topology != nil {
		for _, name := range p.Topology.Clusters {
			into[name] = true
		}
	}
}

// decode adds the documents of a file.
func (d *documents) decode(text []byte, namespace string) error {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text)+1)
	for {
		obj := &unstructured.Unstructured{}
		if err := decoder.Decode(&obj.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		switch kind := obj.GetKind(); {
		case len(obj.Object) == 0:
			continue
		case kind == "ManagedCluster" || kind == "MemberCluster":
			d.add(obj.GetName(), obj.GetLabels())
			continue
		case kind == "Namespace":
			d.objects = append(d.objects, obj)
			continue
		case obj.GetNamespace() == "":
			obj.SetNamespace(namespace)
		}
		if obj.GetKind() == "Application" && obj.GroupVersionKind().Group == "core.oam.dev" {
			d.applications = append(d.applications, obj)
		} else {
			d.objects = append(d.objects, obj)
		}
		d.ensureNamespace(obj.GetNamespace())
	}
}

// add adds a cluster.
func (d *documents) add(cluster string, labels map[string]string) {
	d.clusters = append(d.clusters, placement.Cluster{Name: cluster, Labels: labels})
}

// ensureNamespace adds a namespace that no file declares.
func (d *documents) ensureNamespace(name string) {
	if slices.ContainsFunc(d.objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "Namespace" && o.GetName() == name }) {
		return
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	ns.SetName(name)
	d.objects = append(d.objects, ns)
}
