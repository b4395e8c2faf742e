package schema

import (
	"slices"
	"strings"
)

// The rules by which a server derives a field from its siblings. Rules with "Default" apply
// [Field.Default] on a condition.
const (
	noRule Rule = iota
	// ruleCopyLimits is limits, for a Pod's requests.
	ruleCopyLimits
	// ruleCopyPort is port, for a Service's targetPort.
	ruleCopyPort
	// ruleCopyContainerPort is containerPort, for the hostPort in a host's network.
	ruleCopyContainerPort
	// ruleCopyServiceAccountName is serviceAccountName, for its older name.
	ruleCopyServiceAccountName
	// ruleCopyDataSource and ruleCopyDataSourceRef copy the other field of the two.
	ruleCopyDataSource
	ruleCopyDataSourceRef
	// ruleCopyMax and ruleCopyDefault copy these fields of a LimitRange.
	ruleCopyMax
	ruleCopyDefault
	// ruleTemplateLabels is template.metadata.labels, for an older selector.
	ruleTemplateLabels
	// rulePullPolicy is Always for an image without a tag or with latest; in a volume the field is
	// called reference.
	rulePullPolicy
	rulePullPolicyOfVolume
	// ruleRolling is Default if type is RollingUpdate.
	ruleRolling
	// ruleBackoff is Default, or no limit if there is one for each index.
	ruleBackoff
	// ruleReplacement is Default, or Failed if there is a podFailurePolicy.
	ruleReplacement
	// rulePolicyTypes are Ingress, and Egress if there is any.
	rulePolicyTypes
	// ruleAllocated and ruleAllocatedList are the existing value, but not None.
	ruleAllocated
	ruleAllocatedList
	// ruleExternal is Default for a Service with external traffic, ruleInternal for one that is not
	// ExternalName, ruleBalanced for a load balancer.
	ruleExternal
	ruleInternal
	ruleBalanced
	// ruleFamilyPolicy is Default, or RequireDualStack without a selector and address.
	ruleFamilyPolicy
	// ruleClientIP is Default if sessionAffinity is ClientIP.
	ruleClientIP
	// ruleSingular and ruleListKind are derived from kind.
	ruleSingular
	ruleListKind
	// ruleSubjectGroup is Default, but not for a ServiceAccount.
	ruleSubjectGroup
	// ruleAggregated is the existing rules, which a controller aggregates.
	ruleAggregated
	// ruleExactCount is Default if allocationMode is ExactCount; ruleDeviceClass and ruleDeviceCount
	// also require a deviceClassName.
	ruleExactCount
	ruleDeviceClass
	ruleDeviceCount
	// ruleAlone is Default if only name is set besides.
	ruleAlone
)

// ruleNamed returns the rule with a name in the table.
func ruleNamed(name string) Rule {
	names := [...]string{
		"", "limits", "port", "containerPort", "serviceAccountName", "dataSource", "dataSourceRef", "max", "default",
		"templateLabels", "pullPolicy", "pullPolicyOfVolume", "rolling", "backoff", "replacement", "policyTypes", "allocated", "allocatedList",
		"external", "internal", "balanced", "familyPolicy", "clientIP", "singular", "listKind", "subjectGroup",
		"aggregated", "exactCount", "deviceClass", "deviceCount", "alone",
	}
	for i, n := range names {
		if n == name {
			return Rule(i)
		}
	}
	return noRule
}

// DefaultIn returns the value that a server sets if the field is absent. parent is the member's
// map that contains the field, or would contain it. The value must not be changed. It is complete
// JSON with numbers as int64 or float64: a struct has the defaults of its own fields, and a map
// the entries that a server adds to existing ones, for example to the requests of a Pod.
// DefaultIn may be called on a nil Field.
func (f *Field) DefaultIn(parent map[string]any) (value any, ok bool) {
	if f == nil {
		return nil, false
	}
	value = f.Default
	if f.Derive != noRule {
		value = f.derive(parent)
	}
	return value, value != nil
}

// ImmutableIn reports whether a server refuses to change the field in an object with this parent:
// it is Immutable, or Sealed by an immutable: true beside it.
func (f *Field) ImmutableIn(parent map[string]any) bool {
	return f != nil && (f.Immutable || f.Sealed && parent["immutable"] == true)
}

// derive applies the rule of a field.
func (f *Field) derive(parent map[string]any) any {
	switch f.Derive {
	case ruleCopyLimits:
		return parent["limits"]
	case ruleCopyPort:
		return parent["port"]
	case ruleCopyContainerPort:
		return parent["containerPort"]
	case ruleCopyServiceAccountName:
		return parent["serviceAccountName"]
	case ruleCopyDataSource:
		return parent["dataSource"]
	case ruleCopyDataSourceRef:
		return parent["dataSourceRef"]
	case ruleCopyMax:
		return parent["max"]
	case ruleCopyDefault:
		return firstOf(parent, "default", "max", "min")
	case ruleTemplateLabels:
		return templateLabels(parent)
	case rulePullPolicy:
		return pullPolicy(parent["image"])
	case rulePullPolicyOfVolume:
		return pullPolicy(parent["reference"])
	case rulePolicyTypes:
		return policyTypes(parent)
	case ruleAllocated:
		return allocated(parent)
	case ruleAllocatedList:
		return allocatedList(parent)
	case ruleSingular:
		return singular(parent)
	case ruleListKind:
		return listKind(parent)
	default:
		return f.conditional(parent)
	}
}

