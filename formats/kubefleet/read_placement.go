package kubefleet

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/snapshot"
)

func (d *document) placement(namespaced bool) (fleet.Placement, Rollout) {
	p, rollout := fleet.Placement{Name: d.engineName(namespaced)}, defaultRollout()
	d.read(metadata{namespaced: namespaced, name: value.subdomain}, func(v value) {
		v.object(fields{
			"resourceSelectors": func(v value) {
				v.list(func(v value) { p.Selectors = append(p.Selectors, v.resourceSelector()) })
			},
			"policy":               func(v value) { p.Policy = v.policy() },
			"strategy":             func(v value) { rollout = v.rollout(&p) },
			"revisionHistoryLimit": func(v value) { p.HistoryLimit = v.historyLimit() },
			"statusReportingScope": func(v value) {
				v.supported([]string{"ClusterScopeOnly"}, []string{"NamespaceAccessible"})
			},
		}, "resourceSelectors")
	}, "spec")
	if namespaced {
		d.confine(p.Selectors)
	}
	d.check(snapshot.ValidateSelectors(p.Selectors, field.NewPath("spec", "resourceSelectors")).ToAggregate(), selectorPath)
	d.check(p.Policy.Validate(), policyPath)
	return p, rollout
}

// confine keeps the selectors of a ResourcePlacement to its namespace.
func (d *document) confine(selectors []snapshot.Selector) {
	for i := range selectors {
		s := &selectors[i]
		if path := fmt.Sprintf("spec.resourceSelectors[%d].kind", i); isClusterScoped(s.Group, s.Kind) {
			d.report(d.find(path), path, fmt.Sprintf(
				"a %s is cluster-scoped, and a ResourcePlacement places what is in its namespace; write a ClusterResourcePlacement", s.Kind))
			continue
		}
		s.Namespace = d.namespace
	}
}

// isClusterScoped tells kinds of Kubernetes that are in no namespace. Of others
// only a server knows.
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

// selectorPath is where a field of a snapshot.Selector stands.
func selectorPath(noun string) string {
	if strings.HasSuffix(noun, "].namespace") {
		return "metadata.namespace"
	}
	return noun
}

func (v value) resourceSelector() snapshot.Selector {
	var s snapshot.Selector
	v.object(fields{
		"group":          func(v value) { s.Group = v.str() },
		"version":        func(v value) { s.Version = v.str() },
		"kind":           func(v value) { s.Kind = v.str() },
		"name":           func(v value) { s.Name = v.str() },
		"labelSelector":  func(v value) { s.LabelSelector = v.labelSelector() },
		"selectionScope": func(v value) { s.Scope = v.selectionScope() },
	}, "version", "kind")
	return s
}

// selectionScope reads what a Namespace brings along. The default, which an API
// server writes into every selector, is empty.
func (v value) selectionScope() snapshot.Scope {
	scope := snapshot.Scope(v.oneOf(
		string(snapshot.NamespaceOnly), string(snapshot.NamespaceWithResources), string(snapshot.NamespaceWithResourceSelectors)))
	if scope == snapshot.NamespaceWithResources {
		return ""
	}
	return scope
}

func (v value) historyLimit() int {
	n, ok := v.integer()
	if ok && (n < 1 || n > 1000) {
		v.fail("must be from 1 to 1000, not %d", n)
	}
	return int(n)
}

// rollout reads spec.strategy.
func (v value) rollout(p *fleet.Placement) Rollout {
	rollout := defaultRollout()
	v.object(fields{
		"type":          func(v value) { rollout.Type = RolloutType(v.oneOf(string(External), string(RollingUpdate))) },
		"rollingUpdate": func(v value) { v.rollingUpdate(&rollout) },
		"applyStrategy": func(v value) { v.applyStrategy(p) },
		"deleteStrategy": func(v value) {
			v.object(fields{"propagationPolicy": func(v value) { v.supported([]string{"Delete"}, []string{"Abandon"}) }})
		},
		"reportBackStrategy": func(v value) {
			v.object(fields{
				"type":        func(v value) { v.supported([]string{"Disabled"}, []string{"Mirror"}) },
				"destination": unsupported,
			})
		},
	})
	if rollout.Type != External {
		return rollout
	}
	if settings, ok := v.get("rollingUpdate"); ok && !settings.isNull() {
		settings.fail("goes with the type RollingUpdate only; leave it out")
	}
	return Rollout{Type: External}
}

// applyStrategy reads how objects are applied. Slipway applies on the server
// and takes fields over from other managers, whichever type is asked for.
func (v value) applyStrategy(p *fleet.Placement) {
	s := &p.ApplyStrategy
	v.object(fields{
		"type": func(v value) {
			s.Type = fleet.ApplyType(v.oneOf(string(fleet.ClientSideApply), string(fleet.ServerSideApply), string(fleet.ReportDiff)))
		},
		"comparisonOption":  func(v value) { s.ComparisonOption = v.comparison() },
		"comparisonOptions": func(v value) { v.comparisonOptions(s) },
		"whenToApply": func(v value) {
			s.WhenToApply = fleet.WhenToApply(v.oneOf(string(fleet.Always), string(fleet.IfNotDrifted)))
		},
		"whenToTakeOver": func(v value) {
			s.WhenToTakeOver = fleet.WhenToTakeOver(v.oneOf(string(fleet.TakeOverAlways), string(fleet.IfNoDiff), string(fleet.Never)))
		},
		"allowCoOwnership": func(v value) { p.AllowCoOwnership = v.boolean() },
		"serverSideApplyConfig": func(v value) {
			v.object(fields{"force": value.force})
		},
	})
}

// comparison reads which differences count, in the spelling of the resource or
// in that of the documentation.
func (v value) comparison() drift.Comparison {
	s := v.oneOf(string(drift.Partial), string(drift.Full), "partialComparison", "fullComparison")
	if s == "" {
		return ""
	}
	return drift.Comparison(strings.ToUpper(s[:1]) + s[1:])
}

// comparisonOptions reads the other name of comparisonOption.
func (v value) comparisonOptions(s *fleet.ApplyStrategy) {
	other := v.comparison()
	if s.ComparisonOption != "" && s.ComparisonOption != other {
		v.fail("is another name of comparisonOption, which says %s; leave one of them out", s.ComparisonOption)
		return
	}
	s.ComparisonOption = other
}

// force reads whether to take fields over from other managers, which Slipway
// always does.
func (v value) force() {
	if !v.boolean() && !v.doc.broken[v.path] {
		v.fail("false is not supported yet; write true")
	}
}
