package kubefleet

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/apply"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

func readPlacement(d *document, namespaced bool) (fleet.Placement, Rollout) {
	p, rollout := fleet.Placement{Name: engineNameOf(d, namespaced), ApplyStrategy: defaultApplyStrategy()}, defaultRollout()
	namespaceStatus := false
	readObject(d, metadata{namespaced: namespaced, name: subdomain}, func(v value) {
		v.Object(fields{
			"resourceSelectors": func(v value) {
				p.Selectors = yamldoc.List(v, resourceSelector)
			},
			"carry": func(v value) {
				p.Carry = yamldoc.List(v, func(v value) snapshot.Carry { return yamldoc.OneOf(v, snapshot.CarryDefaulted, snapshot.CarryOwned) })
			},
			"policy":               func(v value) { p.Policy = policy(v) },
			"strategy":             func(v value) { rollout = readRollout(v, &p) },
			"revisionHistoryLimit": func(v value) { p.HistoryLimit = v.Integer(1, 1000) },
			"statusReportingScope": func(v value) {
				namespaceStatus = yamldoc.OneOf(v, v1beta1.ClusterScopeOnly, v1beta1.NamespaceAccessible) == v1beta1.NamespaceAccessible
			},
		}, "resourceSelectors")
	}, "spec")
	rollout.NamespaceStatus = namespaceStatus
	if namespaced {
		p.Namespace = d.Namespace
		confine(d, p.Selectors)
	}
	d.Root().Check(snapshot.ValidateSelectors(p.Selectors, field.NewPath("spec", "resourceSelectors")).ToAggregate(), selectorPath)
	d.Root().Check(p.Policy.Validate(), policyPath)
	return p, rollout
}

// confine keeps the selectors of a ResourcePlacement to its namespace.
func confine(d *document, selectors []snapshot.Selector) {
	for i := range selectors {
		s := &selectors[i]
		if path := fmt.Sprintf("spec.resourceSelectors[%d].kind", i); isClusterScoped(s.Group, s.Kind) {
			d.Root().Place(path).Fail(
				"a %s is cluster-scoped, and a ResourcePlacement places what is in its namespace; write a ClusterResourcePlacement", s.Kind)
			continue
		}
		s.Namespace = d.Namespace
	}
}

// isClusterScoped reports whether Kubernetes defines the kind as cluster-scoped. It returns false
// for unknown kinds, because only a server knows their scope.
func isClusterScoped(group, kind string) bool {
	switch group {
	case "":
		return kind == "Namespace" || kind == "Node" || kind == "PersistentVolume"
	case "rbac.authorization.k8s.io":
		return kind == "ClusterRole" || kind == "ClusterRoleBinding"
	case "networking.k8s.io":
		return kind == "IngressClass"
	case "storage.k8s.io":
		return kind != "CSIStorageCapacity"
	case "apiextensions.k8s.io", "apiregistration.k8s.io", "admissionregistration.k8s.io", "scheduling.k8s.io", "certificates.k8s.io", clusterGroup:
		return true
	}
	return false
}

// selectorPath returns the path in the document of a field of a snapshot.Selector.
func selectorPath(noun string) string {
	if strings.HasSuffix(noun, "].namespace") {
		return "metadata.namespace"
	}
	return noun
}

func resourceSelector(v value) snapshot.Selector {
	var s snapshot.Selector
	v.Object(fields{
		"group":          func(v value) { s.Group = v.Str() },
		"version":        func(v value) { s.Version = v.Str() },
		"kind":           func(v value) { s.Kind = v.Str() },
		"name":           func(v value) { s.Name = v.Str() },
		"labelSelector":  func(v value) { s.LabelSelector = labelSelector(v) },
		"selectionScope": func(v value) { s.Scope = selectionScope(v) },
	}, "version", "kind")
	return s
}

// selectionScope reads the scope that a Namespace selects. The default, which an API server writes
// into every selector, becomes the empty scope.
func selectionScope(v value) snapshot.Scope {
	scope := yamldoc.OneOf(v, snapshot.NamespaceOnly, snapshot.NamespaceWithResources, snapshot.NamespaceWithResourceSelectors)
	if scope == snapshot.NamespaceWithResources {
		return ""
	}
	return scope
}

