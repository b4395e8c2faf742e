package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// amcMembers are the members of the tutorial's files.
var amcMembers = []string{"managedcluster-test", "managedcluster-prod"}

// newAMCEnv returns a hub that serves applications with the account that hub install makes, with
// the tutorial's members and a member that is only for its MemberCluster. The command is the
// plugin amc of kubectl. On members, Deployments are ready at once.
func newAMCEnv(t *testing.T) *kubeEnv {
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
	for _, name := range []string{"kubectl-amc", "kubectl-slipway"} {
		w.must(os.Symlink(self, filepath.Join(w.files, "bin", name)))
	}
	servers := kubeenv.ForTest(t).Servers(t, append([]string{"hub"}, amcMembers...)...)
	w.must(os.WriteFile(w.path("hub.kubeconfig"), servers[0].Kubeconfig(), 0o600))
	for i, name := range amcMembers {
		w.must(os.WriteFile(w.path("members/"+name+".kubeconfig"), servers[i+1].Kubeconfig(), 0o600))
		go makeReady(t.Context(), servers[i+1].Config())
	}
	w.must(os.WriteFile(w.path("members/third.kubeconfig"), servers[2].Kubeconfig(), 0o600))
	w.shows(cli.ExitDone, "slipway hub install --applications", "CustomResourceDefinition managedclusters.cluster.open-cluster-management.io Created")
	members := ""
	for _, name := range append([]string{"third"}, amcMembers...) {
		members += fmt.Sprintf("---\n{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: %s}, spec: {}}\n", name)
	}
	w.must(os.WriteFile(w.path("members.yaml"), []byte(members), 0o600))
	w.shows(cli.ExitDone, "apply -f "+w.path("members.yaml"), "third created")

	w.serve(servers[0], "--applications")
	w.more = []string{"SLIPWAY_CLUSTERS=" + w.path("members")}
	return w
}

// makeReady is the controller of Deployments on a member without nodes.
func makeReady(ctx context.Context, config *rest.Config) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return
	}
	all := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		list, err := all.List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, d := range list.Items {
			if seen, _, _ := unstructured.NestedInt64(d.Object, "status", "observedGeneration"); seen == d.GetGeneration() {
				continue
			}
			status := fmt.Sprintf(`{"status":{"observedGeneration":%d,"replicas":1,"updatedReplicas":1,"readyReplicas":1,"availableReplicas":1,`+
				`"conditions":[{"type":"Available","status":"True","reason":"MinimumReplicasAvailable"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`, d.GetGeneration())
			_, _ = all.Namespace(d.GetNamespace()).Patch(ctx, d.GetName(), types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
		}
	}
}

// prints runs kubectl until it prints these lines with this exit code; ages are AGE.
func (w *kubeEnv) prints(code int, args, want string) {
	w.t.Helper()
	age := regexp.MustCompile(`\b(\d+[smhd])+$`)
	wordsOf := func(text string) (out []string) {
		for line := range strings.Lines(text) {
			if line = strings.Join(strings.Fields(line), " "); line != "" {
				out = append(out, age.ReplaceAllString(line, "AGE"))
			}
		}
		return out
	}
	var diff string
	for deadline := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		got, out := w.run(args)
		if diff = cmp.Diff(wordsOf(want), wordsOf(out)); diff == "" && got == code {
			return
		}
		if reads := strings.Contains(args, "get "); !reads || time.Now().After(deadline) || w.t.Context().Err() != nil {
			w.t.Fatalf("kubectl %s: exit code %d, want %d (-want +got):\n%s", args, got, code, diff)
		}
	}
}

