//go:build unix

package azure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/formats/azure"
)

// TestTheTutorialOneByOne updates all members one after the other, and then creates a run of the
// same name with stages, which has nothing left to do.
func TestTheTutorialOneByOne(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.do(0, "fleet member create --resource-group $GROUP --fleet-name $FLEET --name member-1a --member-cluster-id /aks/1a --update-group group-1b --takes 10ms -o json")
	s.do(0, "member create --resource-group $GROUP --fleet-name $FLEET --name member-2a --member-cluster-id=/aks/2a --region westeurope --takes 10ms")
	s.do(0, "member update $AT --name member-1a --update-group group-1a")
	s.do(0, "member update $AT --name member-2a --update-group group-2a")
	s.do(0, "updaterun create --resource-group $GROUP --fleet-name $FLEET --name run-1 --upgrade-type Full --kubernetes-version 1.26.0 --node-image-selection Latest -o json")
	s.do(0, "updaterun start --resource-group $GROUP --fleet-name $FLEET --name run-1")
	s.do(0, "updaterun show $AT -n run-1 -o json")
	s.do(0, "member list $AT")
	const again = "updaterun create --resource-group $GROUP --fleet-name $FLEET --name run-1 --upgrade-type Full --kubernetes-version 1.26.0 --node-image-selection Latest --stages example-stages.json"
	s.do(1, again)
	s.do(1, "updaterun start $AT -n run-1")
	s.do(1, "updaterun stop $AT -n run-1")
	s.do(1, "updaterun skip $AT -n run-1 --targets Stage:one-by-one")
	s.do(0, "updaterun delete $AT -n run-1")
	s.do(0, again)
	s.do(0, "updaterun start $AT -n run-1")
	s.do(0, "updaterun show $AT -n run-1")
	s.golden("one-by-one")
}

// TestTheTutorialWithStages goes through the stages of the tutorial's file, in seconds,
// each command a process of its own.
func TestTheTutorialWithStages(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.members("")
	s.quietly(0, "member create $AT --name stray --member-cluster-id /aks/stray")
	s.do(0, "member list $AT")
	s.process(0, "updaterun create --resource-group $GROUP --fleet-name $FLEET --name run-1 --upgrade-type Full --kubernetes-version 1.26.0 --node-image-selection Latest --stages example-stages.json --speed 3600")
	s.process(0, "updaterun start --resource-group $GROUP --fleet-name $FLEET --name run-1")
	s.process(0, "updaterun show $AT -n run-1")
	s.do(0, "updaterun list $AT")
	s.golden("stages")
}

// TestTheTutorialWithAStrategy makes run-5 from strategy-1, skips parts of it and goes
// through the rest. The strategy is a template: the run keeps its copy.
func TestTheTutorialWithAStrategy(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.members("--region westeurope")
	s.quietly(0, "member delete $AT -n member-1c")
	s.quietly(0, "member create $AT --name member-1c --member-cluster-id /aks/1c --update-group group-1c --takes 10ms")
	s.do(0, "updatestrategy create --resource-group $GROUP --fleet-name $FLEET --name strategy-1 --stages example-stages.json -o json")
	s.do(1, "updatestrategy create --resource-group $GROUP --fleet-name $FLEET --name strategy-1 --stages example-stages.json")
	s.do(0, "updatestrategy list $AT")
	s.do(1, "updaterun create $AT --name run-5 --update-strategy-name strategy-2 --upgrade-type NodeImageOnly")
	s.do(0, "updaterun create --resource-group $GROUP --fleet-name $FLEET --name run-5 --update-strategy-name strategy-1 --upgrade-type NodeImageOnly --node-image-selection Consistent")
	s.do(0, "updatestrategy delete $AT --name strategy-1")
	s.do(1, "updatestrategy show $AT --name strategy-1")
	s.do(1, "updaterun stop --resource-group $GROUP --fleet-name $FLEET --name run-5")
	s.do(1, "updaterun skip $AT --name run-5 --targets Group:my-group-name Stage:my-stage-name Stage:stage2")
	if r := s.quietly(1, "updaterun skip $AT --name run-5 --targets Group:group-1b Member:member-1b"); strings.Contains(r.err, "recorded") {
		t.Errorf("the first of two targets is recorded: %s", r.err)
	}
	s.do(0, "updaterun skip --resource-group $GROUP --fleet-name $FLEET --name run-5 --targets Group:group-1b Stage:stage2 AfterStageWait:stage1")
	s.do(0, "updaterun start --resource-group $GROUP --fleet-name $FLEET --name run-5")
	shown := s.do(0, "updaterun show $AT --name run-5 -o json")
	s.do(0, "member list $AT")
	s.golden("strategy")
	var u azure.UpdateRun
	if err := json.Unmarshal([]byte(shown.out), &u); err != nil || u.Strategy == nil || len(u.Strategy.Stages) != 2 || u.UpdateStrategyID == nil {
		t.Errorf("%v, strategy %+v of %v", err, u.Strategy, u.UpdateStrategyID)
	}
}