// readRollout reads spec.strategy.
func readRollout(v value, p *fleet.Placement) Rollout {
	rollout := defaultRollout()
	v.Object(fields{
		"type": func(v value) {
			rollout.Type = yamldoc.OneOf(v, v1beta1.ExternalRolloutStrategyType, v1beta1.RollingUpdateRolloutStrategyType)
		},
		"rollingUpdate": func(v value) { rollingUpdate(v, &rollout) },
		"applyStrategy": func(v value) { applyStrategy(v, p) },
		"deleteStrategy": func(v value) {
			v.Object(fields{"propagationPolicy": func(v value) {
				p.DeletePolicy = yamldoc.OneOf(v, placement.DeleteAll, placement.Abandon, placement.DeleteCreated)
			}})
		},
		"reportBackStrategy": func(v value) { rollout.ReportBack = reportBack(v) },
	})
	if rollout.Type != v1beta1.ExternalRolloutStrategyType {
		return rollout
	}
	if settings, ok := v.Get("rollingUpdate"); ok && !settings.IsNull() {
		settings.Fail("goes with the type RollingUpdate only; leave it out")
	}
	return Rollout{Type: v1beta1.ExternalRolloutStrategyType, ReportBack: rollout.ReportBack}
}

// reportBack reads the destination of the status of placed objects. Without the type Mirror a
// destination has no effect, as in KubeFleet.
func reportBack(v value) (to v1beta1.ReportBackDestination) {
	mirrors := false
	v.Object(fields{
		"type": func(v value) {
			mirrors = yamldoc.OneOf(v, v1beta1.ReportBackStrategyTypeDisabled, v1beta1.ReportBackStrategyTypeMirror) == v1beta1.ReportBackStrategyTypeMirror
		},
		"destination": func(v value) {
			to = yamldoc.OneOf(v, v1beta1.ReportBackDestinationOriginalResource, v1beta1.ReportBackDestinationWorkAPI)
		},
	})
	destination, given := v.Get("destination")
	switch {
	case !mirrors:
		return ""
	case !given || destination.IsNull():
		v.Fail("with the type Mirror a destination must be specified, OriginalResource or WorkAPI")
	}
	return to
}

// defaultApplyStrategy returns the defaults of KubeFleet's API. An API server writes them into an
// applyStrategy that is there, and KubeFleet's agents assume them if there is none.
func defaultApplyStrategy() apply.Strategy {
	return apply.Strategy{
		Type: apply.ClientSide, ComparisonOption: drift.Partial, WhenToApply: apply.Always, WhenToTakeOver: apply.TakeOverAlways,
	}
}

// applyStrategy reads how objects are applied. Slipway applies on the server for every type. It
// takes fields over from other managers unless the type is ServerSideApply without force.
func applyStrategy(v value, p *fleet.Placement) {
	s, defaults := &p.ApplyStrategy, defaultApplyStrategy()
	*s = apply.Strategy{}
	force := false
	v.Object(fields{
		"type": func(v value) {
			s.Type = yamldoc.OneOf(v, apply.ClientSide, apply.ServerSide, apply.ReportDiff)
		},
		"comparisonOption":  func(v value) { s.ComparisonOption = comparison(v) },
		"comparisonOptions": func(v value) { comparisonOptions(v, s) },
		"whenToApply":       func(v value) { s.WhenToApply = yamldoc.OneOf(v, apply.Always, apply.IfNotDrifted) },
		"whenToTakeOver":    func(v value) { s.WhenToTakeOver = yamldoc.OneOf(v, apply.TakeOverAlways, apply.IfNoDiff, apply.Never) },
		"allowCoOwnership":  func(v value) { p.AllowCoOwnership = v.Boolean() },
		"serverSideApplyConfig": func(v value) {
			v.Object(fields{"force": func(v value) { force = v.Boolean() }})
		},
	})
	s.Type, s.ComparisonOption = cmp.Or(s.Type, defaults.Type), cmp.Or(s.ComparisonOption, defaults.ComparisonOption)
	s.WhenToApply, s.WhenToTakeOver = cmp.Or(s.WhenToApply, defaults.WhenToApply), cmp.Or(s.WhenToTakeOver, defaults.WhenToTakeOver)
	config, ok := v.Get("serverSideApplyConfig")
	switch {
	case s.Type == apply.ServerSide:
		s.RefuseConflicts = !force
	case ok && !config.IsNull():
		config.Fail("is only valid for ServerSideApply strategy type; leave it out")
	}
}

// comparison reads which differences count, in the spelling of the resource or of the
// documentation.
func comparison(v value) drift.Comparison {
	s := yamldoc.OneOf(v, string(drift.Partial), string(drift.Full), "partialComparison", "fullComparison")
	if s == "" {
		return ""
	}
	return drift.Comparison(strings.ToUpper(s[:1]) + s[1:])
}

// comparisonOptions reads the other name of comparisonOption.
func comparisonOptions(v value, s *apply.Strategy) {
	other := comparison(v)
	if s.ComparisonOption != "" && s.ComparisonOption != other {
		v.Fail("is another name of comparisonOption, which says %s; leave one of them out", s.ComparisonOption)
		return
	}
	s.ComparisonOption = other
}
