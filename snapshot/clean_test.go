package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/snapshot"
)

// cleanCases contain an object of a cluster and its cleaned form.
var cleanCases = []struct{ name, give, want string }{
	{"tutorial namespace", `
apiVersion: v1
kind: Namespace
metadata:
  creationTimestamp: "2025-07-22T21:20:00Z"
  labels: {kubernetes.io/metadata.name: test-namespace}
  name: test-namespace
  resourceVersion: "19880"
  uid: 0f4e0e5a-6f0a-4c0e-9df4-6c6a3f5b2a11
spec: {finalizers: [kubernetes]}
status: {phase: Active}
`, `
apiVersion: v1
kind: Namespace
metadata:
  labels: {kubernetes.io/metadata.name: test-namespace}
  name: test-namespace
spec: {finalizers: [kubernetes]}
`},
	{"tutorial config map", `
apiVersion: v1
data: {key: value2}
kind: ConfigMap
metadata: {creationTimestamp: "2025-07-22T21:21:00Z", name: test-cm, namespace: test-namespace, resourceVersion: "19990", uid: u}
`, `
apiVersion: v1
data: {key: value2}
kind: ConfigMap
metadata: {name: test-cm, namespace: test-namespace}
`},
	{"every field of metadata that a server owns", `
apiVersion: example.com/v1
kind: Thing
metadata:
  name: t
  generateName: t-
  labels: {a: b}
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", deployment.kubernetes.io/revision: "3", keep: me}
  resourceVersion: "1"
  generation: 2
  uid: u
  selfLink: /t
  deletionTimestamp: "2025-01-01T00:00:00Z"
  deletionGracePeriodSeconds: 30
  creationTimestamp: "2025-01-01T00:00:00Z"
  managedFields: [{manager: kubectl}]
  ownerReferences: [{name: owner}]
  finalizers: [example.com/f]
status: {ready: true}
`, `
apiVersion: example.com/v1
kind: Thing
metadata: {name: t, generateName: t-, labels: {a: b}, annotations: {keep: me}}
`},
	{"annotations that cleaning emptied are dropped", `
apiVersion: v1
kind: ConfigMap
metadata: {name: c, labels: {}, annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}"}}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: c, labels: {}}
`},
	{"annotations that were empty stay", `
apiVersion: v1
kind: ConfigMap
metadata: {name: c, annotations: {}, uid: u}
`, `
apiVersion: v1
kind: ConfigMap
metadata: {name: c, annotations: {}}
`},
	{"service", `
apiVersion: v1
kind: Service
metadata: {name: s}
spec:
  clusterIP: 10.0.0.1
  clusterIPs: [10.0.0.1]
  healthCheckNodePort: 30001
  type: LoadBalancer
  ports: [{name: a, port: 80, nodePort: 30080}, {name: b, port: 81}]
status: {loadBalancer: {}}
`, `
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {type: LoadBalancer, ports: [{name: a, port: 80}, {name: b, port: 81}]}
`},
	{"headless service", `
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}
`, `
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}
`},
	{"a service of another group is not touched", `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: s}
spec: {clusterIP: 10.0.0.1}
`, `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: s}
spec: {clusterIP: 10.0.0.1}
`},
	{"job", `
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {controller-uid: u, app: j}}
spec:
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}
  template:
    metadata: {creationTimestamp: null, labels: {controller-uid: u, batch.kubernetes.io/controller-uid: u}}
    spec: {restartPolicy: Never}
`, `
apiVersion: batch/v1
kind: Job
metadata: {name: j, labels: {app: j}}
spec: {template: {spec: {restartPolicy: Never}}}
`},
	{"job with its own selector", `
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  manualSelector: true
  selector: {matchLabels: {controller-uid: mine}}
  template: {metadata: {creationTimestamp: null, labels: {controller-uid: mine}}}
`, `
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  manualSelector: true
  selector: {matchLabels: {controller-uid: mine}}
  template: {metadata: {labels: {controller-uid: mine}}}
`},
	{"cron job", `
apiVersion: batch/v1
kind: CronJob
metadata: {name: j}
spec: {jobTemplate: {metadata: {creationTimestamp: null}, spec: {template: {metadata: {creationTimestamp: null, labels: {a: b}}}}}}
`, `
apiVersion: batch/v1
kind: CronJob
metadata: {name: j}
spec: {jobTemplate: {spec: {template: {metadata: {labels: {a: b}}}}}}
`},
	{"deployment", `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, generation: 7, annotations: {deployment.kubernetes.io/revision: "7"}}
spec: {replicas: 2, template: {metadata: {creationTimestamp: null, labels: {app: d}}, spec: {}}}
status: {replicas: 2}
`, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {replicas: 2, template: {metadata: {labels: {app: d}}, spec: {}}}
`},
	{"a claim and its binding", `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: c
  annotations: {pv.kubernetes.io/bind-completed: "yes", pv.kubernetes.io/bound-by-controller: "yes", volume.kubernetes.io/selected-node: n, volume.beta.kubernetes.io/storage-provisioner: p, volume.beta.kubernetes.io/storage-class: fast}
spec: {volumeName: pvc-1, storageClassName: fast}
`, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, annotations: {volume.beta.kubernetes.io/storage-class: fast}}
spec: {storageClassName: fast}
`},
	{"a claim of a static volume", `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {volumeName: static-1}
`, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {volumeName: static-1}
`},
	{"a claim whose volume an apply names", `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: c
  annotations: {pv.kubernetes.io/bound-by-controller: "yes"}
  managedFields: [{manager: me, operation: Apply, fieldsV1: {"f:spec": {"f:volumeName": {}}}}]
spec: {volumeName: static-1}
`, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: c}
spec: {volumeName: static-1}
`},
	{"a volume with the claim of its author", `
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {claimRef: {namespace: n, name: c, uid: u, resourceVersion: "7"}}
`, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {claimRef: {namespace: n, name: c}}
`},
	{"a volume with the claim of a controller", `
apiVersion: v1
kind: PersistentVolume
metadata: {name: v, annotations: {pv.kubernetes.io/bound-by-controller: "yes", pv.kubernetes.io/provisioned-by: p}}
spec: {nfs: {path: /x}, claimRef: {namespace: n, name: c, uid: u}}
`, `
apiVersion: v1
kind: PersistentVolume
metadata: {name: v}
spec: {nfs: {path: /x}}
`},
	{"the tokens of a service account", `
apiVersion: v1
kind: ServiceAccount
metadata: {name: s}
secrets: [{name: s-token-bcdfg}, {name: s-token-mine}, {name: other}]
`, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: s}
secrets: [{name: s-token-mine}, {name: other}]
`},
	{"the bundle of a webhook that is injected", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w, annotations: {cert-manager.io/inject-ca-from: n/c}}
webhooks: [{name: a, clientConfig: {caBundle: Zm9v, service: {name: s}}}]
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w, annotations: {cert-manager.io/inject-ca-from: n/c}}
webhooks: [{name: a, clientConfig: {service: {name: s}}}]
`},
	{"the bundle of a webhook that its author wrote", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks: [{name: a, clientConfig: {caBundle: Zm9v}}]
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: w}
webhooks: [{name: a, clientConfig: {caBundle: Zm9v}}]
`},
	{"fields of the wrong type are left alone", `
apiVersion: v1
kind: Service
metadata: {name: s, annotations: [], labels: 5}
spec: {ports: {a: b}}
`, `
apiVersion: v1
kind: Service
metadata: {name: s, annotations: [], labels: 5}
spec: {ports: {a: b}}
`},
}

func TestClean(t *testing.T) {
	for _, tt := range cleanCases {
		t.Run(tt.name, func(t *testing.T) {
			give, want := parse(t, tt.give), parse(t, tt.want)
			before := give.DeepCopy()
			got := snapshot.Clean(give)
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("Clean (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, give.Object); diff != "" {
				t.Errorf("Clean changed its argument (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(got.Object, snapshot.Clean(got).Object); diff != "" {
				t.Errorf("cleaning twice differs (-once +twice):\n%s", diff)
			}
		})
	}
}

func TestCleanOfNothing(t *testing.T) {
	if got := snapshot.Clean(nil); got == nil || got.Object != nil {
		t.Errorf("Clean(nil) = %v, want an empty object", got)
	}
}

// The copy shares unchanged parts, so cleaning makes no deep copy.
func TestCleanShares(t *testing.T) {
	big := map[string]any{}
	obj := with(object("v1", "ConfigMap", "a", "b"), "u", "metadata", "uid")
	obj.Object["data"] = big
	clean := snapshot.Clean(obj)
	big["key"] = "value"
	if data, _ := clean.Object["data"].(map[string]any); len(data) != 1 {
		t.Error("Clean copied data, which it does not change")
	}
}
