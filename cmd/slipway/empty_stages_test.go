package main

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
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
// unless --allow-empty-stages is set. The error names its selector, and nothing is written.
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

// A strategy that several placements share may have a stage for clusters that a placement does not
// pick.
func TestAStageForOtherPlacementsMayBeEmpty(t *testing.T) {
	v := newEnv(t)
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		canary := placement.Term{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"ring": "canary"}}}
		v.must(e.PutPlacement(ctx, fleet.Placement{
			Name: "part", Policy: placement.Policy{Required: []placement.Term{canary}}, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}},
		}))
	})
	file := v.write("rest.yaml", strings.Replace(canaryFile("afterStageTasks: [{type: Approval}]"), "canry", "rest", 1)) + "/rest.yaml"
	v.shows(cli.ExitDone, "create run part-1 --placement part --strategy "+file, "warning: stage canary has no clusters", "run/part-1: created")
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
