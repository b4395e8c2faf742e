package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// csurOf returns the object of a run with the fields of a spec.
func csurOf(name, spec string) string {
	return `{"apiVersion":"placement.kubernetes-fleet.io/v1beta1","kind":"ClusterStagedUpdateRun","metadata":{"name":"` + name + `"},"spec":{` + spec + `}}`
}

// file writes a file, and returns its path.
func (w *kubeEnv) file(name, text string) string {
	w.t.Helper()
	w.must(os.WriteFile(w.path(name), []byte(text), 0o600))
	return w.path(name)
}

// A run that the hub refused is Failed for every verb, with all reasons and the remedy, and stays
// so whatever its spec.state is set to. No command to it is recorded.
func TestARunThatTheHubRefused(t *testing.T) {
	w := newKubeEnv(t)
	w.shows(cli.ExitFailed, "slipway create run typo --placement webb --strategy carefree", "the hub refuses it")
	w.shows(cli.ExitDone, "apply -f "+w.file("index.json", csurOf("index", `"placementName":"web","stagedRolloutStrategyName":"careful","resourceSnapshotIndex":"7","state":"Run"`)))
	w.eventually("slipway get runs", "index   web         Failed")

	why := []string{"Failed", "the hub refused it", "there is no ClusterResourcePlacement webb", "there is no ClusterStagedUpdateStrategy carefree", "delete the run and create it again"}
	w.shows(cli.ExitDone, "slipway explain typo", append(why, "run/typo: Failed")...)
	w.shows(cli.ExitDone, "slipway describe run typo", why...)
	w.shows(cli.ExitUnsuccessful, "slipway wait typo", why...)
	w.shows(cli.ExitUnsuccessful, "slipway watch typo", why...)
	w.shows(cli.ExitFailed, "slipway history run/typo", why...)
	w.shows(cli.ExitUnsuccessful, "slipway history run/typo --follow", why[1:]...)
	w.shows(cli.ExitFailed, "slipway forecast typo", why...)
	w.shows(cli.ExitFailed, "slipway explain none", "run none does not exist", "get runs lists all")
	if out := w.shows(cli.ExitDone, "slipway get run index"); !strings.HasSuffix(out, "0        -\n") {
		t.Errorf("the index of a snapshot that the hub refused is shown:\n%s", out)
	}

	text, err := os.ReadFile("testdata/hub.yaml")
	w.must(err)
	w.shows(cli.ExitDone, "apply -f "+w.file("corrected.yaml", strings.NewReplacer("name: web}", "name: webb}", "name: careful}", "name: carefree}").Replace(string(text))))
	w.eventually("get clusterresourceplacement webb", "True")
	for _, run := range []string{"typo", "index"} {
		for verb, says := range map[string]string{"stop": "is Failed", "start": "is Failed", "rollback": "is Failed", "rollback --yes": "cannot be rolled back"} {
			w.shows(cli.ExitFailed, "slipway "+verb+" "+run, "run "+run, says, "the hub refused it")
		}
		for _, state := range []string{"Stop", "Run"} {
			w.shows(cli.ExitDone, `patch csur `+run+` --type merge -p {"spec":{"state":"`+state+`"}}`)
			w.eventually(`get csur `+run+` -o jsonpath={.metadata.generation}:{.status.conditions[0].observedGeneration}:{.status.conditions[0].status}`, map[string]string{"Stop": "2:2:False", "Run": "3:3:False"}[state])
			w.shows(cli.ExitDone, "slipway get run "+run, "Failed")
		}
	}
	w.shows(cli.ExitDone, "slipway create run good --placement web --strategy careful")
	w.eventually("slipway get approvals", "good-staging")
	w.shows(cli.ExitDone, "slipway explain typo", why...)
}

