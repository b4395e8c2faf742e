package manifests

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

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

// load reads the objects in a directory, in the order of its files.
func load(dir string) ([]*unstructured.Unstructured, error) {
	names, err := fs.Glob(files, dir+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("manifests: %s: %w", dir, err)
	}
	var all []*unstructured.Unstructured
	for _, name := range names {
		objects, err := loadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// loadFile reads the objects of a file.
func loadFile(name string) ([]*unstructured.Unstructured, error) {
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