// conditional applies the rules that choose between Default and another constant.
func (f *Field) conditional(parent map[string]any) any {
	apply, other := true, any(nil)
	switch f.Derive {
	case ruleRolling:
		apply = isOneOf(parent["type"], "RollingUpdate", "")
	case ruleBackoff:
		apply, other = parent["backoffLimitPerIndex"] == nil, any(int64(1<<31-1))
	case ruleReplacement:
		apply, other = parent["podFailurePolicy"] == nil, any("Failed")
	case ruleExternal:
		apply = isOneOf(parent["type"], "NodePort", "LoadBalancer") || !isEmpty(parent["externalIPs"])
	case ruleInternal:
		apply = parent["type"] != "ExternalName"
	case ruleBalanced:
		apply = parent["type"] == "LoadBalancer"
	case ruleFamilyPolicy:
		return f.familyPolicy(parent)
	case ruleClientIP:
		apply = parent["sessionAffinity"] == "ClientIP"
	case ruleSubjectGroup:
		apply = isOneOf(parent["kind"], "User", "Group")
	case ruleAggregated:
		apply, other = parent["aggregationRule"] == nil, parent["rules"]
	case ruleExactCount:
		apply = isOneOf(parent["allocationMode"], "ExactCount", "")
	case ruleDeviceClass:
		apply = parent["deviceClassName"] != nil
	case ruleDeviceCount:
		apply = parent["deviceClassName"] != nil && isOneOf(parent["allocationMode"], "ExactCount", "")
	case ruleAlone:
		apply = isAlone(parent)
	default:
	}
	if apply {
		return f.Default
	}
	return other
}

// firstOf returns the first existing one of some fields.
func firstOf(parent map[string]any, names ...string) any {
	for _, name := range names {
		if v := parent[name]; v != nil {
			return v
		}
	}
	return nil
}

// isOneOf reports whether v is one of some strings; an absent value counts as "".
func isOneOf(v any, all ...string) bool {
	s, ok := v.(string)
	if !ok && v != nil {
		return false
	}
	return slices.Contains(all, s)
}

func isEmpty(v any) bool {
	list, ok := v.([]any)
	return v == nil || ok && len(list) == 0
}

func templateLabels(parent map[string]any) any {
	template, _ := parent["template"].(map[string]any)
	meta, _ := template["metadata"].(map[string]any)
	return meta["labels"]
}

// pullPolicy parses an image's name: its tag is after the last colon, unless a slash follows,
// which makes it a port; a digest without a tag counts like a tag.
func pullPolicy(image any) any {
	name, ok := image.(string)
	if !ok {
		return nil
	}
	name, _, pinned := strings.Cut(name, "@")
	tag := name[strings.LastIndexByte(name, ':')+1:]
	if tagged := tag != name && !strings.Contains(tag, "/"); tagged && tag != "latest" || pinned && !tagged {
		return "IfNotPresent"
	}
	return "Always"
}

// policyTypes returns the existing value if it equals the default, to avoid an allocation.
func policyTypes(parent map[string]any) any {
	have, _ := parent["policyTypes"].([]any)
	both := !isEmpty(parent["egress"])
	switch {
	case !both && len(have) == 1 && have[0] == "Ingress", both && len(have) == 2 && have[0] == "Ingress" && have[1] == "Egress":
		return parent["policyTypes"]
	case both:
		return []any{"Ingress", "Egress"}
	}
	return []any{"Ingress"}
}

// allocated returns the address that a server gave a Service. None is a user's choice.
func allocated(parent map[string]any) any {
	if ip, ok := parent["clusterIP"].(string); ok && ip != "" && ip != "None" {
		return parent["clusterIP"]
	}
	return nil
}

// allocatedList returns the addresses that begin with clusterIP, which a server always adds.
func allocatedList(parent map[string]any) any {
	ip, ok := parent["clusterIP"].(string)
	if !ok || ip == "" {
		return nil
	}
	if list, ok := parent["clusterIPs"].([]any); ok && len(list) > 0 && isOneOf(list[0], ip) {
		return parent["clusterIPs"]
	}
	return []any{ip}
}

func (f *Field) familyPolicy(parent map[string]any) any {
	switch {
	case parent["type"] == "ExternalName":
		return nil
	case parent["clusterIP"] == "None" && parent["selector"] == nil:
		return "RequireDualStack"
	}
	return f.Default
}

// singular returns the existing value if it equals the default.
func singular(parent map[string]any) any {
	kind, ok := parent["kind"].(string)
	have, _ := parent["singular"].(string)
	switch {
	case !ok:
		return nil
	case strings.EqualFold(have, kind) && have == strings.ToLower(have):
		return parent["singular"]
	}
	return strings.ToLower(kind)
}

// listKind returns the existing value if it equals the default.
func listKind(parent map[string]any) any {
	kind, ok := parent["kind"].(string)
	have, _ := parent["listKind"].(string)
	switch {
	case !ok:
		return nil
	case have != "" && have[:max(0, len(have)-len("List"))] == kind && strings.HasSuffix(have, "List"):
		return parent["listKind"]
	}
	return kind + "List"
}

// isAlone reports whether a volume has nothing but its name and the default itself.
func isAlone(parent map[string]any) bool {
	for name := range parent {
		if name != "name" && name != "emptyDir" {
			return false
		}
	}
	return true
}
