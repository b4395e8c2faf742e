package hub_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/placement"
)

// A run of many clusters makes no object that is too big for a server. Its status lists the first
// hundred clusters and counts all of them. The members are simulated; the hub is real.
func TestT14ABigRunFitsIntoItsObjects(t *testing.T) {
	n, limit := 600, time.Minute
	if soaks() {
		n, limit = 5000, 10*time.Minute
	}
	w := newHubEnv(t, 0)
	begun := time.Now()
	fleet := w.crowd(n)
	t.Logf("%d members were created in %v", n, time.Since(begun))
	begun = time.Now()
	w.start("one", func(c *hub.Config) { c.Dialer, c.LeaseDuration = fleet, 15*time.Second })
	w.place("v1")
	w.stagedBig()
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	t.Logf("they were picked after %v", time.Since(begun))
	begun = time.Now()
	w.run(w.name, "")
	var sizes sizes
	w.within(limit, "the end of the run", func() error {
		w.measure(&sizes)
		time.Sleep(500 * time.Millisecond)
		return w.condition("csur", w.name, "Succeeded", "True")
	})
	t.Logf("the run took %v", time.Since(begun))
	w.eventually("the placement to count all", func() error { return w.counted(n) })
	w.measure(&sizes)
	t.Logf("the largest objects: %v", sizes)
	sizes.check(t)
	w.lawOfLists(n)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("memory from the system: %d MiB, with %d simulated members", m.Sys>>20, n)
}

// crowd creates n simulated members. The first twentieth has the label stage=canary, the others
// stage=prod. Their UIDs are the inventory's.
func (w *hubEnv) crowd(n int) *memory.Fleet {
	w.t.Helper()
	fleet := memory.NewFleet()
	var group sync.WaitGroup
	next := make(chan *unstructured.Unstructured)
	for range 16 {
		group.Go(func() {
			for obj := range next {
				made, err := w.at("mc").Create(w.t.Context(), obj, metav1.CreateOptions{})
				if err != nil {
					w.t.Error(err)
					continue
				}
				fleet.Add(placement.Cluster{Name: made.GetName(), UID: string(made.GetUID()) + "/"})
			}
		})
	}
	for i := range n {
		name, stage := fmt.Sprintf("%s-m%04d", w.name, i), "prod"
		if i < n/20 {
			stage = "canary"
		}
		next <- memberOf(name, map[string]string{"stage": stage})
	}
	close(next)
	group.Wait()
	return fleet
}

func (w *hubEnv) stagedBig() {
	w.t.Helper()
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: $NAME}
spec:
  stages:
  - {name: canary, maxConcurrency: 50%, labelSelector: {matchLabels: {stage: canary}}}
  - {name: prod, maxConcurrency: 5%, labelSelector: {matchLabels: {stage: prod}}}
`)
}

// sizes has the size of the largest object of each kind, in bytes of JSON.
type sizes map[string]int

// measure measures all objects that the hub made.
func (w *hubEnv) measure(s *sizes) {
	w.t.Helper()
	if *s == nil {
		*s = sizes{}
	}
	for _, short := range []string{"csur", "crp", "crs", "csps", "secret"} {
		namespace := ""
		if short == "secret" {
			namespace = w.name + "-hub"
		}
		list, err := w.on(w.client, short, namespace).List(w.t.Context(), metav1.ListOptions{})
		if err != nil {
			w.t.Error(err)
			continue
		}
		for i := range list.Items {
			text, _ := json.Marshal(list.Items[i].Object)
			(*s)[short] = max((*s)[short], len(text))
		}
	}
}

// check fails the test if an object exceeds etcd's limit, or a record of the store exceeds a page:
// 256 KiB in base64, with its metadata.
func (s sizes) check(t *testing.T) {
	t.Helper()
	const page = 256<<10*4/3 + 8<<10
	for short, size := range s {
		if size > 1<<20 || short == "secret" && size > page {
			t.Errorf("the largest %s has %d bytes", short, size)
		}
	}
}

// lawOfLists: the status of the run lists at most a hundred clusters, and counts all of them.
func (w *hubEnv) lawOfLists(n int) {
	w.t.Helper()
	run, err := w.at("csur").Get(w.t.Context(), w.name, getOptions())
	if err != nil {
		w.t.Fatal(err)
	}
	listed := 0
	all, _, _ := unstructured.NestedSlice(run.Object, "status", "stagesStatus")
	for _, stage := range all {
		list, _, _ := unstructured.NestedSlice(stage.(map[string]any), "clusters")
		listed += len(list)
	}
	if listed > 100 {
		w.t.Errorf("the status of the run lists %d clusters", listed)
	}
	if got, _, _ := unstructured.NestedInt64(run.Object, "status", "clusterCounts", "completed"); got != int64(n) {
		w.t.Errorf("the status of the run counts %d completed clusters, not %d", got, n)
	}
}

// counted returns an error unless the status of the placement counts n clusters and
// lists at most a hundred.
func (w *hubEnv) counted(n int) error {
	obj, err := w.at("crp").Get(w.t.Context(), w.name, getOptions())
	if err != nil {
		return err
	}
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "placementStatuses")
	total, _, _ := unstructured.NestedInt64(obj.Object, "status", "placementStatusesTotal")
	if len(list) == 0 || len(list) > 100 || total != int64(n) {
		return fmt.Errorf("it lists %d clusters and counts %d", len(list), total)
	}
	return nil
}
