package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

const placementFile = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: store}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: shop}]
  strategy: {type: External}
`

const strategyFile = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: careful}
spec:
  stages:
  - name: all
    labelSelector: {}
    beforeStageTasks: [{type: Approval}]
`

const overrideFile = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourceOverride
metadata: {name: eu}
spec:
  placement: {name: store}
  clusterResourceSelectors: [{group: "", version: v1, kind: Namespace, name: shop}]
  policy:
    overrideRules:
    - clusterSelector: {clusterSelectorTerms: []}
      jsonPatchOverrides: [{op: add, path: /metadata/labels, value: {eu: "true"}}]
`

const runFile = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: store-1}
spec: {placementName: store, stagedRolloutStrategyName: careful}
`

// write writes files, given as names and texts, and returns their directory.
func (v *env) write(files ...string) string {
	v.t.Helper()
	dir := v.t.TempDir()
	for i := 0; i < len(files); i += 2 {
		v.must(os.WriteFile(filepath.Join(dir, files[i]), []byte(files[i+1]), 0o600))
	}
	return dir
}

// piped runs the command on the store with a standard input.
func (v *env) piped(in string, args ...string) (code int, out, errOut string) {
	v.t.Helper()
	var o, e bytes.Buffer
	code = run(v.t.Context(), append([]string{"--store", v.file}, args...), genericiooptions.IOStreams{In: strings.NewReader(in), Out: &o, ErrOut: &e}, v.connect)
	return code, o.String(), e.String()
}

// printed fails unless a command with these results ended with code and printed out.
func (v *env) printed(code int, out string, got int, gotOut, gotErr string) {
	v.t.Helper()
	if got != code || gotOut != out {
		v.t.Errorf("exit code %d, want %d\n%s%s\nwant\n%s", got, code, gotOut, gotErr, out)
	}
}

// A file declares everything that a rollout needs, in a store that is not there yet. The same file
// changes nothing the next time.
func TestADirectoryOfFilesIsApplied(t *testing.T) {
	v := newEnv(t)
	dir := v.write("1-placement.yaml", placementFile, "2-strategy.yml", strategyFile, "3-run.yaml", runFile+"---\n"+overrideFile, "README.md", "no document")
	v.file = filepath.Join(t.TempDir(), "new.db")
	code, out, errOut := v.on("apply", "-f", dir, "--dry-run")
	v.printed(cli.ExitDone, "placement/store: created (dry run)\noverride/eu: created, in placement store (dry run)\nstrategy/careful: created (dry run)\n"+
		"run/store-1: created, not planned, because its placement changes, too (dry run)\n", code, out, errOut)
	if _, err := os.Stat(v.file); err == nil {
		t.Error("a dry run creates the file of the store")
	}
	code, out, errOut = v.on("apply", "-f", dir)
	v.printed(cli.ExitDone, `placement/store: created
override/eu: created, in placement store
strategy/careful: created
run/store-1: created, stages 1, clusters 3, for the engine that runs on this store next
`, code, out, errOut)
	code, out, errOut = v.on("apply", "-f", dir)
	v.printed(cli.ExitDone, "placement/store: unchanged\noverride/eu: unchanged, in placement store\nstrategy/careful: unchanged\nrun/store-1: unchanged\n", code, out, errOut)
	code, out, errOut = v.on("diff", "-f", dir)
	v.printed(cli.ExitDone, "", code, out, errOut)
	v.shows(cli.ExitDone, "get strategies", "careful", "all")
	v.shows(cli.ExitDone, "get runs", "store-1", "store")
}

