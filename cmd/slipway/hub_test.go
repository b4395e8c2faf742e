package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// TestMain runs the command itself if the test's program is called as a plugin of kubectl. It fails
// if an API server warns the program of anything.
func TestMain(m *testing.M) {
	if name := filepath.Base(os.Args[0]); name == "kubectl-slipway" || name == "kubectl-amc" {
		main()
	}
	var warned kubeenv.Warnings
	rest.SetDefaultWarningHandler(&warned)
	code := m.Run()
	if said := warned.Take(); len(said) > 0 {
		fmt.Fprintf(os.Stderr, "API servers warn the program: %q\n", said)
		code = cmp.Or(code, 1)
	}
	os.Exit(code)
}

// kubeEnv is a hub that the command serves, with member1 in the stage staging and member2 in the
// stage prod, and the command as a plugin of kubectl.
type kubeEnv struct {
	t       *testing.T
	kubectl string
	// files has hub.kubeconfig, members/NAME.kubeconfig and, first in the PATH,
	// bin/kubectl-slipway.
	files string
	// more are further variables of the environment of kubectl.
	more   []string
	server *kubeenv.Server
	// end ends the hub.
	end func()
}

// flags are further flags of the hub.
func newKubeEnv(t *testing.T, flags ...string) *kubeEnv {
	t.Helper()
	w := &kubeEnv{t: t, files: t.TempDir()}
	var err error
	w.kubectl, err = kubeenv.Binary("kubectl")
	w.must(err)
	for _, dir := range []string{"bin", "members"} {
		w.must(os.Mkdir(filepath.Join(w.files, dir), 0o700))
	}
	self, err := os.Executable()
	w.must(err)
	w.must(os.Symlink(self, filepath.Join(w.files, "bin", "kubectl-slipway")))
	names := []string{"hub", "members/member1", "members/member2"}
	servers := kubeenv.ForTest(t).Servers(t, "hub", "member1", "member2")
	for i, s := range servers {
		w.must(os.WriteFile(w.path(names[i]+".kubeconfig"), s.Kubeconfig(), 0o600))
	}
	w.shows(cli.ExitDone, "slipway hub install", "ClusterRole slipway-approver Created")
	w.server = servers[0]
	w.serve(w.server, flags...)
	w.eventually("get membercluster", "member1", "member2")
	w.shows(cli.ExitDone, "label membercluster member1 environment=staging")
	w.shows(cli.ExitDone, "label membercluster member2 environment=prod")
	w.shows(cli.ExitDone, "create namespace shop")
	w.shows(cli.ExitDone, "create configmap web -n shop --from-literal=key=v1")
	w.shows(cli.ExitDone, "apply -f testdata/hub.yaml")
	w.eventually("get clusterresourceplacement web", "True")
	return w
}

func (w *kubeEnv) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *kubeEnv) path(name string) string { return filepath.Join(w.files, filepath.FromSlash(name)) }

// patience is how long anything may take, on a machine that does much else.
const patience = 6 * time.Minute

// run runs kubectl against the hub, and returns its exit code and its output.
func (w *kubeEnv) run(args string) (int, string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, w.kubectl, strings.Fields(args)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.path("hub.kubeconfig"), "HOME="+w.files, "PATH="+w.path("bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, w.more...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	exit, is := errors.AsType[*exec.ExitError](err)
	if is {
		return exit.ExitCode(), out.String()
	}
	w.must(err)
	return 0, out.String()
}

// shows runs kubectl, which must end with code and print each of want.
func (w *kubeEnv) shows(code int, args string, want ...string) string {
	w.t.Helper()
	got, out := w.run(args)
	if missing := lacks(out, want); got != code || missing != "" {
		w.t.Errorf("kubectl %s: exit code %d, want %d, and %q in\n%s", args, got, code, missing, out)
	}
	return out
}

func lacks(out string, want []string) string {
	for _, s := range want {
		if !strings.Contains(out, s) {
			return s
		}
	}
	return ""
}

// eventually runs kubectl until it prints each of want.
func (w *kubeEnv) eventually(args string, want ...string) {
	w.t.Helper()
	if w.t.Failed() {
		w.t.FailNow() // the awaited event may never come
	}
	for deadline := time.Now().Add(patience); ; {
		_, out := w.run(args)
		missing := lacks(out, want)
		if missing == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("kubectl %s: no %q in\n%s", args, missing, out)
		}
	}
}

