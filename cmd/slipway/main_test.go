package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// env is a store for an engine, with its clusters.
type env struct {
	t       testing.TB
	file    string
	members *memory.Fleet
	source  *memory.Source
}

func object(kind, namespace, name, value string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name}}}
	if namespace != "" {
		obj.SetNamespace(namespace)
		obj.Object["data"] = map[string]any{"key": value}
	}
	return obj
}

// strategy brings a change to eu-1, waits for an approval, and brings it to the rest.
func strategy(task ...stages.Task) stages.Strategy {
	canary := &metav1.LabelSelector{MatchLabels: map[string]string{"ring": "canary"}}
	rest := &metav1.LabelSelector{MatchLabels: map[string]string{"ring": "rest"}}
	return stages.Strategy{Rollback: &stages.RollbackPolicy{}, Stages: []stages.Stage{{Name: "canary", Selector: canary, After: task}, {Name: "rest", Selector: rest}}}
}

// newEnv has a run, shop-1, that has ended, and one, shop-2, whose canary waits for an approval.
// No engine runs on the store.
func newEnv(t *testing.T) *env {
	t.Helper()
	ring := func(name string) map[string]string { return map[string]string{"ring": name} }
	v := &env{
		t: t, file: filepath.Join(t.TempDir(), "state.db"),
		members: memory.NewFleet(
			placement.Cluster{Name: "eu-1", Labels: ring("canary")},
			placement.Cluster{Name: "eu-2", Labels: ring("rest")}, placement.Cluster{Name: "eu-3", Labels: ring("rest")},
		),
		source: memory.NewSource(object("Namespace", "", "shop", ""), object("ConfigMap", "shop", "web", "v1")),
	}
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		v.must(e.PutPlacement(ctx, fleet.Placement{Name: "shop", Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: "shop"}}}))
		v.create(ctx, e, "shop-1", strategy())
		v.wait(ctx, e, "shop-1")
		v.must(v.source.Put(object("ConfigMap", "shop", "web", "v2")))
		v.create(ctx, e, "shop-2", strategy(stages.Task{Type: stages.Approval}))
		for requests := 0; requests == 0; time.Sleep(time.Millisecond) {
			open, err := e.Run("shop-2").Requests(ctx)
			v.must(err)
			requests = len(open)
		}
	})
	return v
}

func (v *env) must(err error) {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
}

func (v *env) create(ctx context.Context, e *fleet.Engine, name string, s stages.Strategy) {
	v.t.Helper()
	_, err := e.CreateRun(ctx, fleet.RunSpec{Name: name, Placement: "shop", Strategy: s})
	v.must(err)
}

func (v *env) wait(ctx context.Context, e *fleet.Engine, run string) {
	v.t.Helper()
	s, err := e.Run(run).Wait(ctx)
	v.must(err)
	if s.Run.State != stages.Completed {
		v.t.Fatalf("%s is %s (%s), want Completed", run, s.Run.State, s.Run.Reason)
	}
}

// engine runs an engine on the store for as long as do takes.
func (v *env) engine(do func(context.Context, *fleet.Engine)) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), 10*time.Second)
	defer cancel()
	store, err := bolt.Open(v.file, bolt.Options{})
	v.must(err)
	defer func() { v.must(store.Close()) }()
	cfg := fleet.Config{Store: store, Name: "engine"}
	v.must(v.connect(&cfg))
	e, err := fleet.New(cfg)
	v.must(err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = e.Start(ctx) }()
	defer func() { cancel(); <-ended }()
	do(ctx, e)
}

func (v *env) connect(c *fleet.Config) error {
	c.Inventory, c.Dialer, c.Source = v.members, v.members, v.source
	return nil
}

// run runs the command, and returns its exit code and its output.
func (v *env) run(args ...string) (code int, out, errOut string) {
	v.t.Helper()
	var o, e bytes.Buffer
	code = run(v.t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &o, ErrOut: &e}, v.connect)
	return code, o.String(), e.String()
}

// on is run on the store.
func (v *env) on(args ...string) (code int, out, errOut string) {
	v.t.Helper()
	return v.run(append([]string{"--store", v.file}, args...)...)
}