// The file of a store is not created if the documents have a problem, or if their run cannot be
// planned. Then the error lists no change, because none was made.
func TestAFailedApplyCreatesNoStore(t *testing.T) {
	v := newEnv(t)
	v.file = filepath.Join(t.TempDir(), "new.db")
	unplanned := placementFile + "---\n" + canaryFile("afterStageTasks: [{type: Approval}]") + "---\n" + runFile
	for text, want := range map[string]string{unplanned: "stage canary has no clusters", placementFile + "---\n" + runFile: "strategy careful is not declared"} {
		for _, dry := range []string{"", " --dry-run"} {
			if dry != "" && text == unplanned {
				continue // it plans no run of a placement that is new
			}
			if v.shows(cli.ExitFailed, "apply -f "+v.write("a.yaml", text)+dry, want); t.Failed() {
				t.FailNow()
			}
			if files, err := filepath.Glob(v.file + "*"); err != nil || len(files) > 0 {
				t.Errorf("apply%s creates %v, %v", dry, files, err)
			}
		}
	}
	if _, _, errOut := v.on("apply", "-f", v.write("a.yaml", unplanned)); strings.Contains(errOut, "these changes were made") {
		t.Error(errOut)
	}
	code, out, errOut := v.piped(placementFile, "apply", "-f", "-") // the standard input is read once
	v.printed(cli.ExitDone, "placement/store: created\n", code, out, errOut)
}

// The YAML output of get can be applied, on the same and on another store.
func TestGetPrintsDocumentsThatAreAppliedAgain(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "apply -f "+v.write("a.yaml", placementFile+"---\n"+strategyFile+"---\n"+overrideFile+"---\n"+runFile))
	if out := v.shows(cli.ExitDone, "get placement store -o yaml", "status:\n", "snapshots: 1\n"); strings.Contains(out, "      selectors:\n") {
		t.Errorf("the document has all fields of the placement, and the status repeats them:\n%s", out)
	}
	v.shows(cli.ExitDone, "get placement shop -o yaml", "      selectors:\n") // a document would make it restore changed objects
	var all string
	for _, kind := range []string{"placement store", "strategies", "run store-1"} {
		all += "---\n" + v.shows(cli.ExitDone, "get "+kind+" -o yaml")
	}
	const want = "placement/store: %s\noverride/eu: %[1]s, in placement store\nstrategy/careful: %[1]s\nrun/store-1: "
	code, out, errOut := v.piped(all, "apply", "-f", "-")
	v.printed(cli.ExitDone, strings.ReplaceAll(strings.ReplaceAll(want, "%s", "unchanged"), "%[1]s", "unchanged")+"unchanged\n", code, out, errOut)
	all = strings.ReplaceAll(all, `resourceSnapshotIndex: "0"`, `resourceSnapshotIndex: ""`)
	v.file = filepath.Join(t.TempDir(), "other.db")
	code, out, errOut = v.piped(all, "apply", "-f", "-")
	v.printed(cli.ExitDone, strings.ReplaceAll(strings.ReplaceAll(want, "%s", "created"), "%[1]s", "created")+
		"created, stages 1, clusters 3, for the engine that runs on this store next\n", code, out, errOut)
}

