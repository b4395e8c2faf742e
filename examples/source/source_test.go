package source

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

const manifests = `
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: page, namespace: web}
data: {greeting: hello}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: shop}
`

var web = []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "web"}}

// file writes a file of manifests.
func file(t *testing.T, text string) File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rendered.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return File(path)
}

// The same objects give the same digest, in any order.
func TestASnapshotDependsOnlyOnTheObjects(t *testing.T) {
	first, err := snapshot.Capture(t.Context(), file(t, manifests), web)
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(manifests, "---")
	second, err := snapshot.Capture(t.Context(), file(t, documents[2]+"---"+documents[1]+"---"+documents[0]), web)
	if err != nil || second.Digest != first.Digest || len(first.Items) != 2 {
		t.Errorf("%v and %v, %v", first.Items, second.Items, err)
	}
}

// A file that is missing, empty or no manifest is an error and not an empty snapshot.
func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	for name, f := range map[string]File{"missing": File(filepath.Join(t.TempDir(), "none.yaml")), "empty": file(t, ""), "no object": file(t, "[]")} {
		if set, err := snapshot.Capture(t.Context(), f, web); err == nil {
			t.Errorf("%s: %v", name, set.Items)
		}
	}
}

// An engine rolls the objects out.
func TestAnEngineRollsTheFileOut(t *testing.T) {
	clusters := memory.NewFleet(placement.Cluster{Name: "eu-1"})
	source := file(t, manifests)
	engine, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: clusters, Dialer: clusters, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	go func() { _ = engine.Start(ctx) }()
	if err := engine.PutPlacement(ctx, fleet.Placement{Name: "web", Selectors: web}); err != nil {
		t.Fatal(err)
	}
	all := stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}}
	if _, err := engine.CreateRun(ctx, fleet.RunSpec{Name: "web-1", Placement: "web", Strategy: all}); err != nil {
		t.Fatal(err)
	}
	if s, err := engine.Run("web-1").Wait(ctx); err != nil || s.Run.State != stages.Completed {
		t.Fatalf("%s, %v", s.Run.State, err)
	}
	if _, err := clusters.Cluster("eu-1").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "web", Name: "page"}); err != nil {
		t.Error(err)
	}
}
