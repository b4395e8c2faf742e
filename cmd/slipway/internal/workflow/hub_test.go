package workflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
	"github.com/slipway-dev/slipway/placement"
)

// hubEnv is a hub on an API server, whose members are in memory, with the tutorial's objects.
type hubEnv struct {
	t          *testing.T
	kubeconfig string
	client     dynamic.Interface
	members    *memory.Fleet
}

func newHubEnv(t *testing.T) *hubEnv {
	t.Helper()
	server := kubeenv.ForTest(t).Server(t, "hub")
	if err := manifests.Install(t.Context(), server.Config(), manifests.Options{Applications: true, Hub: &manifests.HubOptions{Namespace: "slipway-system"}}); err != nil {
		t.Fatal(err)
	}
	v := &hubEnv{t: t, kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), members: memory.NewFleet()}
	err := os.WriteFile(v.kubeconfig, server.KubeconfigFor("alice"), 0o600)
	if err == nil {
		v.client, err = dynamic.NewForConfig(server.Config())
	}
	if err != nil {
		t.Fatal(err)
	}
	v.apply("v1", "namespaces", `{apiVersion: v1, kind: Namespace, metadata: {name: demo}}`)
	for _, name := range []string{"managedcluster-test", "managedcluster-prod"} {
		v.members.Add(placement.Cluster{Name: name}).React(memory.Deployments(isBroken))
		v.apply("cluster.kubernetes-fleet.io/v1beta1", "memberclusters", `{apiVersion: cluster.kubernetes-fleet.io/v1beta1, kind: MemberCluster, metadata: {name: `+name+`}, spec: {}}`)
	}
	v.apply("rbac.authorization.k8s.io/v1", "clusterrolebindings", `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: alice}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
`)
	dialer := backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		c.UID = "" // the UID of the MemberCluster
		return v.members.Dial(ctx, c)
	})
	account, err := server.ConfigForAccount(t.Context(), "slipway-system", "slipway-hub")
	if err != nil {
		t.Fatal(err)
	}
	var warnings kubeenv.Warnings
	account.Wrap(warnings.Wrap)
	t.Cleanup(func() {
		for _, said := range warnings.Take() {
			t.Errorf("the API server warns the hub: %s", said)
		}
	})
	h, err := hub.New(hub.Config{
		Rest: account, Dialer: dialer, Applications: &oam.Options{}, AlwaysLead: true,
		Log: kubeenv.NewLogged(t).Logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return v
}

// apply creates or changes the objects of YAML documents.
func (v *hubEnv) apply(groupVersion, resource, text string) {
	v.t.Helper()
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		v.t.Fatal(err)
	}
	for doc := range strings.SplitSeq(text, "\n---\n") {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &obj.Object); err != nil {
			v.t.Fatal(err)
		}
		if _, err := v.client.Resource(gv.WithResource(resource)).Namespace(obj.GetNamespace()).Apply(v.t.Context(), obj.GetName(), obj, metav1.ApplyOptions{FieldManager: "test", Force: true}); err != nil {
			v.t.Fatal(err)
		}
	}
}

// do runs a command line on the hub. It must have this exit code, and its output must contain
// want.
func (v *hubEnv) do(code int, line, want string) {
	v.t.Helper()
	got, out, errOut := call(v.t, append(strings.Fields(line), "--kubeconfig", v.kubeconfig)...)
	if got != code || !strings.Contains(out+errOut, want) {
		v.t.Fatalf("%s: exit code %d, want %d and %q in\n%s%s", line, got, code, want, out, errOut)
	}
}

// comes waits for a phase of the application and for the image tags of both members.
func (v *hubEnv) comes(phase, test, prod string) {
	v.t.Helper()
	const patience = 6 * time.Minute
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	try := func() error {
		app, err := v.client.Resource(schema.GroupVersionResource{Group: "core.oam.dev", Version: "v1beta1", Resource: "applications"}).Namespace("demo").Get(ctx, "demo", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(app.Object, "status", "status"); got != phase {
			return fmt.Errorf("the phase is %q: %v", got, app.Object["status"])
		}
		var errs []error
		for cluster, tag := range map[string]string{"managedcluster-test": test, "managedcluster-prod": prod} {
			if _, got, _ := strings.Cut(imageOn(v.members.Cluster(cluster)), "rollouts-demo:"); got != tag {
				errs = append(errs, fmt.Errorf("%s runs %q", cluster, got))
			}
		}
		return errors.Join(errs...)
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for err := try(); err != nil; {
		select {
		case <-ctx.Done():
			v.t.Fatalf("phase %s, images %q and %q do not come: %v", phase, test, prod, err)
		case <-ticker.C:
		}
		if now := try(); now == nil || ctx.Err() == nil {
			err = now
		}
	}
}

// file applies a file of the tutorial.
func (v *hubEnv) file(groupVersion, resource, name string) {
	v.t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/tutorial", name))
	if err != nil {
		v.t.Fatal(err)
	}
	v.apply(groupVersion, resource, string(text))
}

// The verbs direct the workflow of an application on a hub, by its records, as the user whom the
// API server knows.
func TestTheVerbsOnAHub(t *testing.T) {
	v := newHubEnv(t)
	v.do(cli.ExitFailed, "status demo -n demo", "no workflow of it has begun")
	v.file("apps/v1", "deployments", "app-meta.yaml")
	v.file("core.oam.dev/v1alpha1", "policies", "policy-topology.yaml")
	v.file("core.oam.dev/v1alpha1", "workflows", "workflow.yaml")
	v.file("core.oam.dev/v1beta1", "applications", "app.yaml")
	v.comes(oam.WorkflowSuspending, "red", "")
	v.do(cli.ExitDone, "status demo -n demo", `Waiting approval to the deploy step "deploy-prod"`)
	v.do(cli.ExitDone, "resume demo -n demo", "Successfully resume workflow: demo")
	v.comes(oam.ApplicationRunning, "red", "red")

	v.file("apps/v1", "deployments", "app-meta-blue.yaml")
	v.file("core.oam.dev/v1beta1", "applications", "app-version2.yaml")
	v.comes(oam.WorkflowSuspending, "blue", "red")
	v.do(cli.ExitDone, "suspend demo -n demo", "Successfully suspend workflow: demo")
	v.do(cli.ExitDone, "terminate demo -n demo", "Successfully terminate workflow: demo")
	v.comes(oam.WorkflowTerminated, "blue", "red")
	v.do(cli.ExitDone, "status demo -n demo -o json", "aborted by alice")
	v.do(cli.ExitFailed, "resume demo -n demo", "can not resume a terminated workflow")
	v.do(cli.ExitFailed, "rollback demo -n demo", "without the annotation slipway.dev/rollback")
	v.do(cli.ExitDone, "restart demo -n demo --step deploy-prod", "Successfully restart workflow demo from step deploy-prod")
	v.comes(oam.WorkflowSuspending, "blue", "red")
	v.do(cli.ExitDone, "resume demo -n demo", "Successfully resume workflow: demo")
	v.comes(oam.ApplicationRunning, "blue", "blue")
}
