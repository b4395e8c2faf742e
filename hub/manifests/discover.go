package manifests

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/slipway-dev/slipway/snapshot"
)

// discoveredRole allows reading the kinds that the server had at the installation and no manifest
// names. It is aggregated to the role for custom kinds.
const discoveredRole = "slipway-hub-source-discovered"

// AggregateToHub is a label of ClusterRoles. The hub of [HubRBAC] also gets the rights of a role
// that has the label with the value "true". It is for the owners of kinds that placements select.
const AggregateToHub = "slipway.dev/aggregate-to-hub-source"

// discovered returns the role that lets a hub read the kinds of the server that its other roles do
// not name. The role has no rules if the hub has Sources of its own.
func (in *installer) discovered(hub *HubOptions, others []*unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var rules []rbacv1.PolicyRule
	if len(hub.Sources) == 0 {
		_, lists, err := in.disco.ServerGroupsAndResources()
		if err := unanswered(err); err != nil {
			return nil, err
		}
		rules = readable(lists, namedBy(others))
	}
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	u.SetName(discoveredRole)
	u.SetLabels(map[string]string{"app.kubernetes.io/part-of": "slipway", AggregateToHub: "true"})
	return u, setRules(u, rules)
}

// unanswered returns the error of a discovery that lacks kinds that may be placed. Without that
// error the hub would lose an earlier right to read them.
func unanswered(err error) error {
	var partial *discovery.ErrGroupDiscoveryFailed
	if !errors.As(err, &partial) {
		return err
	}
	for gv, cause := range partial.Groups {
		if (snapshot.Rules{}).AllowsKind(gv.Group, "Any") {
			return fmt.Errorf("the kinds of %s on the server cannot be discovered now, so that the hub could lack the right to read them: %w", gv, cause)
		}
	}
	return nil
}

// namedBy returns the resources in the rules of roles.
func namedBy(roles []*unstructured.Unstructured) map[schema.GroupResource]bool {
	named := map[schema.GroupResource]bool{}
	for _, u := range roles {
		rules, _, _ := unstructured.NestedSlice(u.Object, "rules")
		for _, r := range rules {
			r, _ := r.(map[string]any)
			groups, _, _ := unstructured.NestedStringSlice(r, "apiGroups")
			resources, _, _ := unstructured.NestedStringSlice(r, "resources")
			for _, g := range groups {
				for _, name := range resources {
					named[schema.GroupResource{Group: g, Resource: name}] = true
				}
			}
		}
	}
	return named
}

// readable returns rules to read the kinds that may be placed and are not in named: one rule for
// each group, sorted by group.
func readable(lists []*metav1.APIResourceList, named map[schema.GroupResource]bool) (rules []rbacv1.PolicyRule) {
	found := map[string][]string{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // an aggregated server whose group version is invalid serves nothing
		}
		for _, r := range list.APIResources {
			whole := !strings.Contains(r.Name, "/") && slices.Contains(r.Verbs, "get") && slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
			if whole && (snapshot.Rules{}).AllowsKind(gv.Group, r.Kind) && !named[gv.WithResource(r.Name).GroupResource()] {
				found[gv.Group] = append(found[gv.Group], r.Name)
			}
		}
	}
	for group, names := range found {
		slices.Sort(names)
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: slices.Compact(names), Verbs: []string{"get", "list", "watch"}})
	}
	slices.SortFunc(rules, func(a, b rbacv1.PolicyRule) int { return strings.Compare(a.APIGroups[0], b.APIGroups[0]) })
	return rules
}
