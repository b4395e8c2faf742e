package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/formats/manifest"
)

// On a hub the same files are objects: they are applied on the server, and its strict validation
// checks all of them before one is written.
func TestFilesAreAppliedOnAHub(t *testing.T) {
	t.Parallel()
	w := newKubeEnv(t)
	write := func(name, text string) string {
		w.must(os.WriteFile(w.path(name), []byte(text), 0o600))
		return w.path(name)
	}
	text, err := os.ReadFile("testdata/hub.yaml")
	w.must(err)
	const unchanged = "clusterresourceplacement/web: unchanged\nclusterstagedupdatestrategy/careful: unchanged\n"
	w.shows(cli.ExitDone, "slipway apply -f testdata/hub.yaml", unchanged)
	w.shows(cli.ExitDone, "slipway diff -f testdata/hub.yaml")

	changed := write("changed.yaml", strings.Replace(string(text), "strategy: {type: External}", "strategy: {type: External}\n  revisionHistoryLimit: 3", 1)+
		"---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateRun\nmetadata: {name: web-1}\nspec: {placementName: web, stagedRolloutStrategyName: careful}\n")
	w.shows(cli.ExitFailed, "slipway apply -f "+changed, changed+":1: ClusterResourcePlacement/web: ", `conflict`, "kubectl-client-side-apply", "--force-conflicts takes these fields over")
	w.shows(cli.ExitDone, "slipway apply --dry-run --force-conflicts -f "+changed,
		"clusterresourceplacement/web: configured (dry run)\nclusterstagedupdatestrategy/careful: unchanged\nclusterstagedupdaterun/web-1: created (dry run)\n")
	w.shows(cli.ExitDiffers, "slipway diff -f "+changed, "spec.revisionHistoryLimit   10    3", "clusterstagedupdaterun/web-1   created")
	w.shows(cli.ExitDone, "slipway get runs", "no runs")
	w.shows(cli.ExitDone, "slipway apply --force-conflicts -f "+changed, "clusterresourceplacement/web: configured", "clusterstagedupdaterun/web-1: created")
	w.shows(cli.ExitDone, "slipway apply -f "+changed, "clusterresourceplacement/web: unchanged", "clusterstagedupdaterun/web-1: unchanged")
	w.eventually("slipway get approvals", "web-1-staging")

	again := write("again.yaml", w.shows(cli.ExitDone, "slipway get placements -o yaml")+"---\n"+w.shows(cli.ExitDone, "slipway get strategies -o yaml"))
	w.shows(cli.ExitDone, "slipway diff --kubeconfig "+w.path("hub.kubeconfig")+" -f "+again)

	wrong := write("wrong.yaml", strings.NewReplacer("labelSelector:", "labelSelektor:", "type: External", "type: Extern").Replace(string(text)))
	w.shows(cli.ExitFailed, "slipway apply -f "+wrong, wrong+":1: ClusterResourcePlacement/web: ", `Unsupported value: "Extern"`, wrong+":9: ClusterStagedUpdateStrategy/careful: ", ".spec.stages[0].labelSelektor: field not declared in schema")
	w.shows(cli.ExitDone, `patch clusterresourceplacement web --type merge -p {"spec":{"revisionHistoryLimit":5}}`)
	w.shows(cli.ExitFailed, "slipway apply -f "+changed, "conflict", ".spec.revisionHistoryLimit")
	w.shows(cli.ExitDone, "slipway apply --force-conflicts -f "+changed, "clusterresourceplacement/web: configured")
	w.shows(cli.ExitFailed, "slipway apply -f testdata/hub.yaml --as ann", "forbidden", "slipway-cluster-viewer")

	other := write("other.yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n")
	w.shows(cli.ExitDone, "slipway apply --dry-run -f "+other, "widget/w: created, not checked, because its kind or its namespace does not exist yet (dry run)")
	w.shows(cli.ExitFailed, "slipway apply -f "+other, other+":1: Widget/w: the cluster has no kind Widget of example.com/v1")
	w.shows(cli.ExitDone, "slipway delete -f "+other, "widget/w: not found")

	secret := write("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: default, annotations: {copy: b2xk}}\ndata: {a: b2xk, b: b2xk}\n")
	w.shows(cli.ExitDone, "slipway apply -f "+secret, "secret/default/key: created")
	secret = write("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: key, namespace: default, annotations: {copy: bmV3}}\ndata: {a: bmV3, c: bmV3}\n")
	if out := w.shows(cli.ExitDiffers, "slipway diff -f "+secret, "data.a", "data.c", "*** (before)", "*** (after)"); strings.Contains(out, "b2xk") || strings.Contains(out, "bmV3") {
		t.Errorf("diff shows the values of a Secret:\n%s", out)
	}

	w.shows(cli.ExitFailed, "slipway delete -f "+changed, "run web-1", "stop it first, or force the deletion")
	w.shows(cli.ExitDone, "slipway delete --dry-run --force -f "+changed, "clusterstagedupdaterun/web-1: deleted (dry run)\n")
	w.shows(cli.ExitDone, "slipway delete --yes --force -f "+changed, "clusterstagedupdaterun/web-1 will be deleted", "clusterstagedupdaterun/web-1: deleted\nclusterstagedupdatestrategy/careful: deleted\nclusterresourceplacement/web: deleted\n")
	w.eventually("slipway get placements", "no placements")
	w.shows(cli.ExitDone, "slipway delete -f testdata/hub.yaml", "clusterresourceplacement/web: not found")
}

// Objects with the same kind and name in different groups are different objects, and their names in
// the output are, too.
func TestChangesOnAHubAreNamedAfterTheirObjects(t *testing.T) {
	objects, err := manifest.Read(strings.NewReader(`{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}}
---
{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: web, namespace: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
`), "a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changes := make([]declare.Change, len(objects))
	name(changes, objects)
	for i, want := range []string{"service/shop/web", "service.serving.knative.dev/shop/web", "namespace/shop"} {
		if got := changes[i].Object(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// diff never shows the values of a Secret.
func TestTheValuesOfASecretAreMasked(t *testing.T) {
	fields := func() []declare.Field {
		return []declare.Field{{Path: "data.key", Now: `"b2xk"`, Then: `"bmV3"`}, {Path: "data", Then: `{"key":"bmV3"}`}, {Path: "stringData.key", Now: `"old"`}, {Path: "metadata.annotations.copy", Now: `"b2xk"`, Then: `"bmV3"`}, {Path: "type", Now: `"a"`, Then: `"b"`}}
	}
	object := func(version, kind string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
	}
	want := []declare.Field{{Path: "data.key", Now: "*** (before)", Then: "*** (after)"}, {Path: "data", Then: "*** (after)"}, {Path: "stringData.key", Now: "*** (before)"}, {Path: "metadata.annotations.copy", Now: "*** (before)", Then: "*** (after)"}, {Path: "type", Now: `"a"`, Then: `"b"`}}
	if diff := cmp.Diff(want, masked(object("v1", "Secret"), fields())); diff != "" {
		t.Error(diff)
	}
	for _, other := range []*unstructured.Unstructured{object("v1", "ConfigMap"), object("example.com/v1", "Secret")} {
		if diff := cmp.Diff(fields(), masked(other, fields())); diff != "" {
			t.Error(diff)
		}
	}
}