// shows runs a command that must end with code and print each of want, on either stream.
func (v *env) shows(code int, args string, want ...string) string {
	v.t.Helper()
	got, out, errOut := v.on(strings.Fields(args)...)
	for _, w := range want {
		if !strings.Contains(out+errOut, w) {
			v.t.Errorf("slipway %s: no %q in\n%s%s", args, w, out, errOut)
		}
	}
	if got != code {
		v.t.Errorf("slipway %s: exit code %d, want %d\n%s%s", args, got, code, out, errOut)
	}
	return out
}

func TestGetListsTheObjectsOfTheStore(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "get placements", "NAME", "shop", "2")
	v.shows(cli.ExitDone, "get runs", "shop-1", "Completed", "3/3", "shop-2", "1/3")
	v.shows(cli.ExitDone, "get run shop-1", "shop-1")
	v.shows(cli.ExitDone, "get snapshots --placement shop", "OBJECTS")
	v.shows(cli.ExitDone, "describe snapshot shop-0-snapshot", "Objects:\nKIND", "ConfigMap", "v1", "shop", "web")
	v.shows(cli.ExitDone, "get approvals --run shop-2", "shop-2-after-canary")
	v.shows(cli.ExitDone, "get leases", "shop-2")
	v.shows(cli.ExitDone, "get caps", "no caps")
	v.shows(cli.ExitDone, "history shop", "SnapshotTaken")
	v.shows(cli.ExitDone, "history run/shop-2", "eu-1")
	if out := v.shows(cli.ExitDone, "get runs -o name"); out != "run/shop-1\nrun/shop-2\n" {
		t.Errorf("names: %q", out)
	}
	if narrow, all := v.shows(cli.ExitDone, "get runs"), v.shows(cli.ExitDone, "get runs -o wide"); strings.Contains(narrow, "CREATED") || !strings.Contains(all, "CREATED") {
		t.Errorf("CREATED is for -o wide only:\n%s%s", narrow, all)
	}
	var runs struct {
		Items []struct {
			Status fleet.RunSummary `json:"status"`
		} `json:"items"`
	}
	v.must(json.Unmarshal([]byte(v.shows(cli.ExitDone, "get runs -o json")), &runs))
	if len(runs.Items) != 2 || runs.Items[0].Status.State != stages.Completed || runs.Items[1].Status.Completed != 1 {
		t.Errorf("runs as JSON: %+v", runs)
	}
	v.shows(cli.ExitDone, "get runs -o yaml", "\nitems:\n")
	for line := range strings.SplitSeq(v.shows(cli.ExitDone, "get runs"), "\n") {
		if len(line) > 80 {
			t.Errorf("a line of %d columns: %s", len(line), line)
		}
	}
}

func TestMissingObjectsFail(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitFailed, "get run shop-1 other", "run other", "does not exist")
	v.shows(cli.ExitFailed, "get snapshots none", "snapshot none")
	v.shows(cli.ExitFailed, "get approvals --run other", "run other")
	v.shows(cli.ExitFailed, "history run/other", "other")
	if code, _, errOut := v.run("--store", v.file+"x", "get", "runs"); code != cli.ExitFailed || !strings.Contains(errOut, "no such file") {
		t.Errorf("a store that is not there: %d, %s", code, errOut)
	}
	if _, err := os.Stat(v.file + "x"); err == nil {
		t.Error("a store was made by reading it")
	}
	v.engine(func(context.Context, *fleet.Engine) { v.shows(cli.ExitFailed, "get runs", "in use") })
}

