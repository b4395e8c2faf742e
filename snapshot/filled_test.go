package snapshot_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

const (
	clientSide = `{manager: kubectl-client-side-apply, operation: Update, fieldsV1: {"f:metadata": {"f:annotations": {"f:kubectl.kubernetes.io/last-applied-configuration": {}}}, "f:spec": {"f:replicas": {}, "f:strategy": {}}}}`
	created    = `{manager: helm, operation: Update, fieldsV1: {"f:spec": {"f:replicas": {}, "f:strategy": {}}}}`
	scaled     = `{manager: kubectl, operation: Update, subresource: scale, fieldsV1: {"f:spec": {"f:replicas": {}}}}`
	autoscaled = `{manager: kube-controller-manager, operation: Update, subresource: scale, fieldsV1: {"f:spec": {"f:replicas": {}}}}`
	template   = `{manager: me, operation: Apply, fieldsV1: {"f:spec": {"f:template": {}}}}`
	applied    = `{manager: me, operation: Apply, fieldsV1: {"f:spec": {"f:replicas": {}}}}`
	edited     = `{manager: kubectl-edit, operation: Update, fieldsV1: {"f:spec": {"f:replicas": {}}}}`
	lastWith   = `, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"replicas":1}}'}`
	lastBare   = `, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"spec":{"template":{}}}'}`
)

