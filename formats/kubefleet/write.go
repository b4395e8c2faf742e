package kubefleet

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
)

const apiVersion = placementGroup + "/v1beta1"

// manifest is a document that is to be written.
type manifest map[string]any

// newManifest returns a document of one of KubeFleet's kinds.
func newManifest(kind, namespace, name string, spec map[string]any) manifest {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return manifest{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "spec": spec}
}

// Write returns all documents as YAML: objects, clusters, placements,
// overrides, strategies and runs, in this order. Reading it gives the same
// documents. The error names every field that the format cannot express.
func Write(d Documents) ([]byte, error) {
	var w writer
	for _, o := range d.Objects {
		w.object(o)
	}
	for _, c := range d.Clusters {
		w.cluster(c)
	}
	w.placements(d)
	for _, o := range d.Overrides {
		w.override(o)
	}
	for _, s := range d.Strategies {
		w.strategy(s)
	}
	for _, r := range d.Runs {
		w.run(r)
	}
	return w.yaml()
}

// WriteRun returns the run as YAML.
func WriteRun(r Run) ([]byte, error) {
	var w writer
	w.run(r)
	return w.yaml()
}

// WriteCluster returns the cluster as the YAML of a MemberCluster; its
// properties stand in the status. KubeFleet wants a spec.identity too, which
// Slipway does not know. The format has no place for a UID, nor for who is
// leaving or not healthy, so these are an error.
func WriteCluster(c placement.Cluster) ([]byte, error) {
	var w writer
	w.cluster(c)
	return w.yaml()
}

// WriteOverride returns the override as YAML.
func WriteOverride(o Override) ([]byte, error) {
	var w writer
	w.override(o)
	return w.yaml()
}

// writer collects documents and what is wrong with them.
type writer struct {
	docs []manifest
	errs []error
}

// add takes a document, or what is wrong with what it stands for.
func (w *writer) add(m manifest, errs field.ErrorList) {
	if len(errs) > 0 {
		name := m["metadata"].(map[string]any)["name"]
		w.errs = append(w.errs, fmt.Errorf("%v/%v: %w", m["kind"], name, errs.ToAggregate()))
		return
	}
	w.docs = append(w.docs, m)
}

// yaml returns the documents, separated by ---.
func (w *writer) yaml() ([]byte, error) {
	if len(w.errs) > 0 {
		return nil, errors.Join(w.errs...)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	for _, m := range w.docs {
		if err := e.Encode(yamldoc.NodeOf(map[string]any(m))); err != nil {
			return nil, fmt.Errorf("%v: has no YAML form", m["kind"])
		}
	}
	if err := e.Close(); err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	return b.Bytes(), nil
}

func (w *writer) run(r Run) {
	spec := map[string]any{"placementName": r.Placement, "stagedRolloutStrategyName": r.StrategyName, "state": string(r.State)}
	errs := subdomainErrors("name", r.Name)
	errs = append(errs, subdomainErrors("placement", r.Placement)...)
	errs = append(errs, subdomainErrors("strategyName", r.StrategyName)...)
	if r.Namespace != "" {
		errs = append(errs, nameErrors("namespace", r.Namespace)...)
	}
	if r.Index != nil {
		spec["resourceSnapshotIndex"] = fmt.Sprint(*r.Index)
		if *r.Index < 0 {
			errs = append(errs, field.Invalid(field.NewPath("index"), *r.Index, "must be at least 0"))
		}
	}
	switch r.State {
	case Initialize, RunState, Stop, Rollback:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("state"), r.State, []State{Initialize, RunState, Stop, Rollback}))
	}
	w.add(newManifest(scoped(r.Namespace, "StagedUpdateRun"), r.Namespace, r.Name, spec), errs)
}

func (w *writer) override(o Override) {
	kind, selectors := "ClusterResourceOverride", "clusterResourceSelectors"
	if o.Namespace != "" {
		kind, selectors = "ResourceOverride", "resourceSelectors"
	}
	spec := map[string]any{selectors: yamldoc.Plain(o.Selectors)}
	if o.Priority != 0 {
		spec["priority"] = int64(o.Priority)
	}
	if o.Placement != "" {
		named := map[string]any{"name": o.Placement}
		switch {
		case o.PlacementNamespace != "":
			named["scope"] = namespacedScope
		case o.Namespace != "" && !o.AnyScope:
			named["scope"] = clusterScope
		}
		spec["placement"] = named
	}
	errs := yamldoc.FieldErrors(o.Validate())
	if o.Placement != "" {
		errs = append(errs, subdomainErrors("placement", o.Placement)...)
	}
	if o.PlacementNamespace != "" && (o.PlacementNamespace != o.Namespace || o.Placement == "") {
		errs = append(errs, field.Invalid(field.NewPath("placementNamespace"), yamldoc.Clip(o.PlacementNamespace),
			"must be the namespace of the override, which names the placement"))
	}
	if len(errs) == 0 { // only valid values have a tree
		spec["policy"] = map[string]any{"overrideRules": yamldoc.Plain(writtenRules(o.Rules))}
	}
	w.add(newManifest(kind, o.Namespace, o.Name, spec), errs)
}

func (w *writer) placements(d Documents) {
	linked := link(d.Placements, d.Overrides)
	for i, p := range d.Placements {
		var errs field.ErrorList
		if !reflect.DeepEqual(linked[i].Overrides, p.Overrides) {
			errs = append(errs, field.Invalid(field.NewPath("overrides"), field.OmitValueType{},
				"must be those of Documents.Overrides that concern the placement"))
		}
		w.placement(p, d.Rollouts[p.Name], errs)
	}
}

// writtenRules returns the rules with a list, which KubeFleet wants, in every
// cluster selector.
func writtenRules(rules []placement.Rule) []placement.Rule {
	rules = slices.Clone(rules)
	for i, r := range rules {
		if r.ClusterSelector != nil && r.ClusterSelector.Terms == nil {
			rules[i].ClusterSelector = &placement.ClusterSelector{Terms: []placement.ClusterTerm{}}
		}
	}
	return rules
}

func nameErrors(path, name string) field.ErrorList {
	return checkName(path, name, validation.IsDNS1123Label)
}

func subdomainErrors(path, name string) field.ErrorList {
	return checkName(path, name, validation.IsDNS1123Subdomain)
}

// objectName turns an engine name into that of a document.
func objectName(engineName string) (namespace, name string, errs field.ErrorList) {
	namespace, name, ok := ObjectName(engineName)
	if !ok {
		return "", engineName, field.ErrorList{field.Invalid(field.NewPath("name"), yamldoc.Clip(engineName),
			"must be a name that EngineName makes, and not one that it cut")}
	}
	if namespace != "" {
		errs = nameErrors("name", namespace)
	}
	return namespace, name, append(errs, subdomainErrors("name", name)...)
}

func checkName(path, name string, check func(string) []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range check(name) {
		errs = append(errs, field.Invalid(field.NewPath(path), yamldoc.Clip(name), msg))
	}
	return errs
}

func inexpressible(path string) *field.Error {
	return field.Forbidden(field.NewPath(path), "the format has no place for it")
}