// If a document has a problem, nothing is applied, and all problems have their lines.
func TestAllProblemsOfFilesAreShown(t *testing.T) {
	v := newEnv(t)
	dir := v.write("a.yaml", placementFile+"---\n"+strings.ReplaceAll(strategyFile, "labelSelector", "labelSelektor"), "b.yaml", "kind: Namespace\n")
	code, out, errOut := v.on("apply", "-f", dir)
	want := "error: " + dir + "/a.yaml:14: ClusterStagedUpdateStrategy/careful: spec.stages[0].labelSelektor: unknown field"
	if code != cli.ExitFailed || out != "" || !strings.HasPrefix(errOut, want) || !strings.Contains(errOut, "\n"+dir+"/b.yaml:1: Namespace: apiVersion: ") {
		t.Errorf("%d, %s, %s", code, out, errOut)
	}
	dir = v.write("a.yaml", placementFile+"---\n"+runFile+"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
		"b.yaml", strings.NewReplacer("store", "other", ", EXTERNAL", "", "External", "RollingUpdate").Replace(placementFile)+
			"---\napiVersion: cluster.kubernetes-fleet.io/v1beta1\nkind: MemberCluster\nmetadata: {name: eu-1}\n---\n"+strings.Replace(overrideFile, "name: store", "name: none", 1))
	code, out, errOut = v.on("apply", "-f", dir)
	if code != cli.ExitFailed || out != "" {
		t.Errorf("%d, %s", code, out)
	}
	for _, want := range []string{
		"/a.yaml:8: ClusterStagedUpdateRun/store-1: spec.stagedRolloutStrategyName: strategy careful is not declared: apply its document, too",
		"/a.yaml:13: ConfigMap/settings: only placements, overrides, strategies and runs are declared",
		`/b.yaml:1: ClusterResourcePlacement/other: spec.strategy.type: Invalid value: "RollingUpdate": only a hub rolls out each change by itself`,
		"/b.yaml:8: MemberCluster/eu-1: the clusters of a store are the contexts of --clusters",
		"/b.yaml:12: ClusterResourceOverride/eu: it concerns no placement of the store",
	} {
		if !strings.Contains(errOut, want) {
			t.Errorf("no %q in\n%s", want, errOut)
		}
	}
	v.shows(cli.ExitDone, "get placements -o name", "placement/shop")
	rule := v.write("1.yaml", placementFile, "2.yaml", `{apiVersion: placement.kubernetes-fleet.io/v1, kind: ResourcePlacement, metadata: {name: store, namespace: shop},
		spec: {strategy: {type: External}, resourceSelectors: [{group: rbac.authorization.k8s.io, version: v1, kind: Role, name: x}]}}`)
	v.shows(cli.ExitFailed, "apply -f "+rule, "/2.yaml:1: placement n.shop.store", "selectors[0]") // a rule of the engine
	v.shows(cli.ExitFailed, "get placement store", "does not exist")
	v.shows(cli.ExitFailed, "apply -f none.yaml", "-f: stat none.yaml")
	v.shows(cli.ExitFailed, "apply -f "+v.write("x.txt", ""), "has no file that ends in .yaml, .yml or .json")
	v.shows(cli.ExitFailed, "apply -f "+v.write("x.yaml", "# nothing\n"), "-f: there is no document")
	v.shows(cli.ExitUsage, "apply", "-f is not set")
	v.shows(cli.ExitUsage, "diff", "slipway diff -f FILE")
	v.shows(cli.ExitUsage, "diff shop -f x", "-f: leave PLACEMENT, --strategy, --index and --cluster out")
}

// The engine checks a dry run like an apply, and nothing changes. diff shows the same changes by
// the fields of the documents.
func TestADryRunAndADiffChangeNothing(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "apply -f "+v.write("a.yaml", placementFile+"---\n"+strategyFile))
	before, err := os.ReadFile(v.file)
	v.must(err)
	dir := v.write("a.yaml", strings.Replace(placementFile, "strategy:", "revisionHistoryLimit: 3\n  strategy:", 1)+"---\n"+
		strings.Replace(strategyFile, "name: all", "name: everything", 1)+"---\n"+runFile+"---\n"+overrideFile)
	code, out, errOut := v.on("apply", "-f", dir, "--dry-run")
	v.printed(cli.ExitDone, "placement/store: configured (dry run)\noverride/eu: created, in placement store (dry run)\nstrategy/careful: configured (dry run)\n"+
		"run/store-1: created, not planned, because its placement changes, too (dry run)\n", code, out, errOut)
	code, out, errOut = v.on("diff", "-f", dir)
	if code != cli.ExitDiffers {
		t.Errorf("%d %s", code, errOut)
	}
	for _, want := range [][]string{
		{"placement/store", "configured", "spec.revisionHistoryLimit", "-", "3"},
		{"strategy/careful", "configured", "spec.stages[0].name", `"all"`, `"everything"`},
		{"run/store-1", "created", "-", "-", "-"},
		{"override/eu", "created", "-", "-", "-"},
	} {
		if !containsRow(out, want) {
			t.Errorf("no row %v in\n%s", want, out)
		}
	}
	v.shows(cli.ExitDiffers, "diff -o json -f "+dir, `"path": "spec.revisionHistoryLimit"`)
	v.shows(cli.ExitDone, "apply --dry-run -f "+v.write("run.yaml", runFile), "run/store-1: created, stages 1, clusters 3 (dry run)")
	bad := v.write("a.yaml", `{apiVersion: placement.kubernetes-fleet.io/v1, kind: ResourcePlacement, metadata: {name: store, namespace: shop},
		spec: {strategy: {type: External}, resourceSelectors: [{group: rbac.authorization.k8s.io, version: v1, kind: Role, name: x}]}}`)
	v.shows(cli.ExitFailed, "apply --dry-run -f "+bad, "/a.yaml:1: placement n.shop.store", "selectors[0]")
	after, err := os.ReadFile(v.file)
	v.must(err)
	if !bytes.Equal(before, after) {
		t.Error("the file of the store was written")
	}
}