func TestWrongCommandLinesEndWithTwo(t *testing.T) {
	v := newEnv(t)
	for _, tt := range []struct{ args, want string }{
		{"get nonsense", `there is no kind "nonsense": want placements`},
		{"get", "get --help"},
		{"nonsense", "nonsense"},
		{"get runs --nonsense", "--nonsense"},
		{"get runs -o text", "want table, wide, json, yaml or name"},
		{"skip shop-2 --as ann", "want cluster/NAME"},
		{"skip shop-2 --as ann --what everything/x", "want cluster/NAME"},
		{"retry shop-2 --as ann --only some", "want failed or skipped"},
		{"set cap all many", "want a number"},
		{"set nonsense", `unknown command "nonsense"`},
		{"get placements --placement shop", "--placement: leave it out, because placements cannot be filtered by it"},
		{"get runs --run shop-1", "--run: leave it out, because runs cannot be filtered by it"},
		{"get snapshots --run shop-1", "--run: leave it out, because snapshots cannot be filtered by it"},
		{"get caps --placement shop", "--placement: leave it out, because caps cannot be filtered by it"},
		{"get lease --placement shop", "--placement: leave it out, because leases cannot be filtered by it"},
		{"get clusters --run shop-1 --placement shop", "--placement and --run are both set"},
		{"describe cap all --run shop-1", "--run: leave it out, because caps cannot be filtered by it"},
		{"preview shop", "--strategy is not set"},
		{"create run shop-3", "--placement is not set"},
		{"drain eu-1", "drain is for the members of a hub"},
		{"create run shop-3 --placement shop --as ann", "--strategy is not set"},
		{"catch-up shop-1 --as ann", "--name is not set"},
		{"explain", "explain --help"},
		{"drift", "drift --help"},
		{"drift shop --hub a --member b", "drift --help"},
		{"drift --hub a", "--member is not set"},
	} {
		v.shows(cli.ExitUsage, tt.args, tt.want)
	}
	if code, _, errOut := v.run("get", "runs"); code != cli.ExitUsage || !strings.Contains(errOut, "--store is not set") {
		t.Errorf("without a store: %d, %s", code, errOut)
	}
}

// The next running engine performs the recorded commands.
func TestAnApprovalIsCarriedOutByTheEngine(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitFailed, "approve shop-2 other --as ann --yes", "other")
	v.shows(cli.ExitDone, "approve shop-2 shop-2-after-canary --as ann --comment fine --yes", "approval/shop-2-after-canary: approve by ann is recorded")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.wait(ctx, e, "shop-2") })
	v.shows(cli.ExitDone, "get runs shop-2", "Completed", "3/3")
	v.shows(cli.ExitDone, "history run/shop-2", "ann")
}

func TestARejectionEndsTheRun(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "reject shop-2 shop-2-after-canary --as ann --yes", "reject by ann")
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		if s, err := e.Run("shop-2").Wait(ctx); err != nil || s.Run.State == stages.Completed {
			t.Errorf("%s, %v", s.Run.State, err)
		}
	})
}

func TestARunIsStoppedAndStartedAgain(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "stop shop-2 --as ann --message lunch", "run/shop-2: stop is recorded")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.until(ctx, e, stages.Stopped) })
	v.shows(cli.ExitDone, "start shop-2 --as ann", "start is recorded")
	v.shows(cli.ExitFailed, "retry other --as ann", "other")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.until(ctx, e, stages.Running) })
	v.shows(cli.ExitDone, "skip shop-2 --as ann --what cluster/eu-3 --yes", "skip is recorded")
	v.shows(cli.ExitDone, "abort shop-2 --as ann --yes", "abort is recorded")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.until(ctx, e, stages.Aborted) })
	v.shows(cli.ExitDone, "catch-up shop-2 --name run/rest", "run/rest: created")
	v.shows(cli.ExitDone, "delete run rest --yes", "run/rest: deleted")
	v.shows(cli.ExitDone, "delete run run/shop-2 --yes", "run/shop-2: deleted")
	if out := v.shows(cli.ExitDone, "get runs -o name"); out != "run/shop-1\n" {
		t.Errorf("runs: %q", out)
	}
}

func TestAnActiveRunIsDeletedByForce(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitFailed, "delete run shop-2 --yes", "run shop-2", "the run is Running: stop or abort it first")
	v.shows(cli.ExitDone, "get runs", "shop-2")
	v.shows(cli.ExitDone, "delete run shop-2 --force --yes", "run/shop-2: deleted")
	v.shows(cli.ExitFailed, "delete run shop-2 --force --yes", "does not exist")
	v.shows(cli.ExitDone, "get clusters", "eu-1") // the content of the run stays
	if got := v.key("eu-1"); got != "v2" {
		t.Errorf("eu-1 has %s, want v2", got)
	}
}

func TestAPlacementIsDeletedByTheEngine(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitFailed, "delete placement other --yes", "placement other")
	v.shows(cli.ExitDone, "delete placement placement/shop --force --yes", "placement/shop: deleting, the engine that runs on this store next removes its objects from the clusters")
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		for d := (fleet.Deletion{}); d.Ended.IsZero(); time.Sleep(time.Millisecond) {
			var err error
			d, err = e.Placement("shop").Deletion(ctx)
			v.must(err)
		}
	})
	v.shows(cli.ExitDone, "get placements", "no placements")
	if _, err := v.members.Cluster("eu-1").Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web"}); err == nil {
		t.Error("eu-1 has what the placement brought")
	}
	v.shows(cli.ExitDone, "delete deletion shop --yes", "deletion/shop: deleted")
}

