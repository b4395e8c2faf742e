package schema

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// fieldAt follows names through structs, lists and maps of a kind of the table.
func fieldAt(t testing.TB, apiVersion, kind, path string) *Field {
	t.Helper()
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		t.Fatal(err)
	}
	at := Builtin().Type(gv.WithKind(kind))
	var f *Field
	for name := range strings.SplitSeq(path, ".") {
		for at != nil && at.Kind != Struct {
			at = at.Elem
		}
		if f = at.Field(name); f == nil {
			t.Fatalf("%s %s: there is no field %s of %s", apiVersion, kind, name, path)
		}
		at = f.Type
	}
	return f
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	js, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	m, _ := parseValue(string(js)).(map[string]any)
	return m
}

func TestDefaultsFollowTheFieldsBesideThem(t *testing.T) {
	const pod = "template.spec."
	for _, c := range []struct{ apiVersion, kind, path, parent, want string }{
		{"apps/v1", "Deployment", "spec.replicas", "{}", "1"},
		{"apps/v1", "Deployment", "spec.strategy.rollingUpdate", "{}", `{maxSurge: 25%, maxUnavailable: 25%}`},
		{"apps/v1", "Deployment", "spec.strategy.rollingUpdate", "{type: RollingUpdate}", `{maxSurge: 25%, maxUnavailable: 25%}`},
		{"apps/v1", "Deployment", "spec.strategy.rollingUpdate", "{type: Recreate}", ""},
		{"apps/v1", "Deployment", "spec.strategy.rollingUpdate", "{type: 1}", ""},
		{"apps/v1", "DaemonSet", "spec.updateStrategy.rollingUpdate", "{type: OnDelete}", ""},
		{"apps/v1", "StatefulSet", "spec.updateStrategy.rollingUpdate", "{}", "{partition: 0}"},
		{"apps/v1", "Deployment", "spec." + pod + "serviceAccount", "{serviceAccountName: a}", "a"},
		{"apps/v1", "Deployment", "spec." + pod + "serviceAccount", "{}", ""},
		{"apps/v1", "Deployment", "spec." + pod + "containers.resources.requests", "{limits: {cpu: 1}}", "{cpu: 1}"},
		{"apps/v1", "Deployment", "spec." + pod + "containers.ports.hostPort", "{containerPort: 80}", ""},
		{"apps/v1", "Deployment", "spec." + pod + "volumes.emptyDir", "{name: a}", "{}"},
		{"apps/v1", "Deployment", "spec." + pod + "volumes.emptyDir", "{name: a, hostPath: {path: /}}", ""},
		{"apps/v1", "Deployment", "spec." + pod + "volumes.image.pullPolicy", "{reference: a}", "Always"},
		{"v1", "Pod", "spec.containers.ports.hostPort", "{containerPort: 80}", "80"},
		{"v1", "Service", "spec.ports.targetPort", "{port: 80}", "80"},
		{"v1", "Service", "spec.clusterIP", "{clusterIP: 10.0.0.1}", "10.0.0.1"},
		{"v1", "Service", "spec.clusterIP", "{clusterIP: None}", ""},
		{"v1", "Service", "spec.clusterIP", "{clusterIP: {}}", ""},
		{"v1", "Service", "spec.clusterIPs", "{clusterIP: None}", "[None]"},
		{"v1", "Service", "spec.clusterIPs", "{clusterIP: a, clusterIPs: [a, b]}", "[a, b]"},
		{"v1", "Service", "spec.clusterIPs", "{clusterIP: a, clusterIPs: [{}]}", "[a]"},
		{"v1", "Service", "spec.clusterIPs", "{clusterIPs: [a]}", ""},
		{"v1", "Service", "spec.externalTrafficPolicy", "{type: NodePort}", "Cluster"},
		{"v1", "Service", "spec.externalTrafficPolicy", "{type: ClusterIP}", ""},
		{"v1", "Service", "spec.externalTrafficPolicy", "{externalIPs: [a]}", "Cluster"},
		{"v1", "Service", "spec.internalTrafficPolicy", "{type: ExternalName}", ""},
		{"v1", "Service", "spec.internalTrafficPolicy", "{}", "Cluster"},
		{"v1", "Service", "spec.allocateLoadBalancerNodePorts", "{type: LoadBalancer}", "true"},
		{"v1", "Service", "spec.allocateLoadBalancerNodePorts", "{}", ""},
		{"v1", "Service", "spec.ipFamilyPolicy", "{selector: {a: b}, clusterIP: None}", "SingleStack"},
		{"v1", "Service", "spec.ipFamilyPolicy", "{clusterIP: None}", "RequireDualStack"},
		{"v1", "Service", "spec.ipFamilyPolicy", "{type: ExternalName}", ""},
		{"v1", "Service", "spec.sessionAffinityConfig", "{sessionAffinity: ClientIP}", "{clientIP: {timeoutSeconds: 10800}}"},
		{"v1", "Service", "spec.sessionAffinityConfig", "{sessionAffinity: None}", ""},
		{"v1", "PersistentVolumeClaim", "spec.dataSource", "{dataSourceRef: {kind: A, name: b}}", "{kind: A, name: b}"},
		{"v1", "PersistentVolumeClaim", "spec.dataSourceRef", "{dataSource: {kind: A, name: b}}", "{kind: A, name: b}"},
		{"v1", "LimitRange", "spec.limits.default", "{max: {cpu: 1}}", "{cpu: 1}"},
		{"v1", "LimitRange", "spec.limits.defaultRequest", "{min: {cpu: 1}, max: {cpu: 2}}", "{cpu: 2}"},
		{"v1", "ReplicationController", "spec.selector", "{template: {metadata: {labels: {a: b}}}}", "{a: b}"},
		{"v1", "ReplicationController", "spec.selector", "{}", ""},
		{"batch/v1", "Job", "spec.backoffLimit", "{}", "6"},
		{"batch/v1", "Job", "spec.backoffLimit", "{backoffLimitPerIndex: 1}", "2147483647"},
		{"batch/v1", "Job", "spec.podReplacementPolicy", "{}", "TerminatingOrFailed"},
		{"batch/v1", "Job", "spec.podReplacementPolicy", "{podFailurePolicy: {}}", "Failed"},
		{"networking.k8s.io/v1", "NetworkPolicy", "spec.policyTypes", "{}", "[Ingress]"},
		{"networking.k8s.io/v1", "NetworkPolicy", "spec.policyTypes", "{egress: []}", "[Ingress]"},
		{"networking.k8s.io/v1", "NetworkPolicy", "spec.policyTypes", "{egress: [{}]}", "[Ingress, Egress]"},
		{"rbac.authorization.k8s.io/v1", "RoleBinding", "subjects.apiGroup", "{kind: User}", "rbac.authorization.k8s.io"},
		{"rbac.authorization.k8s.io/v1", "RoleBinding", "subjects.apiGroup", "{kind: ServiceAccount}", ""},
		{"rbac.authorization.k8s.io/v1", "ClusterRole", "rules", "{rules: [{}]}", ""},
		{"rbac.authorization.k8s.io/v1", "ClusterRole", "rules", "{aggregationRule: {}, rules: [{}]}", "[{}]"},
		{"resource.k8s.io/v1", "ResourceClaim", "spec.devices.requests.exactly.count", "{}", "1"},
		{"resource.k8s.io/v1", "ResourceClaim", "spec.devices.requests.exactly.count", "{allocationMode: All}", ""},
		{"resource.k8s.io/v1beta1", "ResourceClaim", "spec.devices.requests.count", "{}", ""},
		{"resource.k8s.io/v1beta1", "ResourceClaim", "spec.devices.requests.count", "{deviceClassName: a}", "1"},
		{"resource.k8s.io/v1beta1", "ResourceClaim", "spec.devices.requests.allocationMode", "{}", ""},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "spec.names.singular", "{kind: Widget}", "widget"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "spec.names.listKind", "{kind: Widget}", "WidgetList"},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", "spec.names.listKind", "{}", ""},
	} {
		got, ok := fieldAt(t, c.apiVersion, c.kind, c.path).DefaultIn(parse(t, c.parent))
		want := parse(t, "{v: "+c.want+"}")["v"]
		if diff := cmp.Diff(want, got); diff != "" || ok != (want != nil) {
			t.Errorf("%s %s in %s: %v (-want +got):\n%s", c.kind, c.path, c.parent, ok, diff)
		}
	}
}