// A field that the API server defaulted is not carried. A field that somebody set is carried,
// however it was written.
func TestReplicasAreCarriedIfSomebodySetThem(t *testing.T) {
	hpa := parse(t, `{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {name: web, namespace: ns}, spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}`)
	keda := parse(t, `{apiVersion: keda.sh/v1alpha1, kind: ScaledObject, metadata: {name: web, namespace: ns}, spec: {scaleTargetRef: {name: web}}}`)
	for _, c := range []struct {
		name, annotations, managers, replicas string
		beside                                *unstructured.Unstructured
		carry                                 []snapshot.Carry
		want                                  bool
	}{
		{name: "from a file", want: true},
		{name: "server-side apply without them", managers: template},
		{name: "server-side apply with them", managers: template + "," + applied, want: true},
		{name: "kubectl apply without them", annotations: lastBare, managers: clientSide},
		{name: "kubectl apply with them", annotations: lastWith, managers: clientSide, want: true},
		{name: "kubectl apply without them, and an edit", annotations: lastBare, managers: clientSide + "," + edited, want: true},
		{name: "kubectl scale", annotations: lastBare, managers: clientSide + "," + scaled, replicas: "3", want: true},
		{name: "an autoscaler of the hub", annotations: lastBare, managers: clientSide + "," + autoscaled, replicas: "7"},
		{name: "created with an update", managers: created, want: true},
		{name: "created with an update, and an autoscaler", managers: created, beside: hpa},
		{name: "created with an update, and an autoscaler of KEDA", managers: created, beside: keda},
		{name: "created with three, and an autoscaler", managers: created, replicas: "3", beside: hpa, want: true},
		{name: "nobody set them and the placement asks for them", managers: template, carry: []snapshot.Carry{snapshot.CarryDefaulted}, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.replicas == "" {
				c.replicas = "1"
			}
			managed := ""
			if c.managers != "" {
				managed = ", managedFields: [" + c.managers + "]"
			}
			hub := objects{
				object("v1", "Namespace", "", "ns"),
				parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: ns`+c.annotations+managed+`}, spec: {replicas: `+c.replicas+`, template: {}}}`),
			}
			if c.beside != nil {
				hub = append(hub, c.beside)
			}
			set, err := snapshot.Rules{}.CaptureFrom(t.Context(), hub, []snapshot.Selector{namespaces("ns")}, snapshot.Rules{}, c.carry...)
			if err != nil {
				t.Fatal(err)
			}
			for i, item := range set.Items {
				if item.Kind == "Deployment" && strings.Contains(string(set.Bodies[i]), "replicas") != c.want {
					t.Errorf("captured %s; with replicas is %v, want %v", set.Bodies[i], !c.want, c.want)
				}
			}
			told, _ := snapshot.OmissionsTold(set.Omitted)
			if c.want != (len(told) == 0) {
				t.Errorf("told %q", told)
			}
		})
	}
}

// A capture also omits other fields that the hub fills in. It reports the hub's classes, but not
// the addresses of Services.
func TestFieldsFilledInByTheHubAreOmitted(t *testing.T) {
	const byApply = "managedFields: [{manager: me, operation: Apply, fieldsV1: {\"f:spec\": {\"f:x\": {}}}}]"
	hub := objects{
		object("v1", "Namespace", "", "ns"),
		parse(t, `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: ns, `+byApply+`}, spec: {ipFamilies: [IPv4], ipFamilyPolicy: SingleStack}}`),
		parse(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: ns, `+byApply+`}, spec: {storageClassName: hub-disk}}`),
		parse(t, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i, namespace: ns, `+byApply+`}, spec: {ingressClassName: hub-nginx}}`),
	}
	set, err := snapshot.Capture(t.Context(), hub, []snapshot.Selector{namespaces("ns")})
	if err != nil {
		t.Fatal(err)
	}
	for i, body := range set.Bodies {
		if strings.Contains(string(body), "ipFamil") || strings.Contains(string(body), "hub-") {
			t.Errorf("%s has %s", set.Items[i].ID, body)
		}
	}
	told, expected := snapshot.OmissionsTold(set.Omitted)
	want := []string{
		"spec.storageClassName of PersistentVolumeClaim ns/c is not carried: nobody set it and the hub's API server filled it in; set it, or carry Defaulted",
		"spec.ingressClassName of Ingress.networking.k8s.io ns/i is not carried: nobody set it and the hub's API server filled it in; set it, or carry Defaulted",
	}
	if diff := cmp.Diff(want, told); diff != "" || expected != 2 {
		t.Errorf("expected %d, told (-want +got):\n%s", expected, diff)
	}
}

// A capture omits and reports the claims that a StatefulSet's controller made, unless a person
// changed the claim or the placement asks for such claims.
func TestClaimsOfStatefulSetsAreLeftOut(t *testing.T) {
	const byController = ", managedFields: [{manager: kube-controller-manager, operation: Update, fieldsV1: {\"f:spec\": {\"f:resources\": {}}}}]"
	claim := func(name, labels, more string) *unstructured.Unstructured {
		return parse(t, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: `+name+`, namespace: ns, labels: {`+labels+`}`+more+`}, spec: {accessModes: [ReadWriteOnce]}}`)
	}
	hub := objects{
		object("v1", "Namespace", "", "ns"),
		parse(t, `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: ns}, spec: {selector: {matchLabels: {app: db}}, volumeClaimTemplates: [{metadata: {name: data}}]}}`),
		claim("data-db-0", "app: db", byController), claim("data-db-1", "app: db", byController), claim("data-db-2", "app: db", byController), claim("data-db-10", "app: db", byController),
		claim("data-db-3", "app: db", ", annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}"),
		claim("data-db-4", "app: other", ""), claim("data-db-x", "app: db", ""), claim("data-web-0", "app: db", ""),
	}
	capture := func(carry ...snapshot.Carry) (got []string, told []string) {
		set, err := snapshot.Rules{}.CaptureFrom(t.Context(), hub, []snapshot.Selector{namespaces("ns")}, snapshot.Rules{}, carry...)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range set.Items {
			if item.Kind == "PersistentVolumeClaim" {
				got = append(got, item.Name)
			}
		}
		told, _ = snapshot.OmissionsTold(set.Omitted)
		return got, told
	}
	got, told := capture()
	if diff := cmp.Diff([]string{"data-db-3", "data-db-4", "data-db-x", "data-web-0"}, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	want := []string{"4 PersistentVolumeClaim left out, ns/data-db-0, ns/data-db-1, ns/data-db-10 and 1 more: a controller of the hub made it for another object, and the cluster's makes its own; carry Owned to place it"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	if got, told := capture(snapshot.CarryOwned); len(got) != 8 || len(told) != 0 {
		t.Errorf("with Owned: %q, told %q", got, told)
	}
}

// The number of reported omissions is limited, and common ones are only counted.
func TestOmissionsAreBounded(t *testing.T) {
	hub := objects{object("v1", "Namespace", "", "ns"), object("v1", "ConfigMap", "ns", "kube-root-ca.crt"), object("v1", "Event", "ns", "p"), object("v1", "Event", "ns", "q")}
	var never []snapshot.GroupKind
	for _, c := range "abcdefghijklmnopqrst" {
		kind := strings.ToUpper(string(c))
		never = append(never, snapshot.GroupKind{Group: "example.com", Kind: kind})
		hub = append(hub, object("example.com/v1", kind, "ns", "o"))
	}
	set, err := snapshot.Rules{Never: never}.Capture(t.Context(), hub, []snapshot.Selector{namespaces("ns")})
	if err != nil {
		t.Fatal(err)
	}
	last := set.Omitted[len(set.Omitted)-1]
	if len(set.Omitted) != snapshot.MaxOmissions || last.Reason != snapshot.More || last.Count != 9+3 {
		t.Errorf("omitted %v", set.Omitted)
	}
	set, err = snapshot.Capture(t.Context(), hub[:4], []snapshot.Selector{namespaces("ns")})
	if told, expected := snapshot.OmissionsTold(set.Omitted); err != nil || len(told) != 0 || expected != 3 {
		t.Errorf("told %q, expected %d: %v", told, expected, err)
	}
}

// An omission names a Pod that has no controller, and the settings of users in a ServiceAccount
// default. A Pod of a workload, a ServiceAccount without settings, and the Leases of controllers are
// only counted.
func TestOmissionsNameObjectsOfUsers(t *testing.T) {
	account := with(object("v1", "ServiceAccount", "ns", "default"), []any{map[string]any{"name": "registry"}}, "imagePullSecrets")
	account.SetAnnotations(map[string]string{"example.com/role": "r"})
	hub := objects{
		object("v1", "Namespace", "", "ns"), object("v1", "Namespace", "", "plain"),
		with(object("v1", "ServiceAccount", "plain", "default"), []any{map[string]any{"name": "default-dockercfg-x7k2p"}}, "imagePullSecrets"),
		account, object("v1", "Pod", "ns", "debug"), object("coordination.k8s.io/v1", "Lease", "ns", "leader"),
		controlled(object("v1", "Pod", "ns", "web-1"), "apps/v1", "ReplicaSet", "u1"),
	}
	set, err := snapshot.Rules{}.CaptureFrom(t.Context(), hub, []snapshot.Selector{namespaces("ns"), namespaces("plain")}, snapshot.Rules{})
	told, expected := snapshot.OmissionsTold(set.Omitted)
	want := []string{
		"1 Pod left out, ns/debug: a Pod belongs to the node that it runs on; place a Deployment or another workload that makes it",
		"imagePullSecrets of ServiceAccount ns/default is not carried: every cluster makes its own",
		"metadata.annotations of ServiceAccount ns/default is not carried: every cluster makes its own",
	}
	if diff := cmp.Diff(want, told); diff != "" || expected != 4 || err != nil {
		t.Errorf("told (-want +got), expected %d, %v:\n%s", expected, err, diff)
	}
}

// An omission names the objects and fields that no cluster makes by itself: an owned Job whose
// owner is not a workload, the Secret of a token, and an injected certificate. None of them is
// carried by [snapshot.CarryOwned]. The Job of a CronJob is only counted.
func TestOmissionsNameObjectsThatNoClusterMakes(t *testing.T) {
	hook := parse(t, `{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w, annotations: {cert-manager.io/inject-ca-from: n/c}}, webhooks: [{name: a, clientConfig: {caBundle: Zm9v}}, {name: b}]}`)
	definition := parse(t, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d, annotations: {cert-manager.io/inject-ca-from: n/c}}, spec: {conversion: {webhook: {clientConfig: {caBundle: Zm9v}}}}}`)
	hub := objects{
		object("v1", "Namespace", "", "ns"), hook, definition,
		controlled(object("batch/v1", "Job", "ns", "nightly-1"), "batch/v1", "CronJob", "u1"),
		controlled(object("batch/v1", "Job", "ns", "step"), "example.com/v1", "Pipeline", "u2"),
		owned(object("apps/v1", "ReplicaSet", "ns", "set")),
		controlled(with(object("v1", "Secret", "ns", "token"), "kubernetes.io/service-account-token", "type"), "apps/v1", "Deployment", "u3"),
	}
	set, err := snapshot.Rules{}.CaptureFrom(t.Context(), hub, []snapshot.Selector{
		namespaces("ns"),
		{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfiguration"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	}, snapshot.Rules{}, snapshot.CarryOwned)
	told, expected := snapshot.OmissionsTold(set.Omitted)
	const bound = "a controller of the hub wrote it for the hub"
	want := []string{
		"1 Secret left out, ns/token: " + bound,
		"webhooks[*].clientConfig.caBundle of ValidatingWebhookConfiguration.admissionregistration.k8s.io w is not carried: " + bound,
		"spec.conversion.webhook.clientConfig.caBundle of CustomResourceDefinition.apiextensions.k8s.io d is not carried: " + bound,
		"1 ReplicaSet.apps left out, ns/set: " + bound,
		"1 Job.batch left out, ns/step: " + bound,
	}
	if diff := cmp.Diff(want, told); diff != "" || expected != 1 || err != nil {
		t.Errorf("told (-want +got), expected %d, %v:\n%s", expected, err, diff)
	}
}

// If the rules exclude kinds that a Namespace may have, the omissions say so, although a source
// need not read such objects. Objects that it reads are counted. A selector without a Namespace
// brings none.
func TestExcludedKindsOfANamespaceAreTold(t *testing.T) {
	hub := objects{object("v1", "Namespace", "", "ns"), object("v1", "ConfigMap", "ns", "c")}
	secret, node := snapshot.GroupKind{Kind: "Secret"}, snapshot.GroupKind{Kind: "Node"}
	config := snapshot.Selector{Version: "v1", Kind: "ConfigMap", Namespace: "ns", Name: "c"}
	for name, c := range map[string]struct {
		rules    snapshot.Rules
		hub      objects
		selector snapshot.Selector
		want     []string
	}{
		"none is read":  {snapshot.Rules{Never: []snapshot.GroupKind{secret, node}}, hub, namespaces("ns"), []string{"every Secret is left out, if there is one: the rules of the engine exclude the kind"}},
		"one is read":   {snapshot.Rules{Never: []snapshot.GroupKind{secret}}, append(slices.Clone(hub), object("v1", "Secret", "ns", "s")), namespaces("ns"), []string{"1 Secret left out, ns/s: the rules of the engine exclude the kind"}},
		"named kinds":   {snapshot.Rules{Only: []snapshot.GroupKind{{Kind: "Namespace"}, {Kind: "ConfigMap"}}}, hub, namespaces("ns"), []string{"all kinds but those that the rules of the engine name are left out"}},
		"no namespace":  {snapshot.Rules{Never: []snapshot.GroupKind{secret}}, hub, config, nil},
		"no such rules": {snapshot.Rules{}, hub, namespaces("ns"), nil},
	} {
		set, err := c.rules.Capture(t.Context(), c.hub, []snapshot.Selector{c.selector})
		if told, _ := snapshot.OmissionsTold(set.Omitted); err != nil || !slices.Equal(told, c.want) {
			t.Errorf("%s: told %q, want %q: %v", name, told, c.want, err)
		}
	}
}

// controlled gives an object an owner that is its controller.
func controlled(obj *unstructured.Unstructured, apiVersion, kind, uid string) *unstructured.Unstructured {
	return with(obj, []any{map[string]any{"apiVersion": apiVersion, "kind": kind, "name": "o", "uid": uid, "controller": true}}, "metadata", "ownerReferences")
}
