package hubverbs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/slipway-dev/slipway/snapshot"
)

// namespaceRules are the flags for the objects that placements of namespaces may bring to
// members.
type namespaceRules struct{ allow, deny, only kinds }

// addFlags adds the flags.
func (r *namespaceRules) addFlags(flags *pflag.FlagSet) {
	flags.Var(&r.deny, "namespace-deny", "kinds or groups that are not placed with a namespace, such as Secret or kustomize.toolkit.fluxcd.io; kinds that the role edit cannot create are never placed with one")
	flags.Var(&r.allow, "namespace-allow", "kinds or groups that are placed with a namespace although the role edit cannot create them, such as ResourceQuota")
	flags.Var(&r.only, "namespace-only", "only these kinds or groups are placed with a namespace, such as ConfigMap,Deployment.apps")
}

// rules returns the rules for the engine, or an error if a kind is allowed that no flag denies.
func (r *namespaceRules) rules() (*snapshot.Rules, error) {
	rules := snapshot.NamespaceRules()
	for _, kind := range r.allow {
		i := slices.Index(rules.Never, kind)
		group := snapshot.GroupKind{Group: kind.Group}
		switch {
		case i >= 0:
			rules.Never = slices.Delete(rules.Never, i, i+1)
		case kind.Group != "" && slices.Contains(rules.Never, group):
			return nil, fmt.Errorf("--namespace-allow %s: the group is denied as a whole: allow %s, and deny kinds of it by --namespace-deny", kind, group)
		case !rules.AllowsKind(kind.Group, kind.Kind):
			return nil, fmt.Errorf("--namespace-allow %s: no placement brings this kind", kind)
		}
	}
	rules.Never = append(rules.Never, r.deny...)
	rules.Only = r.only
	return &rules, nil
}

// kinds is the value of a flag that lists kinds.
type kinds []snapshot.GroupKind

func (k *kinds) String() string {
	var names []string
	for _, kind := range *k {
		names = append(names, kind.String())
	}
	return strings.Join(names, ",")
}

func (k *kinds) Type() string { return "KIND.GROUP,..." }

// Set adds kinds. A name that begins in lower case is a group.
func (k *kinds) Set(list string) error {
	for name := range strings.SplitSeq(list, ",") {
		kind, group, _ := strings.Cut(strings.TrimSpace(name), ".")
		switch {
		case kind == "":
			return fmt.Errorf("%q names no kind: Secret, Deployment.apps, or example.com for a group", name)
		case 'A' <= kind[0] && kind[0] <= 'Z':
			*k = append(*k, snapshot.GroupKind{Group: group, Kind: kind})
		case group == "" && !slices.Contains([]string{"apps", "autoscaling", "batch", "extensions", "policy"}, kind):
			return fmt.Errorf("%q is no group, and a kind begins with an upper-case letter: Secret, Deployment.apps", kind)
		default:
			*k = append(*k, snapshot.GroupKind{Group: strings.TrimSpace(name)})
		}
	}
	return nil
}