// containsRow reports whether a table has a row of these cells.
func containsRow(table string, cells []string) bool {
	for line := range strings.Lines(table) {
		if strings.Join(strings.Fields(line), " ") == strings.Join(cells, " ") {
			return true
		}
	}
	return false
}

// A run that exists is started and stopped by its state, and refused with another spec.
func TestAFileStartsARunAndDoesNotChangeIt(t *testing.T) {
	v := newEnv(t)
	state := func(state string) string {
		return v.write("run.yaml", strings.Replace(runFile, "careful}", "careful, state: "+state+"}", 1))
	}
	v.shows(cli.ExitDone, "apply -f "+v.write("a.yaml", placementFile+"---\n"+strategyFile))
	v.shows(cli.ExitDone, "apply -f "+state("Initialize"), "run/store-1: created")
	v.shows(cli.ExitDone, "apply -f "+state("Initialize"), "run/store-1: unchanged")
	v.shows(cli.ExitDone, "get run store-1 -o yaml", "state: Initialize")
	v.shows(cli.ExitDone, "apply -f "+state("Run"), "run/store-1: started")
	v.shows(cli.ExitFailed, "apply -f "+state("Rollback"), "spec.state: only a hub is told so; slipway rollback rolls a run back")
	other := v.write("a.yaml", strings.Replace(strategyFile, "careful", "bold", 1)+"---\n"+
		strings.NewReplacer("careful", "bold", "placementName: store", "placementName: shop, resourceSnapshotIndex: \"7\"").Replace(runFile))
	v.shows(cli.ExitFailed, "apply -f "+other, `spec.placementName: the run exists with "store", and a run does not change`,
		`spec.stagedRolloutStrategyName: the run exists with "careful"`, `spec.resourceSnapshotIndex: the run exists with "0"`)
	v.shows(cli.ExitDone, "get strategies -o name", "strategy/careful")
}

// delete -f lists the deletions, and asks an engine to remove the objects of a placement.
func TestTheObjectsOfFilesAreDeleted(t *testing.T) {
	v := newEnv(t)
	dir := v.write("a.yaml", placementFile+"---\n"+strategyFile+"---\n"+overrideFile+"---\n"+runFile)
	v.shows(cli.ExitDone, "apply -f "+dir)
	override := v.write("override.yaml", overrideFile)
	v.shows(cli.ExitDone, "delete --dry-run -f "+override, "override/eu: deleted, from placement store (dry run)")
	v.shows(cli.ExitDone, "delete --yes -f "+override, "placement/store will change", "placement/store: configured\noverride/eu: deleted, from placement store\n")
	code, out, errOut := v.on("delete", "-f", dir, "--yes")
	v.printed(cli.ExitDone, "run/store-1: deleted\nplacement/store: deleting, the engine that runs on this store next removes its objects from the clusters\noverride/eu: not found\nstrategy/careful: deleted\n", code, out, errOut)
	for _, want := range []string{"run/store-1 will be deleted, with its events\n", "placement/store will be deleted; no cluster has objects of it. Its run and the events of this run go, too.\n", "strategy/careful will be deleted\n"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("no %q in\n%s", want, errOut)
		}
	}
	v.shows(cli.ExitFailed, "apply -f "+v.write("a.yaml", placementFile), "ClusterResourcePlacement/store: the placement is being deleted, and cannot be applied before that has ended: an engine deletes it")
	v.shows(cli.ExitDone, "get placements", "store", "Deleting")
	v.shows(cli.ExitDone, "describe placement store", "Deleting since:   2")
	v.shows(cli.ExitDone, "get strategies", "no strategies")
	v.shows(cli.ExitFailed, "delete strategy none --yes", "strategy none does not exist")
}

