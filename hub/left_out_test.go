package hub_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects and fields that the hub's own controllers created, bound or filled in are not placed. The
// content that users wrote is placed, and the placement lists the omissions.
const hubWithControllers = `
apiVersion: v1
kind: Namespace
metadata: {name: $NAME}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast-$NAME, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/no-provisioner
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-$NAME}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: fast-$NAME, hostPath: {path: /disk}, persistentVolumeReclaimPolicy: Retain}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: static-$NAME}
spec: {capacity: {storage: 2Gi}, accessModes: [ReadWriteMany], storageClassName: "", nfs: {server: 127.0.0.1, path: /x}, persistentVolumeReclaimPolicy: Retain}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: static, namespace: $NAME}
spec: {accessModes: [ReadWriteMany], storageClassName: "", volumeName: static-$NAME, resources: {requests: {storage: 2Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: classless, namespace: $NAME}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 9Gi}}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: $NAME}
spec:
  replicas: 1
  serviceName: db
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: "db:1", volumeMounts: [{name: data, mountPath: /data}]}]}}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: fast-$NAME, resources: {requests: {storage: 1Gi}}}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: $NAME}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "web:1"}]}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: one, namespace: $NAME}
spec:
  replicas: 1
  selector: {matchLabels: {app: one}}
  template: {metadata: {labels: {app: one}}, spec: {containers: [{name: one, image: "one:1"}]}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: $NAME}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: external, namespace: $NAME}
spec: {ports: [{name: pg, port: 5432}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: external-1, namespace: $NAME, labels: {kubernetes.io/service-name: external, endpointslice.kubernetes.io/managed-by: cluster-admins}}
addressType: IPv4
ports: [{name: pg, port: 5432}]
endpoints: [{addresses: ["192.0.2.42"]}]
---
apiVersion: v1
kind: Service
metadata: {name: old, namespace: $NAME}
spec: {ports: [{name: pg, port: 5432}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: old, namespace: $NAME}
subsets: [{addresses: [{ip: 192.0.2.43}], ports: [{name: pg, port: 5432}]}]
`

func TestObjectsMadeByHubControllersAreNotPlaced(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"client", "server"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newHubEnvOn(t, "left-out-"+way, 1)
			if err := w.server.StartControllerManager(context.WithoutCancel(t.Context()), "statefulset-controller", "persistentvolume-binder-controller",
				"endpoints-controller", "endpointslice-controller", "endpointslice-mirroring-controller"); err != nil {
				t.Fatal(err)
			}
			w.start("h")
			w.kubectlApply(way, hubWithControllers)
			on := func(m bool, resource, name string) (*unstructured.Unstructured, error) {
				c, group := w.client, ""
				if m {
					c = w.members[0].client
				}
				resource, group, _ = strings.Cut(resource, ".")
				gvr := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
				if resource == "persistentvolumes" {
					return c.Resource(gvr).Get(t.Context(), name, metav1.GetOptions{})
				}
				return c.Resource(gvr).Namespace(w.name).Get(t.Context(), name, metav1.GetOptions{})
			}
			spec := func(obj *unstructured.Unstructured, field string) any {
				v, _, _ := unstructured.NestedFieldNoCopy(obj.Object, "spec", field)
				return v
			}
			w.within(time.Minute, "the controllers of the hub", func() error {
				for _, name := range []string{"data-db-0", "static"} {
					obj, err := on(false, "persistentvolumeclaims", name)
					if err != nil {
						return err
					}
					if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase != "Bound" {
						return fmt.Errorf("%s is %q", name, phase)
					}
				}
				return nil
			})
			w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors:
  - {group: "", version: v1, kind: Namespace, name: $NAME}
  - {group: "", version: v1, kind: PersistentVolume, name: static-$NAME}
  - {group: "", version: v1, kind: PersistentVolume, name: disk-$NAME}
  policy: {placementType: PickAll}
  strategy: {type: RollingUpdate}
`)
			w.within(time.Minute, "the member to have it", func() error {
				var errs []error
				for _, o := range []string{
					"persistentvolumeclaims/static", "persistentvolumeclaims/classless", "statefulsets.apps/db", "deployments.apps/web", "deployments.apps/one",
					"services/external", "services/web", "endpointslices.discovery.k8s.io/external-1", "endpoints/old", "persistentvolumes/static-" + w.name, "persistentvolumes/disk-" + w.name,
				} {
					resource, name, _ := strings.Cut(o, "/")
					_, err := on(true, resource, name)
					errs = append(errs, err)
				}
				return errors.Join(errs...)
			})
			for _, o := range []string{"persistentvolumeclaims/data-db-0", "endpoints/web"} {
				resource, name, _ := strings.Cut(o, "/")
				if _, err := on(true, resource, name); !apierrors.IsNotFound(err) {
					t.Errorf("%s on the member: %v", o, err)
				}
			}
			check := func(resource, name, field string, want any) {
				t.Helper()
				obj, err := on(true, resource, name)
				if err != nil {
					t.Error(err)
				} else if got := spec(obj, field); got != want {
					t.Errorf("%s %s has %s %v, want %v", resource, name, field, got, want)
				}
			}
			check("persistentvolumeclaims", "static", "volumeName", "static-"+w.name)
			// the member has no default
			check("persistentvolumeclaims", "classless", "storageClassName", nil)
			check("persistentvolumes", "static-"+w.name, "claimRef", nil)
			check("persistentvolumes", "disk-"+w.name, "claimRef", nil)

			// Replicas that no user set belong to an autoscaler.
			scale := func(name string) {
				t.Helper()
				gvr := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
				if _, err := w.members[0].client.Resource(gvr).Namespace(w.name).Patch(t.Context(), name, mergePatch,
					[]byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{FieldManager: "kube-controller-manager"}, "scale"); err != nil {
					t.Fatal(err)
				}
			}
			scale("web")
			w.kubectlApply(way, strings.ReplaceAll(hubWithControllers, "web:1", "web:2"))
			w.within(time.Minute, "the new image", func() error {
				obj, err := on(true, "deployments.apps", "web")
				if err != nil {
					return err
				}
				if text := fmt.Sprint(obj.Object["spec"]); !strings.Contains(text, "web:2") {
					return errors.New(text)
				}
				return nil
			})
			check("deployments.apps", "web", "replicas", int64(3))
			check("deployments.apps", "one", "replicas", int64(1))

			obj, err := w.at("crp").Get(t.Context(), w.name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, said := conditionOf(obj, "ClusterResourcePlacementScheduled")
			for _, want := range []string{
				w.name + "/data-db-0", "spec.replicas of Deployment.apps " + w.name + "/web is not carried",
				"spec.claimRef of PersistentVolume disk-" + w.name,
			} {
				if !strings.Contains(said, want) {
					t.Errorf("Scheduled says %q, want %q in it", said, want)
				}
			}
			w.within(time.Minute, "the event", func() error {
				list, err := w.kube.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=LeftOut,involvedObject.name=" + w.name})
				if err == nil && len(list.Items) < 3 {
					err = fmt.Errorf("%d events", len(list.Items))
				}
				return err
			})
		})
	}
}

// kubectlApply applies YAML documents on the hub like a user, client-side or server-side.
func (w *hubEnv) kubectlApply(way, text string) {
	w.t.Helper()
	file := filepath.Join(w.t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "$NAME", w.name)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if out, err := kubectl(w.t, w.server, "apply", "--server-side="+fmt.Sprint(way == "server"), "-f", file); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
}