// TestTheDocumentInItsOrder enters all commands of the document about updates across clusters as
// printed and in their order, with names instead of placeholders. Its two runs with the name run-1
// are alternatives, so the first one is deleted. A run that has ended cannot be stopped or skipped.
func TestTheDocumentInItsOrder(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.members("")
	const at = " --resource-group $GROUP --fleet-name $FLEET --name "
	s.do(0, "fleet updaterun create"+at+"run-1 --upgrade-type Full --kubernetes-version 1.26.0 --node-image-selection Latest")
	s.quietly(0, "fleet updaterun start"+at+"run-1")
	s.do(0, "fleet updaterun show $AT -n run-1")
	s.do(0, "fleet member create"+at+"member1 --member-cluster-id /aks/1 --update-group group-1a")
	s.do(0, "fleet updaterun delete $AT -n run-1")
	s.do(0, "fleet updaterun create"+at+"run-1 --upgrade-type Full --kubernetes-version 1.26.0 --node-image-selection Latest --stages example-stages.json")
	s.do(0, "fleet updaterun skip $AT -n run-1 --targets AfterStageWait:stage1") // an hour
	s.quietly(0, "fleet updaterun start"+at+"run-1")
	s.do(0, "fleet updaterun show $AT -n run-1")
	s.do(0, "fleet updatestrategy create"+at+"strategy-1 --stages example-stages.json")
	s.do(0, "fleet updaterun create"+at+"run-5 --update-strategy-name strategy-1 --upgrade-type NodeImageOnly --node-image-selection Consistent")
	s.do(0, "fleet updaterun skip"+at+"run-5 --targets Group:group-1b Stage:stage2")
	s.do(0, "fleet updaterun skip $AT -n run-5 --targets AfterStageWait:stage1")
	s.quietly(0, "fleet updaterun start"+at+"run-5")
	s.do(0, "fleet updaterun show $AT -n run-5")
	s.do(1, "fleet updaterun stop"+at+"run-5")
	s.do(1, "fleet updaterun skip"+at+"run-5 --targets Group:group-1b Stage:stage2")
	s.golden("document")
}

// TestCommandsFromOtherProcesses has other processes show, refuse, stop and skip
// while one drives, and interrupts that in the middle.
func TestCommandsFromOtherProcesses(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.members("")
	for _, slow := range []string{"1a --takes 5s", "2c --takes 3s"} { // so that they are in flight for a while
		s.quietly(0, "member delete $AT -n member-"+slow[:2])
		s.quietly(0, "member create $AT --member-cluster-id /aks/x --update-group group-"+slow[:2]+" -n member-"+slow)
	}
	s.quietly(0, "updaterun create $AT -n run-1 --upgrade-type ControlPlaneOnly --kubernetes-version 1.26.0 --stages example-stages.json")
	p := s.begin("updaterun start $AT -n run-1")
	p.until("ClusterCompleted run-1/stage1/group-1b/member-1b", "ClusterCompleted run-1/stage1/group-1c/member-1c")
	s.do(1, "updaterun start $AT -n run-1")
	s.do(0, "updaterun stop $AT -n run-1")
	s.do(1, "updaterun skip $AT -n run-1 --targets Stage:stage2")
	p.end(0)
	s.do(0, "updaterun skip $AT -n run-1 --targets Member:member-2a")

	p = s.begin("updaterun start $AT -n run-1")
	p.until("waits at stage1: timed wait")
	p.signal(syscall.SIGINT)
	p.end(cli.ExitInterrupted)
	s.do(0, "updaterun show $AT -n run-1")
	s.do(0, "updaterun skip $AT -n run-1 --targets Member:member-2b")

	p = s.begin("updaterun start $AT -n run-1")
	p.until("ClusterSkipped run-1/stage2/group-2b/member-2b")
	s.do(0, "updaterun skip $AT -n run-1 --targets AfterStageWait:stage1")
	p.until("ClusterStarted run-1/stage2/group-2c/member-2c")
	p.signal(syscall.SIGKILL)
	_ = p.cmd.Wait()
	if _, err := os.Stat(filepath.Join(s.dir, "my-fleet.db.serve")); err != nil {
		t.Errorf("a process that was killed leaves behind where it answered: %v", err)
	}
	s.do(0, "updaterun start $AT -n run-1")
	s.do(0, "updaterun show $AT -n run-1")
	s.golden("commands")
}

