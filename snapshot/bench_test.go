package snapshot_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/snapshot"
)

const benchConfigMap = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: x
  namespace: shop
  labels: {app.kubernetes.io/name: shop, app.kubernetes.io/part-of: store, team: checkout}
  creationTimestamp: "2025-07-22T21:21:00Z"
  resourceVersion: "19990"
  uid: 0f4e0e5a-6f0a-4c0e-9df4-6c6a3f5b2a11
data:
  currency: EUR
  endpoint: https://payments.shop.svc.cluster.local:8443/v1/authorize
  features: "basket,wishlist,recommendations,gift-cards"
  log-level: info
  timeout: 2s
  retry.yaml: |
    attempts: 3
    backoff: {initial: 100ms, factor: 2, limit: 5s}
    retryOn: [502, 503, 504]
    perAttemptTimeout: 750ms
    hedging: {enabled: false, delay: 50ms}
    budget: {ratio: "0.2", minimum: 10}
    circuit: {failures: 5, window: 30s, halfOpen: 2}
`

const benchDeployment = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: x
  namespace: shop
  generation: 4
  labels: {app: web, team: checkout}
  annotations: {deployment.kubernetes.io/revision: "4"}
  creationTimestamp: "2025-07-22T21:21:00Z"
  resourceVersion: "19991"
  uid: 0f4e0e5a-6f0a-4c0e-9df4-6c6a3f5b2a12
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}}
  template:
    metadata: {creationTimestamp: null, labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example.com/shop/web:1.27.3
        ports: [{containerPort: 8080, protocol: TCP}]
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
        readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 10}
      terminationGracePeriodSeconds: 30
status: {replicas: 3, readyReplicas: 3, observedGeneration: 4}
`

// benchHub is a namespace with n objects in it.
func benchHub(b *testing.B, n int) objects {
	kinds := []*unstructured.Unstructured{parse(b, benchConfigMap), parse(b, benchDeployment)}
	hub := objects{object("v1", "Namespace", "", "shop")}
	for i := range n {
		hub = append(hub, with(kinds[i%2].DeepCopy(), fmt.Sprintf("object-%05d", i*7919%n), "metadata", "name"))
	}
	return hub
}

// BenchmarkCapture compares capturing 10,000 objects with the floor: encoding
// the same cleaned objects with encoding/json and hashing them, without
// selecting, cleaning, ordering or paging.
func BenchmarkCapture(b *testing.B) {
	hub := benchHub(b, 10_000)
	var floor time.Duration
	b.Run("floor", func(b *testing.B) { floor = benchFloor(b, hub) })
	b.Run("objects=10000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := snapshot.Capture(b.Context(), hub, []snapshot.Selector{namespaces("shop")}); err != nil {
				b.Fatal(err)
			}
		}
		if floor > 0 {
			b.ReportMetric(float64(b.Elapsed()/time.Duration(b.N))/float64(floor), "x-floor")
		}
	})
}

// benchFloor returns the time of one pass.
func benchFloor(b *testing.B, hub objects) time.Duration {
	var clean objects
	for _, obj := range hub {
		clean = append(clean, snapshot.Clean(obj))
	}
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		size = 0
		for _, obj := range clean {
			body, err := json.Marshal(obj.Object)
			if err != nil {
				b.Fatal(err)
			}
			size += len(body) + len(sha256.Sum256(body)) - sha256.Size
		}
	}
	b.ReportMetric(float64(size)/float64(len(clean)), "B/object")
	return b.Elapsed() / time.Duration(b.N)
}

func BenchmarkDecode(b *testing.B) {
	body, err := snapshot.Canonical(parse(b, benchDeployment).Object)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := snapshot.Decode(body); err != nil {
			b.Fatal(err)
		}
	}
}