func TestThePullPolicyFollowsFromTheTag(t *testing.T) {
	const digest = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	f := fieldAt(t, "v1", "Pod", "spec.containers.imagePullPolicy")
	for image, want := range map[string]any{
		"app":                               "Always",
		"app:latest":                        "Always",
		"app:1":                             "IfNotPresent",
		"example.com:5000/app":              "Always",
		"example.com:5000/app:latest":       "Always",
		"example.com:5000/app:1":            "IfNotPresent",
		"app" + digest:                      "IfNotPresent",
		"app:1" + digest:                    "IfNotPresent",
		"example.com:5000/a/b/app" + digest: "IfNotPresent",
	} {
		if got, _ := f.DefaultIn(map[string]any{"image": image}); got != want {
			t.Errorf("%s: %v, want %v", image, got, want)
		}
	}
	if _, ok := f.DefaultIn(map[string]any{}); ok {
		t.Error("there is a pull policy without an image")
	}
}

func TestDefaultsSurviveParentsOfAnyShape(t *testing.T) {
	values := []any{nil, "", "a", int64(1), true, 1.5, []any{}, []any{map[string]any{}}, map[string]any{}, map[string]any{"metadata": []any{}}}
	names := []string{
		"limits", "port", "type", "image", "reference", "kind", "clusterIP", "clusterIPs", "selector", "template",
		"egress", "externalIPs", "aggregationRule", "rules", "allocationMode", "deviceClassName", "sessionAffinity",
	}
	for rule := noRule; rule <= ruleAlone; rule++ {
		f := &Field{Derive: rule, Default: "x"}
		for _, v := range values {
			parent := map[string]any{}
			for _, name := range names {
				parent[name] = v
			}
			if _, ok := f.DefaultIn(parent); !ok && rule == noRule {
				t.Errorf("a constant default is not known beside %v", v)
			}
		}
		f.DefaultIn(nil)
	}
	if v, ok := (*Field)(nil).DefaultIn(nil); v != nil || ok {
		t.Errorf("a field that is not known has the default %v", v)
	}
}

