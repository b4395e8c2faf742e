package hubverbs

import (
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// The flags change the permitted kinds in placements of namespaces. The default is the kinds that
// the role edit may create.
func TestPermittedKindsOfNamespacedPlacements(t *testing.T) {
	const quota, binding, secret, configMap, flux = "/ResourceQuota", "rbac.authorization.k8s.io/RoleBinding", "/Secret", "/ConfigMap", "kustomize.toolkit.fluxcd.io/Kustomization"
	kinds := [][2]string{{"", "ResourceQuota"}, {"rbac.authorization.k8s.io", "RoleBinding"}, {"", "Secret"}, {"", "ConfigMap"}, {"kustomize.toolkit.fluxcd.io", "Kustomization"}}
	for name, c := range map[string]struct{ args, want []string }{
		"the default":         {nil, []string{secret, configMap, flux}},
		"a kind more":         {[]string{"--namespace-allow", "ResourceQuota"}, []string{quota, secret, configMap, flux}},
		"a group more":        {[]string{"--namespace-allow", "rbac.authorization.k8s.io"}, []string{binding, secret, configMap, flux}},
		"a part of a group":   {[]string{"--namespace-allow=rbac.authorization.k8s.io", "--namespace-deny=RoleBinding.rbac.authorization.k8s.io"}, []string{secret, configMap, flux}},
		"kinds less":          {[]string{"--namespace-deny", "Secret,kustomize.toolkit.fluxcd.io"}, []string{configMap}},
		"no other":            {[]string{"--namespace-only", "ConfigMap", "--namespace-only", "Deployment.apps,ResourceQuota"}, []string{configMap}},
		"no other, and more":  {[]string{"--namespace-only", "ConfigMap,ResourceQuota", "--namespace-allow", "ResourceQuota"}, []string{quota, configMap}},
		"what is allowed yet": {[]string{"--namespace-allow", "ConfigMap"}, []string{secret, configMap, flux}},
	} {
		t.Run(name, func(t *testing.T) {
			var r namespaceRules
			flags := pflag.NewFlagSet("hub", pflag.ContinueOnError)
			flags.SetOutput(io.Discard)
			r.addFlags(flags)
			if err := flags.Parse(c.args); err != nil {
				t.Fatal(err)
			}
			rules, err := r.rules()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, k := range kinds {
				if rules.AllowsKind(k[0], k[1]) {
					got = append(got, fmt.Sprint(k[0], "/", k[1]))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || len(rules.Validate(nil)) > 0 {
				t.Errorf("%v (-want +got):\n%s", rules.Validate(nil), diff)
			}
		})
	}
}