// A placement that was never rolled out is gone at once, with its overrides: no cluster has objects
// of it, so no engine is needed. It can be applied again.
func TestAPlacementThatWasNeverRolledOutIsDeletedAtOnce(t *testing.T) {
	v := newEnv(t)
	v.file = filepath.Join(t.TempDir(), "new.db")
	dir := v.write("a.yaml", placementFile+"---\n"+strategyFile+"---\n"+overrideFile)
	for range 2 {
		v.shows(cli.ExitDone, "apply -f "+dir, "placement/store: created")
		v.shows(cli.ExitDone, "get placements", "store", "Declared")
		code, out, errOut := v.on("delete", "-f", dir, "--dry-run")
		v.printed(cli.ExitDone, "placement/store: deleted (dry run)\noverride/eu: deleted, with placement store (dry run)\nstrategy/careful: deleted (dry run)\n", code, out, errOut)
		code, out, errOut = v.on("delete", "-f", dir, "--yes")
		v.printed(cli.ExitDone, "placement/store: deleted\noverride/eu: deleted, with placement store\nstrategy/careful: deleted\n", code, out, errOut)
		v.shows(cli.ExitDone, "get placements", "no placements")
	}
	v.shows(cli.ExitDone, "apply -f "+dir, "placement/store: created")
	v.shows(cli.ExitDone, "delete placement store --yes", "placement/store: deleted\n")
	v.shows(cli.ExitDone, "delete -f "+v.write("a.yaml", placementFile), "placement/store: not found")
}

// Without a terminal, delete -f needs --yes.
func TestADeletionWithoutATerminalNeedsYes(t *testing.T) {
	v := newEnv(t)
	dir := v.write("a.yaml", placementFile+"---\n"+strategyFile)
	v.shows(cli.ExitDone, "apply -f "+dir)
	v.shows(cli.ExitUsage, "delete -f "+dir, "placement/store will be deleted", "nothing was deleted: --yes is not set, and there is no terminal")
	v.shows(cli.ExitDone, "get placements", "store")
	v.shows(cli.ExitDone, "delete --yes -f "+dir, "strategy/careful: deleted")
}

// A run that cannot be planned stops apply before the first change.
func TestARunThatCannotBePlannedChangesNothing(t *testing.T) {
	v := newEnv(t)
	dir := v.write("a.yaml", placementFile+"---\n"+strategyFile+"---\n"+runFile)
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"--store", v.file, "apply", "-f", dir}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut}, nil)
	if code != cli.ExitFailed || out.Len() > 0 || !strings.Contains(errOut.String(), "a.yaml:17: run/store-1: no cluster to take a snapshot from: add --clusters KUBECONFIG and --source CONTEXT") {
		t.Errorf("%d, %s%s", code, out.String(), errOut.String())
	}
	unmatched := strings.Replace(strategyFile, "labelSelector: {}", "labelSelector: {matchLabels: {none: here}}", 1)
	ofShop := strings.Replace(runFile, "placementName: store", "placementName: shop", 1)
	if out := v.shows(cli.ExitFailed, "apply -f "+v.write("a.yaml", unmatched+"---\n"+ofShop), "a.yaml:10: ", "clusters"); out != "" {
		t.Errorf("something was written:\n%s", out)
	}
	v.shows(cli.ExitDone, "get strategies", "no strategies")
	code, text, _ := v.on("apply", "-f", v.write("a.yaml", placementFile+"---\n"+unmatched+"---\n"+runFile))
	if code != cli.ExitFailed || text != "placement/store: created\nstrategy/careful: created\n" {
		t.Errorf("%d\n%s", code, text)
	}
}

// A placement that a program declares with an owner is the program's.
func TestAFileDoesNotChangeThePlacementOfAProgram(t *testing.T) {
	v := newEnv(t)
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		p, err := e.Placement("shop").Get(ctx)
		v.must(err)
		p.Name, p.Owner = "store", "program"
		v.must(e.PutPlacement(ctx, p))
	})
	file := v.write("a.yaml", placementFile)
	v.shows(cli.ExitFailed, "apply -f "+file, `a.yaml:1: ClusterResourcePlacement/store: the placement belongs to "program", a program that declares it: change it there`)
	v.shows(cli.ExitFailed, "delete --yes -f "+file, `the placement belongs to "program", a program that declares it: delete it there`)
}