// TestAStartWithoutWaitingIsForTheDriver requests a second run while another process drives the
// first run. That process carries out both runs.
func TestAStartWithoutWaitingIsForTheDriver(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.members("--takes 400ms")
	for _, name := range []string{"run-1", "run-2"} {
		s.quietly(0, "updaterun create $AT --upgrade-type ControlPlaneOnly --kubernetes-version 1.26.0 -n "+name)
	}
	p := s.begin("updaterun start $AT -n run-1")
	p.until("ClusterStarted run-1/one-by-one/one-by-one/member-1a")
	if r := s.quietly(0, "updaterun start $AT -n run-2 --no-wait"); !strings.Contains(r.out, "Pending") {
		t.Errorf("a run that waits for another one:\n%s", r.out)
	}
	s.do(1, "updaterun start $AT -n run-2") // it was asked for already
	r := p.ended()
	for _, want := range []string{"RunCompleted run-1 ", "updaterun/run-1: Completed"} {
		if !strings.Contains(strings.Join(strings.Fields(r.out), " "), want) || r.code != 0 {
			t.Errorf("exit code %d, %q is not in\n%s%s", r.code, want, r.out, r.err)
		}
	}
	s.do(0, "updaterun list $AT")
	s.golden("no-wait")
}

// TestGatesFailuresAndRetries waits for an approval, fails, tries again and ends a
// scheduled start.
func TestGatesFailuresAndRetries(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.members("")
	s.quietly(0, "member delete $AT -n member-1b")
	s.quietly(0, "member create $AT --name member-1b --member-cluster-id /aks/1b --update-group group-1b --takes 300ms --fail 2")
	const stages = `{"stages": [
		{"name": "stage1", "groups": [{"name": "group-1a"}, {"name": "group-1b"}], "beforeGates": [{"type": "Approval", "displayName": "may we?"}]},
		{"name": "stage2", "groups": [{"name": "group-2a", "beforeGates": [
			{"type": "ScheduledStart", "scheduledStartConfiguration": {"startDay": "Monday", "startTime": "02:00", "utcOffset": "+00:00"}}]}]}]}`
	if err := os.WriteFile(filepath.Join(s.dir, "gates.json"), []byte(stages), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(0, "updaterun list $AT")
	s.do(0, "updaterun create $AT -n run-1 --upgrade-type ControlPlaneOnly --kubernetes-version 1.26.0 --stages gates.json")
	s.do(0, "updaterun start $AT -n run-1")
	s.do(0, "gate list $AT -n run-1 -o json")
	s.do(1, "gate update $AT -n run-1 --gate-name other --state Completed")
	s.do(0, "gate update $AT -n run-1 --gate-name run-1-before-stage1 --state Completed")
	s.do(cli.ExitUnsuccessful, "updaterun start $AT -n run-1")
	s.do(0, "updaterun show $AT -n run-1")
	s.do(cli.ExitUnsuccessful, "updaterun start $AT -n run-1")
	p := s.begin("updaterun start $AT -n run-1")
	p.until("waits at stage2/group-2a: scheduled start")
	s.do(0, "gate list $AT -n run-1")
	s.quietly(0, "gate update $AT -n run-1 --gate-name stage2/group-2a --state Completed")
	p.end(0)
	s.do(0, "updaterun show $AT -n run-1")
	s.golden("gates")
}

// TestImpossibleUpgradeCreatesNoRun checks that the error names every member
// that cannot be upgraded, and that no run is created.
func TestImpossibleUpgradeCreatesNoRun(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.do(1, "updaterun create $AT -n run-1 --upgrade-type NodeImageOnly")
	s.quietly(0, "member create $AT -n new --member-cluster-id /aks/new --from-version 1.27.1")
	s.quietly(0, "member create $AT -n old --member-cluster-id /aks/old --from-version 1.24.3")
	s.do(1, "updaterun create $AT -n run-1 --upgrade-type Full --kubernetes-version 1.26.0")
	if out := s.quietly(0, "updaterun list $AT -o json").out; strings.TrimSpace(out) != "[]" {
		t.Errorf("there are runs: %s", out)
	}
	s.golden("refused")
}

// A run with a wait of an hour after a stage reports the wait, its end, and the command that ends
// it.
func TestWaitAfterAStageIsReported(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.quietly(0, "member create $AT -n member1 --member-cluster-id aks-1 --update-group group-1a --takes 10ms")
	s.quietly(0, "updaterun create $AT -n run-1 --upgrade-type Full --kubernetes-version 1.26.0 --stages example-stages.json")
	p := s.begin("updaterun start $AT -n run-1")
	p.until("waits at stage1: timed wait, until ", "; updaterun skip --targets AfterStageWait:stage1 ends it")
	s.do(0, "member list $AT")
	s.do(1, "member update $AT -n member1 --update-group group-2a")
	s.do(0, "updaterun skip $AT -n run-1 --targets AfterStageWait:stage1")
	p.end(0)
	s.golden("wait")
}

// If a run is stopped during the wait after a stage, a skip of the wait is recorded, the command
// reports when it takes effect, and the run continues without the wait.
func TestAWaitThatIsSkippedWhileTheRunIsStopped(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.quietly(0, "member create $AT -n member1 --member-cluster-id aks-1 --update-group group-1a --takes 10ms")
	s.quietly(0, "updaterun create $AT -n run-1 --upgrade-type Full --kubernetes-version 1.26.0 --stages example-stages.json")
	p := s.begin("updaterun start $AT -n run-1")
	p.until("waits at stage1: timed wait")
	s.quietly(0, "updaterun stop $AT -n run-1")
	if r := p.ended(); !strings.HasSuffix(r.out, "updaterun/run-1: Stopped\n") {
		t.Errorf("after a stop: %s", r.out)
	}
	r := s.quietly(0, "updaterun skip $AT -n run-1 --targets AfterStageWait:stage1")
	if want := "updaterun/run-1: skip AfterStageWait:stage1 is recorded: it counts when updaterun start goes on with the run\n"; r.err != want {
		t.Errorf("skip says %q, want %q", r.err, want)
	}
	if r := s.quietly(0, "updaterun start $AT -n run-1"); strings.Contains(r.out, "timed wait") || !strings.HasSuffix(r.out, "updaterun/run-1: Completed\n") {
		t.Errorf("after a start: %s", r.out)
	}
}

// One terminal drives a run with a group at its gate. A second terminal lists, requests another
// run, approves, gets refusals for commands that the run's state does not permit, and stops the
// run.
func TestASecondTerminalApproves(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.quietly(0, "member create $AT -n member-1a --member-cluster-id /aks/1a --update-group group-1a --takes 5s")
	s.quietly(0, "member create $AT -n member-1b --member-cluster-id /aks/1b --update-group group-1b --takes 10ms")
	s.write("gates.json", `{"stages": [{"name": "stage1", "afterStageWaitInSeconds": 3600, "groups": [{"name": "group-1a"},
		{"name": "group-1b", "beforeGates": [{"type": "Approval", "displayName": "may we?"}]}]}]}`)
	s.quietly(0, "updaterun create $AT -n run-1 --upgrade-type ControlPlaneOnly --kubernetes-version 1.26.0 --stages gates.json")
	s.quietly(0, "updaterun create $AT -n run-2 --upgrade-type NodeImageOnly")
	p := s.begin("updaterun start $AT -n run-1")
	p.until("waits for approval run-1-before-stage1-group-1b: 1 more approval needed; gate update --gate-name run-1-before-stage1-group-1b --state Completed completes it")
	s.do(0, "gate list $AT -n run-1 -o json")
	s.quietly(0, "gate update $AT -n run-1 --gate-name run-1-before-stage1-group-1b --state Completed")
	p.until("ApprovalAccepted run-1/stage1/group-1b ", "ClusterCompleted run-1/stage1/group-1b/member-1b")
	s.do(0, "updaterun list $AT -o name")
	s.do(0, "updaterun delete $AT -n run-2")
	s.do(1, "updaterun delete $AT -n run-1")
	p.until("waits at stage1: timed wait")
	s.do(0, "updaterun stop $AT -n run-1 -o name")
	p.end(0)
	s.golden("approval")
}
