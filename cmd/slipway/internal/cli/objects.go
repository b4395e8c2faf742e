package cli

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

// IsObjects reports whether a file contains Kubernetes objects in the form of a hub, instead of
// one value of the library.
func IsObjects(text []byte) bool {
	for document := range bytes.SplitSeq(text, []byte("\n---")) {
		var head struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
		}
		if yaml.Unmarshal(document, &head) == nil && head.APIVersion != "" && head.Kind != "" {
			return true
		}
	}
	return false
}

// Objects reads the documents of a file of objects, see [IsObjects].
func Objects(path string, text []byte) (kubefleet.Documents, error) {
	return kubefleet.Read(bytes.NewReader(text), path)
}

// ReadStrategy reads the strategy of a run from a file: a value of the library, or the
// ClusterStagedUpdateStrategy or StagedUpdateStrategy of a hub. A staged update run in the same
// file selects the strategy, if there are several, and the snapshot, unless the spec has one.
func ReadStrategy(path string, spec *fleet.RunSpec) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !IsObjects(text) {
		return ReadFile(path, &spec.Strategy)
	}
	docs, err := Objects(path, text)
	if err != nil {
		return err
	}
	s, run, err := StrategyIn(docs)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	spec.Strategy = s
	if run != nil && spec.Index == nil {
		spec.Index = run.Index
	}
	if run != nil && run.State != v1beta1.StateRun {
		spec.Hold = true
	}
	return nil
}

// StrategyIn returns the strategy in documents: the strategy of their run, with the run, or the
// only strategy.
func StrategyIn(docs kubefleet.Documents) (stages.Strategy, *kubefleet.Run, error) {
	var run *kubefleet.Run
	switch len(docs.Runs) {
	case 0:
	case 1:
		run = &docs.Runs[0]
		if run.State == v1beta1.StateRollback {
			return stages.Strategy{}, nil, fmt.Errorf("run %s has the state Rollback: only a hub is told so; use the verb rollback", run.Name)
		}
	default:
		return stages.Strategy{}, nil, fmt.Errorf("there are %d runs: keep one of them", len(docs.Runs))
	}
	var names []string
	for _, s := range docs.Strategies {
		if run != nil && s.Name == kubefleet.EngineName(run.Namespace, run.StrategyName) || run == nil && len(docs.Strategies) == 1 {
			return s, run, nil
		}
		names = append(names, s.Name)
	}
	switch {
	case run != nil:
		return stages.Strategy{}, nil, fmt.Errorf("run %s names the strategy %s, which is not in the file: add its document, or name it on a hub", run.Name, run.StrategyName)
	case len(names) > 1:
		return stages.Strategy{}, nil, fmt.Errorf("there are the strategies %s: keep one of them, or add the run that names it", strings.Join(names, ", "))
	}
	return stages.Strategy{}, nil, fmt.Errorf("there is no ClusterStagedUpdateStrategy and no StagedUpdateStrategy, but %s", kindsIn(docs))
}

// ReadPolicy reads the policy of a placement from a file: a value of the library, or the policy
// of a ClusterResourcePlacement or ResourcePlacement of a hub.
func ReadPolicy(path string) (*placement.Policy, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p placement.Policy
	if !IsObjects(text) {
		return &p, ReadFile(path, &p)
	}
	docs, err := Objects(path, text)
	if err != nil {
		return nil, err
	}
	if len(docs.Placements) != 1 {
		return nil, fmt.Errorf("%s: there are %d placements: want one ClusterResourcePlacement or ResourcePlacement, there is %s", path, len(docs.Placements), kindsIn(docs))
	}
	return &docs.Placements[0].Policy, nil
}

// kindsIn lists the kinds in documents.
func kindsIn(docs kubefleet.Documents) string {
	var out []string
	for _, k := range []struct {
		n    int
		name string
	}{
		{len(docs.Strategies), "strategies"}, {len(docs.Runs), "runs"}, {len(docs.Placements), "placements"}, {len(docs.Overrides), "overrides"}, {len(docs.Clusters), "clusters"},
	} {
		if k.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", k.n, k.name))
		}
	}
	for _, obj := range docs.Objects {
		out = append(out, obj.GetKind()+" "+obj.GetName())
	}
	if len(out) == 0 {
		return "nothing"
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}