func TestConstantAndCopiedDefaultsDoNotAllocate(t *testing.T) {
	parent := parse(t, "{type: RollingUpdate, port: 80, limits: {cpu: 1}, image: 'a:1', clusterIP: a, clusterIPs: [a]}")
	for _, f := range []*Field{
		fieldAt(t, "apps/v1", "Deployment", "spec.replicas"),
		fieldAt(t, "apps/v1", "Deployment", "spec.strategy"),
		fieldAt(t, "apps/v1", "Deployment", "spec.strategy.rollingUpdate"),
		fieldAt(t, "v1", "Service", "spec.ports.targetPort"),
		fieldAt(t, "v1", "Service", "spec.clusterIP"),
		fieldAt(t, "v1", "Service", "spec.clusterIPs"),
		fieldAt(t, "v1", "Pod", "spec.containers.resources.requests"),
		fieldAt(t, "v1", "Pod", "spec.containers.imagePullPolicy"),
	} {
		if n := testing.AllocsPerRun(100, func() { f.DefaultIn(parent) }); n != 0 {
			t.Errorf("%+v: %v allocations, want none", f, n)
		}
	}
}

func TestServerOwnedFields(t *testing.T) {
	for _, path := range []string{
		"Service spec.ports.nodePort", "Service spec.healthCheckNodePort", "Service spec.ipFamilies", "Pod spec.nodeName",
		"PersistentVolumeClaim spec.volumeName", "PersistentVolume spec.claimRef", "Namespace spec.finalizers",
		"ServiceAccount secrets", "Pod spec.volumes", "Pod spec.containers.volumeMounts", "Node spec.podCIDR",
	} {
		kind, path, _ := strings.Cut(path, " ")
		if !fieldAt(t, "v1", kind, path).ServerOwned {
			t.Errorf("%s %s is not the server's", kind, path)
		}
	}
	if fieldAt(t, "apps/v1", "Deployment", "spec.template.spec.nodeName").ServerOwned {
		t.Error("nodeName of a template is the server's, want that of a Pod only")
	}
	for _, c := range []struct {
		apiVersion, kind, path, parent string
		want                           bool
	}{
		{"apps/v1", "Deployment", "spec.selector", "{}", true},
		{"apps/v1", "Deployment", "spec.template", "{}", false},
		{"batch/v1", "Job", "spec.template", "{}", true},
		{"v1", "ConfigMap", "data", "{}", false},
		{"v1", "ConfigMap", "data", "{immutable: true}", true},
		{"v1", "Secret", "type", "{}", true},
	} {
		if got := fieldAt(t, c.apiVersion, c.kind, c.path).ImmutableIn(parse(t, c.parent)); got != c.want {
			t.Errorf("%s %s in %s is immutable: %v, want %v", c.kind, c.path, c.parent, got, c.want)
		}
	}
}