// A run that no hub has taken is NotStarted for every verb, and each says since when no hub leads
// the cluster. It can be neither rolled back nor waited for without a word. wait continues when a
// hub takes the run, and says that a run which is stopped waits for a start.
func TestARunThatNoHubHasTaken(t *testing.T) {
	w := newKubeEnv(t)
	w.end()
	w.shows(cli.ExitDone, "slipway create run first --placement web --strategy careful", "run/first: created")
	why := []string{"NotStarted", "the hub has not taken it yet; no hub leads this cluster since " + time.Now().UTC().Format(time.DateOnly), "slipway hub"}
	w.shows(cli.ExitDone, "slipway explain first", append(why, "run/first: NotStarted")...)
	w.shows(cli.ExitDone, "slipway describe run first", why...)
	w.shows(cli.ExitFailed, "slipway history run/first", why...)
	w.shows(cli.ExitTimeout, "slipway wait first --timeout 3s", append(why, "--timeout has passed")...)
	w.shows(cli.ExitTimeout, "slipway watch first --timeout 3s", why...)
	w.shows(cli.ExitFailed, "slipway rollback first --yes", "run first", "run first cannot be rolled back: it has not changed anything", "delete it instead")
	w.shows(cli.ExitDone, "delete lease slipway-hub -n slipway-system")
	w.shows(cli.ExitDone, "slipway explain first", "there is no Lease slipway-hub in namespace slipway-system")

	w.serve(w.server)
	w.eventually("slipway get approvals", "first-staging")
	if out := w.shows(cli.ExitDone, "slipway explain first"); strings.Contains(out, "no hub leads") {
		t.Errorf("a hub leads:\n%s", out)
	}
	w.shows(cli.ExitDone, "slipway stop first")
	w.eventually("slipway get run first", "Stopped")
	w.shows(cli.ExitTimeout, "slipway wait first --timeout 3s", "run/first: Stopped: it waits until it is started", "slipway start first")
	w.shows(cli.ExitDone, "slipway start first")
	w.eventually("slipway get run first", "Running")
	w.shows(cli.ExitDone, "slipway approve first --yes")
	w.shows(cli.ExitDone, "slipway wait first", "run/first: Completed")
	w.shows(cli.ExitDone, "slipway get run first", "Completed", "2/2")
	for _, verb := range []string{"stop", "start"} {
		w.shows(cli.ExitFailed, "slipway "+verb+" first", "run first", "ended as Completed")
	}
	w.shows(cli.ExitDone, "slipway get run first", "Completed", "2/2")
}

// A run that has changed nothing is not rolled back, and its reason names no rollback run. The
// remedies of refused rollbacks exist on a hub.
func TestARollbackThatAHubRefuses(t *testing.T) {
	w := newKubeEnv(t)
	text, err := os.ReadFile("testdata/hub.yaml")
	w.must(err)
	_, strategy, _ := strings.Cut(string(text), "---")
	w.shows(cli.ExitDone, "apply -f "+w.file("asks.yaml", strings.NewReplacer("name: careful}", "name: asks}", "afterStageTasks", "beforeStageTasks").Replace(strategy)))
	w.shows(cli.ExitDone, "slipway create run first --placement web --strategy asks")
	w.eventually("slipway get approvals", "first-before-staging")
	w.shows(cli.ExitDone, "slipway create run next --placement web --strategy asks")
	w.eventually("slipway get run next", "Pending")
	w.shows(cli.ExitFailed, "slipway rollback next --yes", "has not changed anything yet: delete it")
	w.shows(cli.ExitDone, "slipway delete run next --yes")
	_, _ = w.run("slipway rollback first --yes") // the command or the hub says that there is nothing to roll back
	w.eventually("slipway get run first -o wide", "Failed", "the run is not rolled back: it has not changed any cluster")
	if out := w.shows(cli.ExitDone, "slipway get run first -o wide"); strings.Contains(out, "first-rollback") {
		t.Errorf("the reason names a run that does not exist:\n%s", out)
	}
	w.shows(cli.ExitUnsuccessful, "slipway wait first", "not rolled back: it has not changed any cluster")
	w.shows(cli.ExitDone, "slipway explain first", "run/first: Failed", "not rolled back: it has not changed any cluster")
}
