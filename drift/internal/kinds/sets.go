package kinds

// Set is an atomic list of a built-in kind whose order means nothing to the API server or to any
// consumer of the list, so another order is no difference.
type Set struct {
	// Path leads to the list from the root of the object; * is any item of a list.
	Path []string
	// Keys identify the items, if they are references. Nil compares the items as a whole.
	Keys []string
}

// SetsOf returns the sets of a kind. A list is a set if a public document of Kubernetes says how
// its items are combined, and the combination does not depend on their order. Lists that are
// unordered only by convention are marked as unordered in the schema: there, another order is a
// difference, but no item is.
func SetsOf(group, kind string) []Set {
	switch kind + "." + group {
	case "RoleBinding.rbac.authorization.k8s.io", "ClusterRoleBinding.rbac.authorization.k8s.io":
		// A role is granted to each subject on its own, so a request is allowed if any of them matches:
		// kubernetes.io/docs/reference/access-authn-authz/rbac, "RoleBinding and ClusterRoleBinding".
		// The group of a subject follows from its kind and is not a key, because a server fills it in.
		return []Set{{Path: []string{"subjects"}, Keys: []string{"kind", "namespace", "name"}}}
	case "Role.rbac.authorization.k8s.io", "ClusterRole.rbac.authorization.k8s.io":
		// "Permissions are purely additive (there are no "deny" rules)":
		// kubernetes.io/docs/reference/access-authn-authz/rbac, "Role and ClusterRole".
		// "If any of the selectors match, then the ClusterRole's permissions will be
		// added": k8s.io/api/rbac/v1, AggregationRule.
		return []Set{
			{Path: []string{"rules"}},
			{Path: []string{"rules", "*", "verbs"}},
			{Path: []string{"rules", "*", "apiGroups"}},
			{Path: []string{"rules", "*", "resources"}},
			{Path: []string{"rules", "*", "resourceNames"}},
			{Path: []string{"rules", "*", "nonResourceURLs"}},
			{Path: []string{"aggregationRule", "clusterRoleSelectors"}},
		}
	case "NetworkPolicy.networking.k8s.io":
		// Traffic is allowed if it "matches at least one ingress rule" or egress rule; items of from,
		// to and ports "are combined using a logical OR operation": k8s.io/api/networking/v1,
		// NetworkPolicySpec, NetworkPolicyIngressRule and NetworkPolicyEgressRule. A policy applies to
		// each of its types separately.
		return []Set{
			{Path: []string{"spec", "policyTypes"}},
			{Path: []string{"spec", "ingress"}},
			{Path: []string{"spec", "ingress", "*", "from"}},
			{Path: []string{"spec", "ingress", "*", "ports"}},
			{Path: []string{"spec", "egress"}},
			{Path: []string{"spec", "egress", "*", "to"}},
			{Path: []string{"spec", "egress", "*", "ports"}},
		}
	case "ValidatingWebhookConfiguration.admissionregistration.k8s.io", "MutatingWebhookConfiguration.admissionregistration.k8s.io":
		// "The webhook cares about an operation if it matches _any_ Rule":
		// k8s.io/api/admissionregistration/v1, ValidatingWebhook and MutatingWebhook. The webhooks
		// themselves are called in order.
		return []Set{{Path: []string{"webhooks", "*", "rules"}}}
	case "Endpoints.":
		// Subsets are "sets of addresses and ports", and "the expanded set of endpoints is the
		// Cartesian product": k8s.io/api/core/v1, Endpoints and EndpointSubset. Controllers write them
		// in any order.
		return []Set{
			{Path: []string{"subsets"}},
			{Path: []string{"subsets", "*", "addresses"}},
			{Path: []string{"subsets", "*", "notReadyAddresses"}},
			{Path: []string{"subsets", "*", "ports"}},
		}
	case "EndpointSlice.discovery.k8s.io":
		// "endpoints is a list of unique endpoints in this slice", and each of its ports
		// "must have a unique name": k8s.io/api/discovery/v1, EndpointSlice. Controllers
		// write them in any order.
		return []Set{{Path: []string{"endpoints"}}, {Path: []string{"ports"}}}
	}
	return nil
}