// The program that has the store open declares the documents, and its engine carries the run out.
func TestFilesAreAppliedThroughServe(t *testing.T) {
	v := newEnv(t)
	v.must(v.source.Put(object("Namespace", "", "depot", "")))
	_, _ = v.serve()
	strategy := strings.Replace(strategyFile, "    beforeStageTasks: [{type: Approval}]\n", "", 1)
	placement := strings.Replace(placementFile, "name: shop", "name: depot", 1)
	file := v.write("a.yaml", placement+"---\n"+strategy+"---\n"+runFile)
	code, out, errOut := v.on("apply", "-f", file)
	v.printed(cli.ExitDone, "placement/store: created\nstrategy/careful: created\nrun/store-1: created, stages 1, clusters 3\n", code, out, errOut)
	v.shows(cli.ExitDone, "wait store-1 --timeout 20s", "run/store-1: Completed")
	v.shows(cli.ExitDone, "create run store-2 --placement store --strategy careful", "run/store-2: created")
	v.shows(cli.ExitFailed, "create run store-3 --placement store --strategy none", "strategy none does not exist")
	v.shows(cli.ExitDone, "apply -f "+file, "placement/store: unchanged", "run/store-1: unchanged")
	v.shows(cli.ExitDone, "delete --yes --force -f "+v.write("a.yaml", placementFile), "placement/store: deleting, an engine removes its objects from the clusters")
}

// runOf is the document of run shop-2, which is running.
const runOf = `apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: shop-2}
spec: {placementName: shop, stagedRolloutStrategyName: careful}
`

// If a run refuses to be deleted, nothing is deleted.
func TestADeletionStopsBeforeARunThatRefuses(t *testing.T) {
	v := newEnv(t)
	dir := v.write("a.yaml", strings.Replace(placementFile, "name: store", "name: shop", 1)+"---\n"+runOf)
	for _, more := range []string{"", " --dry-run", " --yes"} {
		if out := v.shows(cli.ExitFailed, "delete --yes -f "+dir+more, "a.yaml:8: ClusterStagedUpdateRun/shop-2: the run is Running: stop it first, or force its deletion with --force"); strings.Contains(out, "deleted") {
			t.Errorf("something was deleted:\n%s", out)
		}
	}
	v.shows(cli.ExitDone, "get runs", "shop-2")
	v.shows(cli.ExitDone, "apply -f "+v.write("a.yaml", strings.Replace(placementFile, "name: store", "name: shop", 1)), "placement/shop: configured") // it is not being deleted
	v.shows(cli.ExitDone, "delete --force --dry-run -f "+dir, "run/shop-2: deleted (dry run)")
}

// carried makes changes, of which some fail. It returns the done changes, the output and the error.
func carried(changes []declare.Change, inOrder bool, failing ...string) (done []string, out string, err error) {
	var buf bytes.Buffer
	o := &options{Options: cli.Options{IOStreams: genericiooptions.IOStreams{Out: &buf}}}
	err = o.carryOut(call{Target: &target.Target{Live: true}}, changes, carrying{inOrder: inOrder, do: func(i int) (string, error) {
		if slices.Contains(failing, changes[i].Object()) {
			return "", errors.New(changes[i].Object() + " changed meanwhile")
		}
		done = append(done, changes[i].Object())
		return "", nil
	}})
	return done, buf.String(), err
}

// A run is not created if its placement or its strategy was not written, because it would roll out
// the earlier content.
func TestARunIsNotCreatedWithoutItsPlacementAndStrategy(t *testing.T) {
	docs, err := kubefleet.Read(strings.NewReader(placementFile+"---\n"+strategyFile+"---\n"+overrideFile+"---\n"+runFile), "a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changes, err := declare.Plan(docs, declare.State{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ fails, done, want string }{
		{"placement/store", "strategy/careful", "a.yaml:1: placement/store changed meanwhile\noverride/eu: not applied: placement/store failed\na.yaml:28: run/store-1: not applied: placement/store failed\nthese changes were made, and stay: strategy/careful"},
		{"strategy/careful", "placement/store override/eu", "a.yaml:8: strategy/careful changed meanwhile\na.yaml:28: run/store-1: not applied: strategy/careful failed\nthese changes were made, and stay: placement/store, override/eu"},
		{"run/store-1", "placement/store override/eu strategy/careful", "a.yaml:28: run/store-1 changed meanwhile\nthese changes were made, and stay: placement/store, override/eu, strategy/careful"},
	} {
		done, out, err := carried(changes, false, c.fails)
		if got := strings.Join(done, " "); err == nil || err.Error() != c.want || got != c.done || strings.Contains(out, "run/") {
			t.Errorf("%s fails: did %s\n%s%v", c.fails, got, out, err)
		}
	}
}

