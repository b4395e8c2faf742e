package main

import (
	"os"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
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

	w.shows(cli.ExitFailed, "slipway delete -f "+changed, "run web-1", "stop it first, or force the deletion")
	w.shows(cli.ExitDone, "slipway delete --dry-run --force -f "+changed, "clusterstagedupdaterun/web-1: deleted (dry run)\n")
	w.shows(cli.ExitDone, "slipway delete --force -f "+changed, "clusterstagedupdaterun/web-1 will be deleted", "clusterstagedupdaterun/web-1: deleted\nclusterstagedupdatestrategy/careful: deleted\nclusterresourceplacement/web: deleted\n")
	w.eventually("slipway get placements", "no placements")
	w.shows(cli.ExitDone, "slipway delete -f testdata/hub.yaml", "clusterresourceplacement/web: not found")
}
