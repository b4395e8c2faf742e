package main

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// canaryFile is a strategy whose first stage has no cluster of the store of newEnv, with tasks.
func canaryFile(tasks string) string {
	return `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: careful}
spec:
  stages:
  - {name: canary, labelSelector: {matchLabels: {ring: canry}}, ` + tasks + `}
  - {name: rest, labelSelector: {}}
`
}

// create run and apply refuse a stage that waits for an approval or a time and has no cluster,
// unless
// --allow-empty-stages is set. The error names its selector, and nothing is written.
func TestAnEmptyStageThatWaitsIsRefused(t *testing.T) {
	v := newEnv(t)
	before := v.shows(cli.ExitDone, "get runs -o yaml") + v.shows(cli.ExitDone, "get placements -o yaml")
	approval := v.write("approval.yaml", canaryFile("afterStageTasks: [{type: TimedWait, waitTime: 1m}, {type: Approval}]"))
	const remedy = "no cluster has ring=canry (is --cluster-labels missing?); --allow-empty-stages creates the run all the same"
	v.shows(cli.ExitFailed, "create run shop-3 --placement shop --strategy "+approval+"/approval.yaml", "run shop-3: stage canary has no clusters, so its approval guards nothing: "+remedy)
	run := "---\n" + strings.NewReplacer("shop-2", "shop-4").Replace(runOf)
	wait := v.write("wait.yaml", canaryFile("afterStageTasks: [{type: TimedWait, waitTime: 1m}]")+run)
	for _, more := range []string{"", " --dry-run"} {
		v.shows(cli.ExitFailed, "apply -f "+wait+more, "wait.yaml:9: run shop-4: stage canary has no clusters, so its wait guards nothing: "+remedy)
	}
	if after := v.shows(cli.ExitDone, "get runs -o yaml") + v.shows(cli.ExitDone, "get placements -o yaml"); after != before || strings.Contains(v.shows(cli.ExitDone, "get strategies -o name"), "careful") {
		t.Errorf("something was written:\n%s", after)
	}
	v.shows(cli.ExitDone, "apply --allow-empty-stages -f "+wait, "run/shop-4: created")
	v.shows(cli.ExitDone, "create run shop-5 --placement shop --strategy "+v.write("plain.yaml", canaryFile("maxConcurrency: 2"))+"/plain.yaml", "warning: stage canary has no clusters", "run/shop-5: created")
}

// The plan of a run whose placement changes in the same files is made after the placement is
// written, and refused then.
func TestAnEmptyStageOfANewPlacementIsRefused(t *testing.T) {
	v := newEnv(t)
	file := v.write("all.yaml", placementFile+"---\n"+canaryFile("afterStageTasks: [{type: Approval}]")+"---\n"+runFile)
	v.shows(cli.ExitFailed, "apply -f "+file, "run store-1: stage canary has no clusters", "these changes were made, and stay: placement/store, strategy/careful")
	if out := v.shows(cli.ExitDone, "get runs -o name"); strings.Contains(out, "store-1") {
		t.Errorf("it was created:\n%s", out)
	}
}
