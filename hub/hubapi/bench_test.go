package hubapi

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/internal/parallel"
)

// BenchmarkListRuns lists the 1,000 runs of a hub, of ten clusters each, as `kubectl slipway get
// runs` does.
func BenchmarkListRuns(b *testing.B) {
	server := kubeenv.ForTest(b).Server(b, "hub")
	if err := manifests.Install(b.Context(), server.Config(), manifests.Options{}); err != nil {
		b.Fatal(err)
	}
	config := server.Config()
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("run-", i)
	}
	resource := client.Resource(api.ClusterScope.GVR(api.RunKind))
	for err := range parallel.Map(b.Context(), 16, names, func(ctx context.Context, name string) error {
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": placementAPI, "kind": "ClusterStagedUpdateRun", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"placementName": "web", "stagedRolloutStrategyName": "careful"},
		}}
		u, err := resource.Create(ctx, u, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		u.Object["status"] = benchStatus()
		_, err = resource.UpdateStatus(ctx, u, metav1.UpdateOptions{})
		return err
	}) {
		if err != nil {
			b.Fatal(err)
		}
	}
	h, err := New(Config{Rest: server.Config()})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	for b.Loop() {
		runs, err := h.runs(b.Context(), "")
		if err != nil || len(runs) != 1000 || runs[0].State != "Completed" {
			b.Fatalf("%d runs, %v", len(runs), err)
		}
	}
}

// benchStatus is the status of a run that has completed on ten clusters.
func benchStatus() map[string]any {
	done := func(kind string) any {
		return map[string]any{
			"type": kind, "status": "True", "reason": "UpdateRunSucceeded", "message": "All stages are completed successfully",
			"observedGeneration": int64(1), "lastTransitionTime": "2025-07-22T21:29:53Z",
		}
	}
	clusters := make([]any, 10)
	for i := range clusters {
		clusters[i] = map[string]any{"clusterName": fmt.Sprint("member-", i), "conditions": []any{done("Started"), done("Succeeded")}}
	}
	counts := map[string]any{"total": int64(10), "completed": int64(10), "inFlight": int64(0), "failed": int64(0), "skipped": int64(0), "waiting": int64(0)}
	return map[string]any{
		"conditions": []any{done("Initialized"), done("Succeeded")}, "resourceSnapshotIndexUsed": "1", "clusterCounts": counts,
		"summary":      map[string]any{"state": "Completed", "startTime": "2025-07-22T21:28:10Z", "endTime": "2025-07-22T21:29:53Z"},
		"stagesStatus": []any{map[string]any{"stageName": "all", "clusters": clusters, "clusterCounts": counts, "conditions": []any{done("Succeeded")}}},
	}
}
