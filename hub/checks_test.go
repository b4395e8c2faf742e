package hub_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/metrics/prometheus"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/internal/promenv"
)

// TestAWorkloadWhoseHealthIsAMetric: a metric of a workload reports its health. In one strategy, a
// Prometheus server that scrapes the metric measures each cluster before the next one gets the
// change, and all clusters again after the stage. The status of the run has the measurements.
func TestAWorkloadWhoseHealthIsAMetric(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, 2)
	well := client.NewGaugeVec(client.GaugeOpts{Name: "workload_health"}, []string{"cluster"})
	registry := client.NewRegistry()
	registry.MustRegister(well)
	exporter := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(exporter.Close)
	for _, m := range w.members {
		well.WithLabelValues(m.name).Set(1)
	}
	server := promenv.ForTest(t, exporter.URL)
	provider, err := prometheus.New(prometheus.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	w.start("hub", func(c *hub.Config) {
		c.Engine.Metrics = map[string]backend.MetricProvider{"prometheus": provider}
	})
	w.place("v1")
	w.createText(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: $NAME}
spec:
  stages:
  - name: all
    labelSelector: {}
    clusterChecks:
    - {name: health, query: min by (cluster) (workload_health), clusterLabel: cluster, min: 1, initialDelay: 3s, interval: 1s, inconclusiveLimit: 10}
    afterStageChecks:
    - {name: all-healthy, query: min(workload_health), min: 1, interval: 1s, count: 2, inconclusiveLimit: 10}
`)
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.await("csur", w.name, "Succeeded", "True")
	stage := w.stageOf(w.name)
	for _, c := range stage["clusters"].([]any) {
		checks, _ := c.(map[string]any)["checkStatus"].([]any)
		if len(checks) != 1 || checks[0].(map[string]any)["phase"] != "Successful" || checks[0].(map[string]any)["value"] != "1" {
			t.Errorf("the cluster has the checks %v", checks)
		}
	}
	after, _, _ := unstructured.NestedSlice(stage, "afterStageCheckStatus")
	if len(after) != 1 {
		t.Fatalf("the status has the checks %v", after)
	}
	if c := after[0].(map[string]any); c["name"] != "all-healthy" || c["phase"] != "Successful" || c["value"] != "1" || c["successful"] != int64(2) {
		t.Errorf("the check is %v", c)
	}

	// The second cluster is unhealthy with the next version: the first cluster has it, and the run
	// fails and reports the number.
	well.WithLabelValues(w.members[1].name).Set(0)
	w.change("v2")
	w.run(w.name+"-2", "")
	w.await("csur", w.name+"-2", "Succeeded", "False")
	u, err := w.at("csur").Get(t.Context(), w.name+"-2", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(u.Object["status"])
	if want := "check health is Failed: 0 is less than 1"; !strings.Contains(text, want) {
		t.Errorf("the status does not say %q: %s", want, text)
	}
	described, err := kubectl(t, w.server, "describe", "csur", w.name+"-2")
	if err != nil {
		t.Fatal(described, err)
	}
	for _, want := range []string{
		"Last Measurement: Failed Message: 0 is less than 1 Name: health Phase: Failed Value: 0 Cluster Name: " + w.members[1].name,
		"Warning CheckEnded 0s slipway-hub stage all, cluster " + w.members[1].name + ", check health, Failed, value 0, 0 is less than 1",
	} {
		age := regexp.MustCompile(`CheckEnded \S+`)
		if told := age.ReplaceAllString(strings.Join(strings.Fields(described), " "), "CheckEnded 0s"); !strings.Contains(told, want) {
			t.Errorf("kubectl describe does not show %q:\n%s", want, described)
		}
	}
}

// stageOf returns the status of the first stage of a run.
func (w *hubEnv) stageOf(run string) map[string]any {
	w.t.Helper()
	u, err := w.at("csur").Get(w.t.Context(), run, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	list, _, _ := unstructured.NestedSlice(u.Object, "status", "stagesStatus")
	if len(list) == 0 {
		w.t.Fatalf("run %s has no stages: %v", run, u.Object["status"])
	}
	return list[0].(map[string]any)
}
