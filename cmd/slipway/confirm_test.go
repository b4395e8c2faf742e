package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
)

// confirmed are the verbs that ask for a confirmation, with a call for the store of newEnv.
var confirmed = map[string]string{
	"approve": "shop-2", "reject": "shop-2", "rollback": "shop-2", "abort": "shop-2", "skip": "shop-2 --what cluster/eu-2",
	"delete": "--force -f testdata/texts/declared.yaml", "delete placement": "--force shop", "delete run": "shop-1", "delete strategy": "careful", "delete cap": "all",
	"delete deletion": "", "drain": "", "hub uninstall": "", "migrate take-over": "", "migrate give-back": "", // they need more than the store
}

// Exactly these verbs have --yes. All others, such as stop, start and retry, never ask.
func TestTheVerbsThatAsk(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		verb := strings.TrimPrefix(cmd.CommandPath(), "slipway ")
		_, want := confirmed[verb]
		if got := cmd.Flags().Lookup("yes") != nil; got != want {
			t.Errorf("%s: it has --yes: %t, want %t", verb, got, want)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(genericiooptions.NewTestIOStreamsDiscard(), nil, "slipway"))
}

// Without a terminal these verbs refuse, with exit code 2, and change nothing, unless --yes is set.
func TestWithoutATerminalAVerbNeedsYes(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "set cap all 2")
	v.shows(cli.ExitDone, "apply -f testdata/texts/careful.yaml", "strategy/careful: created")
	state := func() string {
		return v.shows(cli.ExitDone, "get runs -o yaml") + v.shows(cli.ExitDone, "get approvals -o yaml") + v.shows(cli.ExitDone, "get placements -o yaml") +
			v.shows(cli.ExitDone, "get strategies") + v.shows(cli.ExitDone, "get caps")
	}
	before := state()
	for verb, args := range confirmed {
		if args != "" {
			v.shows(cli.ExitUsage, verb+" "+args, ": --yes is not set, and there is no terminal to ask for a confirmation")
		}
	}
	if after := state(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	v.shows(cli.ExitDone, "stop shop-2", "stop is recorded")
	v.shows(cli.ExitDone, "approve shop-2 --yes", "approve is recorded")
	v.shows(cli.ExitDone, "delete strategy careful --yes", "strategy/careful: deleted")
}

// A verb that cannot succeed says so before it asks, and names what it would do.
func TestVerbsPreviewTheirEffect(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitUsage, "rollback shop-2", "run/shop-2 will be rolled back on 1 cluster")
	v.shows(cli.ExitUsage, "abort shop-2", "run/shop-2 is Running, 1 of 3 clusters done; it will end for good")
	v.shows(cli.ExitUsage, "skip shop-2 --what stage/rest", "run/shop-2 is Running, 1 of 3 clusters done; it will go on without stage/rest")
	const runs = " Its 2 runs and their events go, too.\n"
	v.shows(cli.ExitUsage, "delete placement shop --force", "Objects of placement/shop will be DELETED from 3 clusters (policy DeleteCreated: objects that were there before it stay)."+runs)
	v.shows(cli.ExitUsage, "delete placement shop --force --policy Delete", "Objects of placement/shop will be DELETED from 3 clusters (policy Delete: also objects that were there before it)."+runs)
	v.shows(cli.ExitUsage, "delete -f testdata/texts/declared.yaml --force --policy Abandon", "Objects of placement/shop will stay on 3 clusters (policy Abandon)."+runs)
	v.shows(cli.ExitUsage, "delete run shop-1", "run/shop-1 will be deleted, with its events")
	const inProgress = "has run shop-2, which is Running, 1 of 3 clusters done: stop it first, or set --force"
	for args, want := range map[string]string{
		"rollback none": "does not exist", "abort none": "does not exist", "abort shop-1": "ended as Completed", "delete run none": "does not exist",
		"delete run shop-2": "the run is Running: stop it first, or set --force", "delete placement none": "does not exist", "delete placement shop": inProgress,
		"delete strategy none": "does not exist", "delete cap none": "does not exist", "delete deletion none": "none",
	} {
		v.shows(cli.ExitFailed, args, want)
	}
}

// A placement with a run in progress is not deleted, with --yes either: the deletion would end the
// run and delete its history. With --force it is, and the engine removes the objects.
func TestAPlacementWithARunInProgressStays(t *testing.T) {
	v := newEnv(t)
	const why = "has run shop-2, which is Running, 1 of 3 clusters done: stop it first, or set --force"
	runs := v.shows(cli.ExitDone, "get runs -o yaml")
	v.shows(cli.ExitFailed, "delete placement shop --yes", "placement/shop "+why)
	v.shows(cli.ExitFailed, "delete -f testdata/texts/declared.yaml --yes", "ClusterResourcePlacement/shop: the placement "+why)
	if now := v.shows(cli.ExitDone, "get runs -o yaml"); now != runs {
		t.Errorf("before:\n%s\nafter:\n%s", runs, now)
	}
	v.shows(cli.ExitDone, "delete -f testdata/texts/declared.yaml --yes --force", "placement/shop: deleting")
	v.shows(cli.ExitDone, "delete placement shop --yes", "placement/shop: deleting") // again
}

