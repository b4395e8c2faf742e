package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

const hubStrategy = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: careful}
spec:
  stages:
  - name: canary
    labelSelector: {matchLabels: {ring: canary}}
    afterStageTasks: [{type: TimedWait, waitTime: 1h}, {type: Approval}]
  - name: rest
    labelSelector: {matchLabels: {ring: rest}}
`

const hubRun = `---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: shop-3}
spec: {placementName: shop, stagedRolloutStrategyName: careful, resourceSnapshotIndex: "0"}
`

const hubPlacement = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: shop}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: shop}]
  policy: {placementType: PickFixed, clusterNames: [eu-2]}
  strategy: {type: External}
`

// Files may contain the objects that a hub accepts: the strategy, alone or with a run that names
// it, and the policy of a placement. The error of another file contains its kind and the
// permitted kinds.
func TestObjectsOfAHubAreReadFromFiles(t *testing.T) {
	v := newEnv(t)
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		v.must(os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	s := file("strategy.yaml", hubStrategy)
	v.shows(cli.ExitDone, "preview shop --strategy "+s, "Plan:", "Snapshot:     1", "canary", "TimedWait 1h0m0s, Approval", "eu-1")
	v.shows(cli.ExitDone, "preview shop --strategy "+file("run.yaml", hubStrategy+hubRun), "Snapshot:     0")
	v.shows(cli.ExitDone, "preview shop --index 1 --strategy "+file("index.yaml", hubStrategy+hubRun), "Snapshot:     1")
	v.shows(cli.ExitDone, "forecast shop --strategy "+s, "canary")
	v.shows(cli.ExitDone, "create run shop-3 --placement shop --as ann --strategy "+s, "created, stages 2, clusters 3")
	v.shows(cli.ExitDone, "preview-selection shop --policy "+file("placement.yaml", hubPlacement), "eu-2", "false")
	v.shows(cli.ExitFailed, "preview-selection shop --policy "+s, "there are 0 placements", "1 strategies")
	for text, want := range map[string]string{
		hubPlacement: "there is no ClusterStagedUpdateStrategy and no StagedUpdateStrategy, but 1 placements",
		hubRun:       "run shop-3 names the strategy careful, which is not in the file",
		hubStrategy + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: shop}\n":                                       "",
		"apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {name: x}\nspec: {stagess: []}\n": "stagess",
	} {
		code := cli.ExitFailed
		if want == "" {
			code = cli.ExitDone
		}
		v.shows(code, "preview shop --strategy "+file("other.yaml", text), want)
	}
}

// Texts of single verbs that a new user meets.
func TestWordsOfVerbs(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitFailed, "history shop-2", "shop-2 is a run: name it run/shop-2")
	v.shows(cli.ExitFailed, "history other", "placement other does not exist: there is no run of this name either; a run is named run/NAME")
	v.shows(cli.ExitFailed, "explain run shop-2", "run run does not exist: a run is named alone or as run/NAME, such as run/shop-2")
	v.shows(cli.ExitUsage, "stop run shop-2", "a run is named alone or as run/NAME, such as run/shop-2: want slipway stop RUN")
	v.shows(cli.ExitUsage, "preview --placement shop", "unknown flag --placement: it is an argument of slipway preview PLACEMENT --strategy NAME")
	v.shows(cli.ExitUsage, "preview shop", "--strategy is not set: it names a strategy that was applied, or its file")
	var out, errOut bytes.Buffer // without access to clusters
	code := run(t.Context(), []string{"--store", v.file, "drift", "shop"}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, nil)
	if want := "--clusters is not set"; code != cli.ExitUsage || !strings.Contains(errOut.String(), want) {
		t.Errorf("drift: %d, %s, want %d and %s", code, errOut.String(), cli.ExitUsage, want)
	}
	v.shows(cli.ExitDone, "set cap one 1", "at most 1 cluster in flight")
	v.shows(cli.ExitDone, "forecast shop-1", "the run has ended ", "as Completed")
	v.shows(cli.ExitDone, "rollback shop-2 --preview", "Rolls back:   shop-2", "Snapshot:     0", "eu-1")
	v.shows(cli.ExitDone, "describe placement shop", "Policy:", "PickAll", "Selects:", "Namespace")
}

// If a slow hub does not name the rollback run in time, the request is still recorded.
func TestARollbackThatHasNoNameYetIsRecorded(t *testing.T) {
	v := newEnv(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"run":""}`)
	}))
	defer server.Close()
	want := "run/shop-2: rollback is recorded; describe run shop-2 shows the run that does it\n"
	if code, out, errOut := v.run("--server", server.URL, "rollback", "shop-2", "--yes"); code != cli.ExitDone || out != want {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
}

// A preview writes the warnings of its plan to standard error, so that the output stays readable
// for programs, and counts them in the table.
func TestPreviewWarnsOnStandardError(t *testing.T) {
	v := newEnv(t)
	strategy := filepath.Join(t.TempDir(), "strategy.yaml")
	v.must(os.WriteFile(strategy, []byte(hubStrategy), 0o600))
	claim := object("PersistentVolumeClaim", "shop", "data", "")
	claim.SetAnnotations(map[string]string{"pv.kubernetes.io/bound-by-controller": "yes"})
	claim.Object["spec"] = map[string]any{"volumeName": "pv-7"}
	v.must(v.source.Put(claim))
	const want = "spec.volumeName of PersistentVolumeClaim shop/data is not carried: a controller of the hub wrote it for the hub\n"
	for _, output := range []string{"wide", "json"} {
		code, out, errOut := v.on("preview", "shop", "--strategy", strategy, "-o", output)
		if code != cli.ExitDone || !strings.Contains(errOut, want) {
			t.Errorf("-o %s: exit code %d, standard error has no %q:\n%s", output, code, want, errOut)
		}
		if output == "wide" && !strings.Contains(strings.Join(strings.Fields(out), " "), "Warnings: 1 ") {
			t.Errorf("the table does not count one warning:\n%s", out)
		}
	}
}
