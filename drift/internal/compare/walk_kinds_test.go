package compare

import "testing"

func TestBuiltInKindsAreComparedByServerSemantics(t *testing.T) {
	pod := func(s string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers:\n  - name: c\n    image: x:1\n" + s
	}
	crd := func(s string) string {
		return "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {versions: [" + s + "]}"
	}
	account := func(s string) string {
		return "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: robot}\n" + s
	}
	v1 := "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {description: a}}}"
	changed := "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {description: b}}}"
	v2 := "{name: v2, served: true, storage: false}"
	for _, c := range []walkCase{
		{
			"requests take from limits what they lack",
			pod("    resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}"),
			pod("    resources: {limits: {cpu: \"1\", memory: 1Gi}, requests: {cpu: 500m, memory: 1024Mi}}"), "", "", "",
		},
		{
			"but not something else",
			pod("    resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 500m}}"),
			pod("    resources: {limits: {cpu: \"1\", memory: 1Gi}, requests: {cpu: 500m, memory: 2Gi, x: 1}}"),
			"", "+/spec/containers/0/resources/requests/memory +/spec/containers/0/resources/requests/x", "",
		},
		{
			"a difference in a version of a definition is named",
			crd(v2 + "," + v1), crd(v2 + "," + changed),
			"~/spec/versions/1/schema/openAPIV3Schema/description", "~/spec/versions/1/schema/openAPIV3Schema/description", "",
		},
		{"a version of a definition that the hub lacks", crd(v1), crd(v2 + "," + v1), "+/spec/versions/0", "+/spec/versions/0", ""},
		{"a version of a definition that the member lacks", crd(v2 + "," + v1), crd(v1), "-/spec/versions/0", "-/spec/versions/0", ""},
		{"a field in a version that the hub lacks", crd("{name: v1, schema: {}}"), crd("{name: v1, schema: {}, deprecated: true}"), "+/spec/versions/0/deprecated", "+/spec/versions/0/deprecated", ""},
		{"versions in another order", crd(v2 + "," + v1), crd(v1 + "," + v2), "o/spec/versions", "o/spec/versions", ""},
		{"tokens of an account", account(""), account("secrets: [{name: robot-token-abc}]\nimagePullSecrets: [{name: robot-dockercfg-abc}]"), "", "", ""},
		{"and a secret of another writer", account("imagePullSecrets: [{name: a}]"), account("secrets: [{name: robot-token-abc}, {name: mine}]\nimagePullSecrets: [{name: robot-dockercfg-abc}, {name: a}, {name: b}]"), "+/imagePullSecrets/2", "+/imagePullSecrets/2 +/secrets/1", ""},
		{
			"an aggregated role",
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}\nrules: []",
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\naggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}\nrules: [{verbs: [get], resources: [pods], apiGroups: [\"\"]}]",
			"", "", "",
		},
		{
			"addresses have no order",
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.1, 10.0.0.2]}, {addresses: [10.0.0.3]}]",
			"apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.3]}, {addresses: [10.0.0.2, 10.0.0.1]}]",
			"", "", "",
		},
		{
			"labels that a Job has from its template",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {metadata: {labels: {x: b}}}}",
			"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a, labels: {x: b, controller-uid: u, z: z}}\nspec: {template: {metadata: {labels: {x: b}}}}",
			"", "+/metadata/labels/z", "",
		},
	} {
		c.run(t, "", nil)
	}
}