// The tutorial of the application workflow between clusters works as printed, with names of
// clusters instead of ids: every command and every output. The test continues with steps that the
// tutorial lacks: the end of the workflow, a change without another publishVersion, and a change
// with one.
func TestTheApplicationWorkflowAsItIsPrinted(t *testing.T) {
	t.Parallel()
	w := newAMCEnv(t)
	files := "internal/workflow/testdata/tutorial/"
	w.prints(0, "create namespace demo", "namespace/demo created")
	for _, name := range amcMembers { // without it kubectl's error is about the namespace
		w.prints(0, "--kubeconfig "+w.path("members/"+name+".kubeconfig")+" create namespace demo", "namespace/demo created")
	}
	w.prints(0, "apply -f "+files+"app-meta.yaml", "deployment.apps/demo created")
	w.prints(0, "get managedclusters", `
NAME                  HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
managedcluster-prod   true                                  True     True        12d
managedcluster-test   true                                  True     True        12d
third                 true                                  True     True        12d
`)
	w.prints(0, "apply -f "+files+"policy-topology.yaml", "policy.core.oam.dev/cluster-test created\npolicy.core.oam.dev/cluster-prod created")
	w.prints(0, "apply -f "+files+"workflow.yaml", "workflow.core.oam.dev/deploy-demo created")
	w.prints(0, "apply -f "+files+"app.yaml", "application.core.oam.dev/demo created")
	w.prints(0, "get app demo -n demo", `
NAME   COMPONENT   TYPE          PHASE                HEALTHY   STATUS   AGE
demo   demo        ref-objects   workflowSuspending   true               38s
`)
	w.prints(0, "amc get deployment demo -n demo -m managedcluster-test", `
Run on ManagedCluster managedcluster-test
NAME   READY   UP-TO-DATE   AVAILABLE   AGE
demo   1/1     1            1           2m
`)
	w.prints(1, "amc get deployment demo -n demo -m managedcluster-prod", `
Run on ManagedCluster managedcluster-prod
Error from server (NotFound): deployments.apps "demo" not found
`)
	w.prints(0, "amc workflow resume demo -n demo", "Successfully resume workflow: demo")
	w.prints(0, "amc get deployment demo -n demo -m managedcluster-prod", `
Run on ManagedCluster managedcluster-prod
NAME   READY   UP-TO-DATE   AVAILABLE   AGE
demo   1/1     1            1           8m
`)

	w.prints(0, "get app demo -n demo -o jsonpath={.status.status},{.status.workflow.status},{.status.workflow.finished}", "running,succeeded,true")
	w.prints(0, "apply -f "+files+"app-meta-blue.yaml", "deployment.apps/demo configured")
	time.Sleep(time.Second)
	image := " -n demo -o jsonpath={.spec.template.spec.containers[0].image} -m managedcluster-"
	w.prints(0, "amc get deployment demo"+image+"test", "Run on ManagedCluster managedcluster-test\nregistry.cn-hangzhou.aliyuncs.com/acs/rollouts-demo:red")
	w.prints(0, "apply -f "+files+"app-version2.yaml", "application.core.oam.dev/demo configured")
	w.prints(0, "amc get deployment demo"+image+"test", "Run on ManagedCluster managedcluster-test\nregistry.cn-hangzhou.aliyuncs.com/acs/rollouts-demo:blue")
	w.prints(0, "get app demo -n demo -o jsonpath={.status.status}", "workflowSuspending")
	w.prints(0, "amc workflow terminate demo -n demo", "Successfully terminate workflow: demo")
	w.prints(0, "get app demo -n demo -o jsonpath={.status.status}", "workflowTerminated")
	w.prints(0, "amc get deployment demo"+image+"prod", "Run on ManagedCluster managedcluster-prod\nregistry.cn-hangzhou.aliyuncs.com/acs/rollouts-demo:red")

	t.Run("kubectl", w.comparesWithKubectl)
	t.Run("members", w.readsMembers)
	t.Run("managedclusters", w.followsMembers)
}

// comparesWithKubectl checks that amc get prints exactly the output of kubectl get for a member,
// below the member's name, and its errors.
func (w *kubeEnv) comparesWithKubectl(t *testing.T) {
	const name = "managedcluster-test"
	for _, args := range []string{
		"deployment demo -n demo", "deploy/demo -n demo -o wide", "deployment.apps demo -n demo --show-labels", "deployments -A", "deploy,ns -A", "all -n demo",
		"namespaces --no-headers", "ns default kube-system", "ns -L kubernetes.io/metadata.name", "nodes", "configmaps -n none", "cm -n demo -l a=b",
		"deployment demo -n demo -o name", "deployments -n demo -o yaml", "deployment demo -n demo -o yaml", "ns default -o json", "ns -o name",
		"ns default -o jsonpath={.metadata.name}", "ns -o jsonpath={.items[*].metadata.name}", "ns default -o go-template={{.metadata.name}}",
		"ns --field-selector metadata.name=default", "ns default none", "deployment none -n demo", "none", "none none -n demo", "crd none --ignore-not-found",
		"ns/default cm/kube-root-ca.crt -n demo",
	} {
		wantCode, want := w.run("--kubeconfig " + w.path("members/"+name+".kubeconfig") + " get " + args)
		code, got := w.run("amc get " + args + " -m " + name)
		got, ok := strings.CutPrefix(got, "Run on ManagedCluster "+name+"\n")
		seconds := regexp.MustCompile(`\b\d+[ms](\d+s)?\b`)
		if diff := cmp.Diff(seconds.ReplaceAllString(want, "AGE"), seconds.ReplaceAllString(got, "AGE")); !ok || diff != "" || code != wantCode {
			t.Errorf("get %s: exit code %d, want %d (-kubectl +amc):\n%s", args, code, wantCode, diff)
		}
	}
}