// On a hub, and while things are deleted, nothing changes any more after a failure.
func TestNothingIsDeletedAfterAFailure(t *testing.T) {
	changes := []declare.Change{
		{Kind: "run", Name: "a", Action: declare.Deleted},
		{Kind: "run", Name: "b", Action: declare.Deleted},
		{Kind: "run", Name: "c", Action: declare.Missing},
		{Kind: "placement", Name: "web", Action: declare.Deleted},
	}
	done, out, err := carried(changes, true, "run/b")
	if len(done) != 1 || out != "run/a: deleted\nrun/c: not found\n" || err == nil || err.Error() != "run/b changed meanwhile\nplacement/web: not deleted: run/b failed\nthese changes were made, and stay: run/a" {
		t.Errorf("did %v\n%s%v", done, out, err)
	}
}

// The documents of placements that share an override are applied again, together and one by one,
// and change nothing. A document of a strategy with more fields than documents have says so.
func TestReappliedDocumentsChangeNothing(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "apply -f "+v.write("a.yaml", placementFile+"---\n"+strings.Replace(placementFile, "name: store", "name: api", 1)+"---\n"+
		strings.Replace(overrideFile, "  placement: {name: store}\n", "", 1)+"---\n"+strategyFile), "in placement api, shop, store")
	v.shows(cli.ExitDone, "apply -f "+v.write("own.yaml", strings.NewReplacer("name: eu", "name: own", "spec:", "spec:\n  priority: 7").Replace(overrideFile)), "override/own: created, in placement store")
	for _, one := range []string{"placements store api", "placements store"} {
		code, out, errOut := v.piped(v.shows(cli.ExitDone, "get "+one+" -o yaml"), "apply", "-f", "-")
		if code != cli.ExitDone || strings.Contains(out, "configured") || strings.Count(out, "override/eu: unchanged, in placement api, shop, store\n") != 1 || !strings.Contains(out, "override/own: unchanged, in placement store\n") {
			t.Errorf("%s: %d\n%s%s", one, code, out, errOut)
		}
	}
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		s, err := e.Strategy(ctx, "careful")
		v.must(err)
		s.MinHealthy = metav1.Duration{Duration: time.Minute}
		v.must(e.PutStrategy(ctx, s))
	})
	text := v.shows(cli.ExitDone, "get strategies -o yaml", "minHealthy")
	code, out, errOut := v.piped(text, "apply", "-f", "-")
	v.printed(cli.ExitDone, "strategy/careful: unchanged, no document has its minHealthy\n", code, out, errOut)
	for _, verb := range []string{"apply", "diff"} {
		code, out, errOut = v.piped(strings.Replace(text, "name: all", "name: everything", 1), verb, "-f", "-")
		if code != cli.ExitFailed || out != "" || !strings.Contains(errOut, "ClusterStagedUpdateStrategy/careful: the document would remove minHealthy from the strategy") {
			t.Errorf("%s: %d %s%s", verb, code, out, errOut)
		}
	}
}

// A damaged record of a strategy is of no concern to documents that do not name it.
func TestADamagedStrategyConcernsOnlyItsDocuments(t *testing.T) {
	v := newEnv(t)
	store, err := bolt.Open(v.file, bolt.Options{})
	v.must(err)
	_, err = store.Put(t.Context(), "strategy/broken", []byte("{"), "")
	v.must(err)
	v.must(store.Close())
	v.shows(cli.ExitFailed, "get strategies", "broken")
	v.shows(cli.ExitDone, "apply -f "+v.write("a.yaml", placementFile+"---\n"+strategyFile), "strategy/careful: created")
	v.shows(cli.ExitFailed, "apply -f "+v.write("a.yaml", strings.Replace(strategyFile, "careful", "broken", 1)), "broken")
}