func TestOrderedListsAndPresence(t *testing.T) {
	initial := fieldAt(t, "v1", "Pod", "spec.initContainers").Type
	if !initial.Ordered || initial.List != Keyed {
		t.Errorf("initContainers: %+v", initial)
	}
	if c := fieldAt(t, "v1", "Pod", "spec.containers").Type; c.Ordered || c.List != Keyed {
		t.Errorf("containers: %+v", c)
	}
	if !fieldAt(t, "apps/v1", "Deployment", "spec.template.spec.containers.env").Type.Ordered {
		t.Error("the order of env has no meaning")
	}
	if r := fieldAt(t, "rbac.authorization.k8s.io/v1", "Role", "rules").Type; !r.Unordered || r.List != Atomic {
		t.Errorf("rules: %+v", r)
	}
	keys := fieldAt(t, "v1", "Service", "spec.ports").Type.Keys
	if diff := cmp.Diff([]Key{{Name: "port"}, {Name: "protocol", Default: "TCP"}}, keys); diff != "" {
		t.Errorf("keys of ports (-want +got):\n%s", diff)
	}
	if !fieldAt(t, "networking.k8s.io/v1", "NetworkPolicy", "spec.podSelector").Presence {
		t.Error("podSelector {} is the same as none")
	}
	if fieldAt(t, "v1", "Pod", "spec.containers.resources").Presence {
		t.Error("resources {} is not the same as none")
	}
	volume := fieldAt(t, "v1", "Pod", "spec.volumes").Type.Elem
	if !slices.Contains(volume.Union, "emptyDir") || !slices.Contains(volume.Union, "hostPath") || slices.Contains(volume.Union, "name") {
		t.Errorf("the union of a volume: %v", volume.Union)
	}
	if fieldAt(t, "v1", "PersistentVolume", "spec.claimRef").Type.Whole || !fieldAt(t, "v1", "Event", "involvedObject").Type.Whole {
		t.Error("a reference is owned as a whole, but not claimRef")
	}
	labels := fieldAt(t, "batch/v1", "Job", "spec.template.metadata.labels").Type
	if !labels.Open || !labels.Field("controller-uid").ServerOwned || !slices.Contains(slices.Collect(maps.Keys(labels.Fields)), "job-name") {
		t.Errorf("labels in a Job: %+v", labels)
	}
}
