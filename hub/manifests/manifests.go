package manifests

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/slipway-dev/slipway/hub/compat"
)

//go:embed crds/*.yaml crds/*/*.yaml policies/*.yaml rbac/*.yaml optional/*.yaml applications/*.yaml applications/rbac/*.yaml
var files embed.FS

// Annotations of a run that name its creator and the requester of its rollback. Only the admission
// policies write them, when the run is created and when the rollback is requested.
const (
	// CreatedBy is the name of the user.
	CreatedBy = "slipway.dev/created-by"
	// CreatedByUID is the unique identifier of the user, if the authenticator has one.
	CreatedByUID = "slipway.dev/created-by-uid"
	// RollbackBy is the name of the user of the last change of spec.state to Rollback.
	RollbackBy = "slipway.dev/rollback-by"
)

// CRDs returns the CustomResourceDefinitions of the Fleet API for a compatibility setting,
// ascending by name. The definitions that depend on the setting have the label [compat.Label]. The
// caller may change them.
func CRDs(setting compat.Setting) ([]*unstructured.Unstructured, error) {
	all, err := load("crds")
	if err != nil || setting.OrDefault() == compat.Default {
		return all, err
	}
	own, err := load("crds/" + string(setting))
	if err == nil && len(own) == 0 {
		_, err = compat.Parse(string(setting))
	}
	for _, crd := range own {
		i := slices.IndexFunc(all, func(other *unstructured.Unstructured) bool { return other.GetName() == crd.GetName() })
		all[i] = crd
	}
	return all, err
}

// Applications returns the CustomResourceDefinitions of the application workflow: Application,
// Policy and Workflow. A hub with Config.Applications needs them in addition. The caller may change
// them.
func Applications() ([]*unstructured.Unstructured, error) { return load("applications") }

// Policies returns the admission policies and their bindings, each policy before its binding. The
// caller may change them.
func Policies() ([]*unstructured.Unstructured, error) { return load("policies") }

// load returns the objects in a directory, in the order of its files.
func load(dir string) ([]*unstructured.Unstructured, error) { return each(dir, loadFile) }

// each returns the objects of each file in a directory, in the order of the files.
func each(dir string, of func(name string) ([]*unstructured.Unstructured, error)) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, dir+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("manifests: %s: %w", dir, err)
	}
	var all []*unstructured.Unstructured
	for _, name := range names {
		objects, err := of(name)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// loaded has the objects of the files that were loaded; nothing changes them.
var loaded sync.Map //nolint:gochecknoglobals // a cache of what is compiled into the program

// loadFile returns the objects of a file, as copies of the objects that the first call has read.
func loadFile(name string) ([]*unstructured.Unstructured, error) {
	known, ok := loaded.Load(name)
	if !ok {
		all, err := readFile(name)
		if err != nil {
			return nil, err
		}
		known, _ = loaded.LoadOrStore(name, all)
	}
	var all []*unstructured.Unstructured
	for _, u := range known.([]*unstructured.Unstructured) {
		all = append(all, u.DeepCopy())
	}
	return all, nil
}

// readFile reads the objects of a file.
func readFile(name string) ([]*unstructured.Unstructured, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("manifests: %w", err)
	}
	all, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("manifests: %s: %w", name, err)
	}
	return all, nil
}

// parse reads YAML documents.
func parse(text []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		u := &unstructured.Unstructured{}
		err := d.Decode(u)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
}