// A verb refuses a command that does not fit the run, and a second answer of a person, before it
// asks and without a record, although no engine runs. The recorded commands count as carried out,
// and describe and explain name them.
func TestACommandIsCheckedBeforeItIsRecorded(t *testing.T) {
	v := newEnv(t)
	for args, want := range map[string]string{
		"skip shop-2 --what stage/nope":         "run shop-2: command Skip is refused, the run is Running: the plan has no stage nope (canary, rest)",
		"skip shop-2 --what cluster/eu-1 --yes": "cluster eu-1 has ended already",
		"skip shop-2 --what wait/canary --yes":  "stage canary has no wait after it",
		"retry shop-2":                          "stage canary has no failed or skipped clusters to be tried again",
	} {
		v.shows(cli.ExitFailed, args, want)
	}
	v.shows(cli.ExitDone, "approve shop-2 --as ann --yes", "approve by ann is recorded, for the engine that runs on this store next")
	for _, args := range []string{"describe run shop-2", "explain shop-2"} {
		v.shows(cli.ExitDone, args, "recorded, not yet counted: approve by ann")
	}
	for _, args := range []string{"describe run shop-2", "explain shop-2", "describe approval shop-2-after-canary"} {
		if out := v.shows(cli.ExitDone, args+" -o json"); !json.Valid([]byte(out)) {
			t.Errorf("%s -o json shows\n%s", args, out)
		}
	}
	v.shows(cli.ExitDone, "describe approval shop-2-after-canary", "Decisions:", "Missing:", "recorded, not yet counted: approve by ann")
	v.shows(cli.ExitFailed, "reject shop-2", "request shop-2-after-canary is closed by recorded commands, which an engine carries out next: approve by ann")
	v.shows(cli.ExitDone, "abort shop-2 --yes", "abort is recorded")
	v.shows(cli.ExitFailed, "stop shop-2", "command Stop is refused: the run has ended as Aborted (after the recorded commands approve by ann, abort by ")
	v.engine(func(ctx context.Context, e *fleet.Engine) { _, err := e.Run("shop-2").Wait(ctx); v.must(err) })
	if got := v.shows(cli.ExitDone, "history run/shop-2"); strings.Contains(got, "CommandRefused") {
		t.Error(got)
	}
	v.shows(cli.ExitDone, "describe run shop-2", "Aborted")
}

// A refused rollback has one text, whether it is previewed, asked for or confirmed.
func TestARefusedRollback(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "approve shop-2 --as ann --yes")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.wait(ctx, e, "shop-2") })
	file := filepath.Join(t.TempDir(), "strategy.yaml")
	v.must(os.WriteFile(file, []byte("rollback: {}\nstages:\n- {name: all, labelSelector: {}}\n"), 0o600))
	v.shows(cli.ExitDone, "create run shop-3 --placement shop --strategy "+file)
	for run, why := range map[string]string{"shop-1": "run shop-2 has changed clusters since", "shop-3": "the run has not changed anything yet: delete it"} {
		for _, flag := range []string{"", " --preview", " --yes"} {
			v.shows(cli.ExitFailed, "rollback "+run+flag, "error: run "+run+" cannot be rolled back: ", why)
		}
	}
}

// One mistake has one text: a run that does not exist, with the similar names.
func TestARunThatDoesNotExist(t *testing.T) {
	v := newEnv(t)
	for _, args := range []string{"approve shpo-2", "reject shpo-2", "stop shpo-2", "rollback shpo-2 --yes", "describe run shpo-2", "get run shpo-2", "explain shpo-2"} {
		v.shows(cli.ExitFailed, args, "run shpo-2 does not exist: did you mean shop-2?")
	}
	v.shows(cli.ExitFailed, "approve nothing", "run nothing does not exist; slipway get runs lists all")
}

// A second answer to a request says who gave the first one, and when.
func TestARequestThatWasAnswered(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "approve shop-2 --as ann --yes")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.wait(ctx, e, "shop-2") })
	const want = "request shop-2-after-canary was approved by ann at 20"
	v.shows(cli.ExitFailed, "approve shop-2 --yes", want)
	v.shows(cli.ExitFailed, "reject shop-2 shop-2-after-canary --yes", want)
	v.shows(cli.ExitFailed, "approve shop-2 other --yes", "run shop-2 has no open request other")
}