// On a hub the command is a plugin of kubectl: with kubectl's kubeconfig it reads the objects of
// the hub and sends commands, under the name that the API server authenticates.
func TestThePluginOfKubectlWorksOnAHub(t *testing.T) {
	w := newKubeEnv(t)
	w.shows(cli.ExitDone, "slipway get runs --help", "\n  kubectl slipway get KIND", "--context", "--kubeconfig", "-n, --namespace", "-A, --all-namespaces")
	w.shows(cli.ExitDone, "slipway get placements", "web")
	w.shows(cli.ExitDone, "slipway get runs", "no runs")
	w.shows(cli.ExitDone, "slipway get clusters", "no cluster has a snapshot yet")
	preview := w.shows(cli.ExitDone, "slipway preview web --strategy careful", "member1", "staging", "member2", "prod")
	w.shows(cli.ExitDiffers, "slipway diff web --strategy careful --clusters "+w.path("members"), "ConfigMap shop/web")
	w.must(os.WriteFile(w.path("strategy.yaml"), []byte("apiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: ClusterStagedUpdateStrategy\nmetadata: {name: quick}\nspec: {stages: [{name: all}]}\n"), 0o600))
	w.shows(cli.ExitFailed, "slipway create run web-1 --placement web --strategy "+w.path("strategy.yaml"),
		"run web-1: a hub takes the name of a ClusterStagedUpdateStrategy that it has, and no file: kubectl slipway apply -f "+w.path("strategy.yaml")+", and then --strategy quick")

	w.shows(cli.ExitDone, "slipway create run web-1 --placement web --strategy careful", "run/web-1: created")
	w.eventually("slipway get approvals", "web-1-staging")

	_, digest := w.run("get csur web-1 -o jsonpath={.status.planDigest}")
	if digest == "" || !strings.Contains(preview, digest) {
		t.Errorf("the run has the plan %s, which the preview does not name:\n%s", digest, preview)
	}
	w.shows(cli.ExitDone, "slipway get runs -A", "web-1", "Running", "1/2", "staging")
	w.shows(cli.ExitDone, "slipway get run web-1 -o name", "run/web-1")
	w.shows(cli.ExitDone, "slipway get runs -n shop", "no runs")
	w.shows(cli.ExitDone, "slipway get clusters --run web-1", "member1", "Completed", "member2")
	w.shows(cli.ExitDone, "slipway get snapshots", "web")
	w.shows(cli.ExitDone, "slipway get leases", "web-1")
	w.shows(cli.ExitDone, "slipway describe run web-1", "web-1", "Stages:", "Waits for:")
	w.shows(cli.ExitDone, "slipway describe placement web", "Snapshots:", "Runs:", "member1")
	w.shows(cli.ExitDone, "slipway describe approval web-1-staging", "after stage staging", "member2")
	w.shows(cli.ExitDone, "slipway explain web-1 member2", "cluster/member2", "staging")
	w.shows(cli.ExitDone, "slipway history run/web-1", "member1")
	w.shows(cli.ExitDone, "slipway forecast web-1", "staging")
	w.shows(cli.ExitDone, "slipway timeline web-1", "staging", "member1", "prod")
	w.shows(cli.ExitDone, "slipway timeline web-1 -o svg", "<svg", "staging")
	w.shows(cli.ExitTimeout, "slipway get runs --watch --timeout 3s", "NAME", "web-1", "Running", "--timeout has passed")
	w.shows(cli.ExitFailed, "slipway delete run web-1 --yes", "the run is Running: stop it first")
	w.shows(cli.ExitFailed, "slipway delete placement web --yes", "placement/web has run web-1, which is Running, 1 of 2 clusters done: stop it first, or set --force")
	w.shows(cli.ExitUsage, "slipway delete placement web --force", "Objects of placement/web will be DELETED from 2 clusters (policy Delete: ", "Its run and the events of this run go, too.")

	w.shows(cli.ExitFailed, "slipway drain member1 --yes", "placement web: Eviction is blocked by staged update run web-1")
	w.shows(cli.ExitDone, "slipway uncordon member1")
	w.shows(cli.ExitFailed, "slipway cordon member1 --as ann", "forbidden")

	w.shows(cli.ExitFailed, "slipway approve web-1 --as ann --yes", "slipway-cluster-viewer")
	w.shows(cli.ExitDone, "create clusterrolebinding viewers --clusterrole=slipway-cluster-viewer --user=ann --user=eve")
	w.shows(cli.ExitDone, "create clusterrolebinding approvers --clusterrole=slipway-approver --user=ann")
	w.shows(cli.ExitFailed, "slipway approve web-1 --as eve --yes", "--clusterrole=slipway-approver")
	w.shows(cli.ExitFailed, "slipway stop web-1 --as ann", "--clusterrole=slipway-cluster-editor")
	w.shows(cli.ExitDone, "slipway get runs --as eve", "web-1", "Running")
	w.shows(cli.ExitDone, "slipway describe run web-1 --as eve", "web-1", "Approvals:", "warning", "Secrets in namespace slipway-system")
	w.shows(cli.ExitFailed, "slipway history run/web-1 --as eve", "Secrets in namespace slipway-system")
	w.shows(cli.ExitDone, "slipway approve web-1 --as ann --comment fine --yes", "approval/web-1-staging: approve by ann")
	w.eventually("slipway get runs", "Completed", "2/2")
	w.shows(cli.ExitFailed, "slipway approve web-1 web-1-staging --yes", "request web-1-staging was approved by ann at 20")
	w.shows(cli.ExitFailed, "slipway approve wbe-1", "run wbe-1 does not exist: did you mean web-1?")
	w.shows(cli.ExitDone, "slipway history run/web-1", "ann")
	w.shows(cli.ExitDone, "slipway wait web-1")
	w.shows(cli.ExitDone, "slipway drift web --clusters "+w.path("members"))
	w.shows(cli.ExitUsage, "slipway drift web", "--clusters is not set")

	w.shows(cli.ExitDone, `patch configmap web -n shop --type merge -p {"data":{"key":"v2"}}`)
	w.shows(cli.ExitDone, "slipway create run web-2 --placement web --strategy careful")
	w.eventually("get clusterresourcesnapshots", "web-1-snapshot")
	w.eventually("slipway get approvals", "web-2-staging")
	w.shows(cli.ExitDone, "slipway stop web-2", "stop is recorded")
	w.eventually("slipway get run web-2", "Stopped")
	w.shows(cli.ExitDone, "slipway start web-2", "start is recorded")
	w.eventually("slipway get run web-2", "Running")
	w.shows(cli.ExitDone, "slipway approve web-2 --yes")
	w.eventually("slipway get run web-2", "Completed")
	w.shows(cli.ExitDone, "slipway rollback web-2 --preview", "member1")
	w.shows(cli.ExitDone, "slipway rollback web-2 --yes", "run/web-2") // the hub may be slower than the command waits for the name
	w.eventually("slipway get run web-2-rollback", "Completed")
	w.shows(cli.ExitDone, "slipway get run web-2", "Completed", "2/2, rolled back")
	w.shows(cli.ExitDone, "slipway get run web-2 -o wide", "rolled back by run web-2-rollback")
	w.shows(cli.ExitDone, "slipway explain web-2", "run/web-2: Completed: rolled back by run web-2-rollback")
	w.shows(cli.ExitDone, "slipway wait web-2", "run/web-2: Completed", "rolled back by run web-2-rollback")
	w.shows(cli.ExitDone, "slipway delete run web-2 --yes", "run/web-2: deleted")

	w.shows(cli.ExitDone, "slipway create run web-3 --placement web --strategy careful")
	w.eventually("slipway get approvals", "web-3-staging")
	w.shows(cli.ExitDone, "slipway reject web-3 --comment no --yes", "reject is recorded")
	w.eventually("slipway get run web-3", "Failed")
	w.shows(cli.ExitFailed, "slipway abort web-3", "a hub has no Abort of a run")
	w.shows(cli.ExitFailed, "slipway set cap all 3", "the caps of a hub")
	w.shows(cli.ExitFailed, "slipway create run web-4 --placement none --strategy careful", "the hub refuses it", "none")
	w.shows(cli.ExitFailed, "slipway get runs --context none", `context "none" does not exist`)

	w.shows(cli.ExitDone, "slipway cordon member1", "cluster/member1: cordoned")
	w.shows(cli.ExitDone, "slipway cordon member1", "cluster/member1: cordoned")
	w.shows(cli.ExitDone, "get membercluster member1 -o yaml", "key: cordon-key", "effect: NoSchedule")
	w.shows(cli.ExitDone, "slipway uncordon member1", "cluster/member1: uncordoned")
	if out := w.shows(cli.ExitDone, "get membercluster member1 -o yaml"); strings.Contains(out, "cordon-key") {
		t.Errorf("it is cordoned:\n%s", out)
	}
	w.shows(cli.ExitFailed, "slipway cordon none", `"none" not found`)
	w.shows(cli.ExitFailed, "slipway drain none", "the hub has no member none; kubectl get memberclusters lists all") // and does not ask
	w.shows(cli.ExitDone, "slipway drain member1 --yes", "placement/web: evicted: Eviction is allowed", "cluster/member1: drained")
	w.eventually("slipway drain member1 -o name --yes", "cluster/member1")

	w.shows(cli.ExitFailed, "slipway delete placement web --policy Abandon --yes", "deletion policy in its spec")
	w.shows(cli.ExitFailed, "slipway delete placement none --yes", "none")
	w.shows(cli.ExitFailed, "slipway delete placement web --as ann --yes", "--clusterrole=slipway-cluster-editor")
	w.shows(cli.ExitDone, "slipway delete placement web --yes", "placement/web: deleting, an engine removes its objects from the clusters")
	w.eventually("slipway get placements", "no placements")
	w.shows(cli.ExitFailed, "get configmap web -n shop --kubeconfig "+w.path("members/member1.kubeconfig"), "not found")
}

// serve runs the hub of a server with the rights of the installed account until the test ends.
func (w *kubeEnv) serve(server *kubeenv.Server, flags ...string) {
	w.t.Helper()
	account, err := server.KubeconfigForAccount(w.t.Context(), "slipway-system", "slipway-hub")
	w.must(err)
	w.must(os.WriteFile(w.path("account.kubeconfig"), account, 0o600))
	logged := kubeenv.NewLogged(w.t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		args := []string{"hub", "--kubeconfig", w.path("account.kubeconfig"), "--members", w.path("members"), "--listen", "", "--lease", "3s"}
		ended <- run(ctx, append(args, flags...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: logged}, nil)
	}()
	w.end = sync.OnceFunc(func() {
		stop()
		if code := <-ended; code != cli.ExitDone {
			w.t.Errorf("the hub ended with %d", code)
		}
	})
	w.t.Cleanup(w.end)
}