// readsMembers reads several members, finds them in Secrets, and gets errors for wrong ones.
func (w *kubeEnv) readsMembers(t *testing.T) {
	const run = "Run on ManagedCluster "
	w.prints(0, "amc get ns default -o name -m managedcluster-test,managedcluster-prod", run+"managedcluster-test\nnamespace/default\n"+run+"managedcluster-prod\nnamespace/default")
	w.prints(0, "amc get ns default -o name", run+"managedcluster-prod\nnamespace/default\n"+run+"managedcluster-test\nnamespace/default\n"+run+"third\nnamespace/default")
	w.prints(0, "slipway amc get ns default -o name -m third", run+"third\nnamespace/default")
	for args, want := range map[string]string{
		"amc get ns -m nope":                           `there is no member "nope": ` + w.path("members") + " has managedcluster-prod, managedcluster-test, third",
		"amc get":                                      "the type of the objects is missing",
		"amc delete deployment demo":                   `unknown command "delete" for "kubectl amc", which only reads members`,
		"amc get ns -o nonsense":                       "-o nonsense",
		"slipway amc apply":                            `unknown command "apply" for "kubectl slipway amc"`,
		"amc get ns --store x":                         "--store",
		"amc get ns --clusters " + w.path("none.yaml"): "no such file",
	} {
		code, out := w.run(args)
		if code == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, want %q in\n%s", args, code, want, out)
		}
	}
	members := w.more
	defer func() { w.more = members }()
	w.more = []string{"SLIPWAY_CLUSTERS="}
	code, out := w.run("amc get ns default -m third")
	if want := "no kubeconfig in namespace slipway-system of the hub"; code != 1 || !strings.Contains(out, want) {
		t.Errorf("without a Secret: exit code %d, want %q in\n%s", code, want, out)
	}
	w.shows(0, "create secret generic third -n slipway-system --from-file=kubeconfig="+w.path("members/third.kubeconfig"), "created")
	w.prints(0, "amc get ns default -o name -m third", run+"third\nnamespace/default")
}

// followsMembers checks that ManagedClusters follow the MemberClusters, and that ManagedClusters
// of another author stay.
func (w *kubeEnv) followsMembers(t *testing.T) {
	const foreign = "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: NAME}, spec: {hubAcceptsClient: false}}"
	w.must(os.WriteFile(w.path("foreign.yaml"), []byte(strings.ReplaceAll(foreign, "NAME", "fourth")), 0o600))
	w.prints(0, "apply -f "+w.path("foreign.yaml"), "managedcluster.cluster.open-cluster-management.io/fourth created")
	w.must(os.WriteFile(w.path("fourth.yaml"), []byte("{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: fourth}, spec: {}}"), 0o600))
	w.shows(0, "apply -f "+w.path("fourth.yaml"), "created")

	w.shows(0, "label membercluster third env=test", "labeled")
	w.prints(0, "get managedcluster -l env=test -o name", "managedcluster.cluster.open-cluster-management.io/third")
	w.shows(0, "label membercluster third env-", "unlabeled")
	w.prints(0, "get managedcluster -l env=test -o name", "")
	w.must(os.Remove(w.path("members/third.kubeconfig")))
	w.shows(0, "label membercluster third away=yes", "labeled") // a member that is declared anew is asked at once
	w.prints(0, "get managedcluster third", `
NAME    HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
third   true                                  True     Unknown     1m
`)
	w.shows(0, "delete managedcluster third", "deleted") // a projection comes back
	w.prints(0, "get managedcluster third", `
NAME    HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
third   true                                  True     Unknown     1m
`)
	w.shows(0, "delete membercluster third fourth", "deleted")
	w.prints(0, "get managedclusters", `
NAME                  HUB ACCEPTED   MANAGED CLUSTER URLS   JOINED   AVAILABLE   AGE
fourth                false                                                      1m
managedcluster-prod   true                                  True     True        12d
managedcluster-test   true                                  True     True        12d
`)
}