// until waits for a state of shop-2.
func (v *env) until(ctx context.Context, e *fleet.Engine, want stages.State) {
	v.t.Helper()
	for {
		s, err := e.Run("shop-2").Status(ctx)
		v.must(err)
		if s.Run.State == want {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func TestARollbackIsPreviewedAndDone(t *testing.T) {
	v := newEnv(t)
	out := v.shows(cli.ExitDone, "rollback shop-2 --preview")
	if !strings.Contains(out, "eu-1") || strings.Contains(out, "eu-2") {
		t.Errorf("shop-2 came to eu-1 only, the rollback has\n%s", out)
	}
	v.shows(cli.ExitDone, "get runs -o name")
	v.shows(cli.ExitDone, "rollback shop-2 --as ann --name back --reason slow --yes", "run/back: it rolls back shop-2")
	v.engine(func(ctx context.Context, e *fleet.Engine) {
		for begun := false; !begun; time.Sleep(time.Millisecond) {
			back, err := e.Run("shop-2").RollbackStatus(ctx)
			v.must(err)
			if back.Refused != "" {
				t.Fatal(back.Refused)
			}
			begun = back.By == "back" && !back.Pending
		}
		v.wait(ctx, e, "back")
	})
	if got := v.key("eu-1"); got != "v1" {
		t.Errorf("eu-1 has %s, want v1", got)
	}
}

// key returns the value in the ConfigMap of a cluster.
func (v *env) key(cluster string) string {
	v.t.Helper()
	obj, err := v.members.Cluster(cluster).Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web"})
	v.must(err)
	text, _, err := unstructured.NestedString(obj.Object, "data", "key")
	v.must(err)
	return text
}

func TestPreviewDiffAndDriftOnlyRead(t *testing.T) {
	v := newEnv(t)
	before, err := os.ReadFile(v.file)
	v.must(err)
	file := filepath.Join(t.TempDir(), "strategy.yaml")
	v.must(os.WriteFile(file, []byte("stages:\n- name: all\n  labelSelector: {}\n"), 0o600))
	v.shows(cli.ExitDone, "preview shop --strategy "+file, "eu-1", "eu-2", "eu-3")
	v.shows(cli.ExitDone, "preview shop -o json --strategy "+file, `"digest"`, `"clusters"`)
	out := v.shows(cli.ExitDiffers, "diff shop --strategy "+file, "ConfigMap shop/web", "/data/key")
	if strings.Contains(out, "eu-1") {
		t.Errorf("eu-1 has the change already:\n%s", out)
	}
	v.shows(cli.ExitDone, "diff shop --cluster eu-1 --strategy "+file)
	v.shows(cli.ExitDone, "drift shop", "no differences on")
	v.shows(cli.ExitDiffers, "drift shop --index 0 --cluster eu-1", "/data/key")
	v.shows(cli.ExitDone, "preview-selection shop", "eu-3", "true")
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	v.must(os.WriteFile(policy, []byte("placementType: PickFixed\nclusterNames: [eu-2]\n"), 0o600))
	v.shows(cli.ExitDone, "preview-selection shop --policy "+policy, "eu-2", "false")
	v.must(os.WriteFile(policy, []byte("nonsense: 1\n"), 0o600))
	v.shows(cli.ExitFailed, "preview-selection shop --policy "+policy, policy, "nonsense")
	web := snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web"}
	v.must(v.members.Cluster("eu-1").Delete(web))
	for args, reason := range map[string]string{"drift shop": "FoundDrifts", "diff shop --cluster eu-1 --strategy " + file: "ToCreate"} {
		if out := v.shows(cli.ExitDiffers, args, "ConfigMap shop/web", reason); !strings.HasSuffix(out, "the whole object\n") {
			t.Errorf("slipway %s: the row of a deleted object names no path:\n%s", args, out)
		}
	}
	v.members.SetDown("eu-2", true)
	if code, _, text := v.on("drift", "shop"); code != cli.ExitFailed || !strings.Contains(text, "could not be compared") || strings.Count(text, "cluster eu-2") != 1 {
		t.Errorf("exit code %d; want a cluster that could not be compared, named once:\n%s", code, text)
	}
	after, err := os.ReadFile(v.file)
	v.must(err)
	if !bytes.Equal(before, after) {
		t.Error("the file of the store was written")
	}
}

// The verb drift has two sides: without a file it compares a placement, with files no store is
// opened.
func TestDriftComparesFilesWithoutAStore(t *testing.T) {
	v := newEnv(t)
	files := "internal/drift/testdata/hub.yaml --member internal/drift/testdata/member.yaml"
	code, out, errOut := v.run(strings.Fields("drift --hub " + files)...)
	if code != cli.ExitDiffers || !strings.Contains(out, ".metadata.labels.owner") {
		t.Errorf("exit code %d, want %d\n%s%s", code, cli.ExitDiffers, out, errOut)
	}
	if code, _, errOut := v.run("simulate", "internal/simulate/testdata/staged.yaml"); code != cli.ExitDone {
		t.Errorf("simulate: exit code %d\n%s", code, errOut)
	}
}

func TestCapsAreSetAndDeleted(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "set cap all 7", "cap/all: at most 7")
	v.shows(cli.ExitDone, "get caps", "all", "7")
	v.shows(cli.ExitFailed, "set cap all -- -1", "limit")
	v.shows(cli.ExitDone, "delete cap all --yes", "cap/all: deleted")
	v.shows(cli.ExitDone, "get caps", "no caps")
	v.shows(cli.ExitDone, "delete deletion nothing --yes", "deletion/nothing: deleted")
}

func TestUsageNamesTheKubectlPlugin(t *testing.T) {
	for path, want := range map[string]string{"/usr/local/bin/kubectl-slipway": "kubectl slipway get", "slipway": "slipway get"} {
		var out bytes.Buffer
		root := newRoot(genericiooptions.IOStreams{Out: &out, ErrOut: &out}, nil, commandName(path))
		root.SetArgs([]string{"get", "--help"})
		if err := root.Execute(); err != nil || !strings.Contains(out.String(), "\n  "+want) {
			t.Errorf("called as %s: %v\n%s", path, err, out.String())
		}
	}
}

// The help groups verbs by their object, and lists only the verbs about the command itself
// without a group.
func TestTheHelpHasTheVerbsInGroups(t *testing.T) {
	var without []string
	for _, c := range newRoot(genericiooptions.NewTestIOStreamsDiscard(), nil, "slipway").Commands() {
		if c.GroupID == "" {
			without = append(without, c.Name())
		}
	}
	if !slices.Equal(without, []string{"version"}) {
		t.Errorf("verbs without a group: %v", without)
	}
	v := newEnv(t)
	v.shows(cli.ExitDone, "--help", "\nRollouts:\n", "\nApprovals:\n", "\nWithout an engine:\n")
	v.shows(cli.ExitDone, "skip --help", "Examples:\n  slipway skip web-v2 --what cluster/eu-1\n")
	v.shows(cli.ExitUsage, "wait", "wrong number of arguments, 0: want slipway wait RUN")
}

// With -o name the output about an object is its name, as input for another command.
func TestNamesAreForAnotherCommand(t *testing.T) {
	v := newEnv(t)
	for args, want := range map[string]string{
		"get clusters eu-1 cluster/eu-3 -o name":        "cluster/eu-1\ncluster/eu-3\n",
		"describe placement shop -o name":               "placement/shop\n",
		"describe run run/shop-2 -o name":               "run/shop-2\n",
		"describe approval shop-2-after-canary -o name": "approval/shop-2-after-canary\n",
		"explain shop-2 eu-2 -o name":                   "cluster/eu-2\n",
		"leases -o name":                                "lease/shop-2\n",
		"wait shop-1 -o name":                           "run/shop-1\n",
		"set cap all 7 -o name":                         "cap/all\n",
		"stop shop-2 -o name":                           "run/shop-2\n",
		"drift shop --index 0 -o name":                  "cluster/eu-1\ncluster/eu-2\ncluster/eu-3\n",
	} {
		if _, out, errOut := v.on(strings.Fields(args)...); !strings.HasPrefix(out, want) || strings.Count(out, "\n") > strings.Count(out, "/") {
			t.Errorf("%s: %q, want %q, %s", args, out, want, errOut)
		}
	}
}

// Every method that directs an engine has a verb.
func TestTheVerbs(t *testing.T) {
	var got []string
	for _, c := range newRoot(genericiooptions.NewTestIOStreamsDiscard(), nil, "slipway").Commands() {
		got = append(got, c.Name())
	}
	want := []string{
		"abort", "amc", "apply", "approve", "catch-up", "cordon", "create", "delete", "demo", "describe", "diff", "drain", "drift", "explain", "fleet", "forecast",
		"gate", "get", "history", "hub", "leases", "member", "migrate", "preview", "preview-selection", "reject", "retry", "rollback", "serve",
		"set", "simulate", "skip", "start", "stop", "store", "timeline", "uncordon", "updaterun", "updatestrategy", "version", "wait", "watch",
		"workflow",
	}
	if !slices.Equal(got, want) {
		t.Errorf("verbs %v", got)
	}
}

func TestExplainNamesWaitsOfRunsAndClusters(t *testing.T) {
	v := newEnv(t)
	v.shows(cli.ExitDone, "explain shop-2", "WAITS FOR", "shop-2-after-canary")
	v.shows(cli.ExitDone, "explain shop-2 eu-2", "cluster/eu-2: ", "stage rest", "canary")
	v.shows(cli.ExitDone, "explain shop-2 eu-2 -o json", `"cluster": "eu-2"`, `"waiting"`)
	v.shows(cli.ExitDone, "explain shop-1 eu-2", "Completed")
	v.shows(cli.ExitDone, "explain shop-1", "run/shop-1: Completed")
	v.shows(cli.ExitFailed, "explain shop-2 other", "other")
	v.shows(cli.ExitFailed, "explain other", "other")
}

// A created run waits in the queue behind the active run of the placement, and the next running
// engine drives it.
func TestARunThatIsCreatedIsDrivenByTheEngine(t *testing.T) {
	v := newEnv(t)
	file := filepath.Join(t.TempDir(), "strategy.yaml")
	v.must(os.WriteFile(file, []byte("stages:\n- {name: all, labelSelector: {}}\n"), 0o600))
	v.shows(cli.ExitDone, "abort shop-2 --as ann --yes")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.until(ctx, e, stages.Aborted) })
	v.shows(cli.ExitDone, "create run shop-3 --as ann --placement shop --strategy "+file, "run/shop-3: created, stages 1, clusters 3")
	v.shows(cli.ExitFailed, "create run shop-3 --as ann --placement shop --strategy "+file, "shop-3")
	v.engine(func(ctx context.Context, e *fleet.Engine) { v.wait(ctx, e, "shop-3") })
	if got := v.key("eu-3"); got != "v2" {
		t.Errorf("eu-3 has %s, want v2", got)
	}
	v.shows(cli.ExitFailed, "catch-up shop-3 --name more --as ann", "shop-3")
	if verb, flag := v.shows(cli.ExitDone, "version", "slipway "), v.shows(cli.ExitDone, "--version"); verb != flag {
		t.Errorf("version prints %q, --version %q", verb, flag)
	}
}

// A run is named NAME or run/NAME by every verb, as -o name shows it.
func TestARunIsNamedByItsKindToo(t *testing.T) {
	v := newEnv(t)
	for _, args := range []string{
		"get run run/shop-1", "describe run run/shop-1", "get clusters --run run/shop-1", "get approvals --run run/shop-2", "history run/shop-1", "explain run/shop-1",
		"explain run/shop-1 cluster/eu-1", "timeline run/shop-1", "forecast run/shop-2", "watch run/shop-1", "wait run/shop-1", "rollback run/shop-2 --preview",
		"stop run/shop-2", "start run/shop-2", "skip run/shop-2 --what cluster/eu-2 --yes", "approve run/shop-2 --as ann --yes",
		"rollback run/shop-2 --name run/shop-2-back --yes", "delete run run/shop-1 --yes",
	} {
		v.shows(cli.ExitDone, args)
	}
	v.shows(cli.ExitFailed, "retry run/shop-2", "command Retry is refused")
	v.shows(cli.ExitUsage, "get overrides", "overrides are stored with their placements")
}
