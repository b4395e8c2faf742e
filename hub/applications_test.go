package hub_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	identity "github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/formats/oam/delivery"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/manifests"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// appEnv is a hub cluster that serves applications, with two members.
type appEnv struct {
	*hubEnv
	kubeconfig string
}

// applications is locked while a test has the server for applications.
var applications sync.Mutex

func newAppEnv(t *testing.T) *appEnv {
	t.Helper()
	applications.Lock()
	t.Cleanup(applications.Unlock)
	w := &appEnv{newHubEnvOn(t, "applications", 2), filepath.Join(t.TempDir(), "kubeconfig")}
	rights := &manifests.HubOptions{Namespace: w.name + "-hub", User: "the-hub"}
	if err := manifests.Install(t.Context(), w.server.Config(), manifests.Options{Applications: true, Timeout: patience, Hub: rights}); err != nil {
		t.Fatal(err)
	}
	w.awaitRights(rights.User, rights.Namespace)
	if err := os.WriteFile(w.kubeconfig, w.server.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	w.kubectl("create namespace "+w.name, "")
	return w
}

// serve starts a hub that serves applications, with the rights of its role, by election.
func (w *appEnv) serve(name string) *running {
	return w.start(name, func(c *hub.Config) {
		as := w.server.ConfigFor("the-hub")
		as.UserAgent, as.WrapTransport = name, c.Rest.WrapTransport
		c.Rest, c.Applications, c.AlwaysLead = as, &oam.Options{}, false
	})
}

// kubectl runs a command line on the hub. In the line and in the input, $NAME, $TEST and $PROD
// stand for the names of the test and of its members.
func (w *appEnv) kubectl(line, input string) string {
	w.t.Helper()
	program, err := kubeenv.Binary("kubectl")
	if err != nil {
		w.t.Fatal(err)
	}
	words := strings.NewReplacer("$NAME", w.name, "$TEST", w.name+"-m1", "$PROD", w.name+"-m2")
	c := exec.CommandContext(w.t.Context(), program, append([]string{"--kubeconfig", w.kubeconfig, "--cache-dir", w.t.TempDir()}, strings.Fields(words.Replace(line))...)...)
	c.Stdin = strings.NewReader(words.Replace(input))
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("kubectl %s: %v: %s", line, err, out)
	}
	return string(out)
}

// memberConfig writes the kubeconfig of a member to a file and returns its path.
func (w *appEnv) memberConfig(i int) string {
	w.t.Helper()
	path := filepath.Join(w.t.TempDir(), "member")
	if err := os.WriteFile(path, w.members[i].server.Kubeconfig(), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// The documents of the tutorial, with a ConfigMap instead of its Deployment, because these members
// run no Pods.
const (
	appObject   = `{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {key: VALUE}}`
	appPolicies = `
apiVersion: core.oam.dev/v1alpha1
kind: Policy
metadata: {name: cluster-test, namespace: $NAME}
type: topology
properties: {clusters: [$TEST]}
---
apiVersion: core.oam.dev/v1alpha1
kind: Policy
metadata: {name: cluster-prod, namespace: $NAME}
type: topology
properties: {clusters: [$PROD]}
`
	appWorkflow = `
apiVersion: core.oam.dev/v1alpha1
kind: Workflow
metadata: {name: deploy-demo, namespace: $NAME}
steps:
- {type: deploy, name: deploy-test, properties: {policies: [cluster-test]}}
- {type: deploy, name: deploy-prod, properties: {auto: false, policies: [cluster-prod]}}
`
	application = `
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: demo, namespace: $NAME, annotations: {app.oam.dev/publishVersion: VERSION}}
spec:
  components:
  - {name: demo, type: ref-objects, properties: {objects: [{apiVersion: v1, kind: ConfigMap, name: cm}]}}
  workflow: {ref: deploy-demo}
`
)

func (w *appEnv) apply(text string, replace ...string) {
	w.t.Helper()
	w.kubectl("apply -f -", strings.NewReplacer(replace...).Replace(text))
}

// publish applies the application with a version.
func (w *appEnv) publish(version string) {
	w.t.Helper()
	w.apply(application, "VERSION", version)
}

func (w *appEnv) app() (*unstructured.Unstructured, error) {
	gvr := schema.GroupVersionResource{Group: "core.oam.dev", Version: "v1beta1", Resource: "applications"}
	return w.client.Resource(gvr).Namespace(w.name).Get(w.t.Context(), "demo", metav1.GetOptions{})
}

// comes waits until the application is in a phase and the members have the values.
func (w *appEnv) comes(phase, test, prod string) {
	w.t.Helper()
	w.eventually("phase "+phase, func() error {
		app, err := w.app()
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(app.Object, "status", "status"); got != phase {
			return fmt.Errorf("the phase is %q, want %q: %v", got, phase, app.Object["status"])
		}
		return errors.Join(w.holds(w.members[0], test), w.holds(w.members[1], prod))
	})
}

// do changes the workflow through the hub's store. To the hub it looks like another process.
func (w *appEnv) do(of *running, verb delivery.Verb, step, want string) {
	w.t.Helper()
	records, err := store.New(w.server.Config(), store.Options{Namespace: w.name + "-hub"})
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = records.Close() }()
	a := &delivery.Applications{Engine: of.Engine(), Store: records}
	message, err := a.Do(w.t.Context(), delivery.Request{Namespace: w.name, Name: "demo", Verb: verb, Step: step, By: identity.Identity{Name: "alice"}})
	if err != nil {
		message = err.Error()
	}
	if message != want {
		w.t.Fatalf("%s prints %q, want %q", verb, message, want)
	}
}

// told returns an error unless there is an Event of that reason about the application.
func (w *appEnv) told(reason string) error {
	events, err := w.kube.CoreV1().Events(w.name).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.Kind == "Application" && e.Reason == reason {
			return nil
		}
	}
	return fmt.Errorf("no Event %s among %d", reason, len(events.Items))
}

// The tutorial of the application workflow runs on API servers. Test comes first, then production
// once the workflow is resumed, by another hub than the first. A changed object without a new
// version has no effect; with a new version the workflow begins again. The workflow is terminated
// and restarted from a step. The delivered objects are deleted with the application.
func TestTheApplicationWorkflow(t *testing.T) {
	t.Parallel()
	w := newAppEnv(t)
	first := w.serve("first")
	w.apply(appObject, "VALUE", "red")
	w.apply(appPolicies)
	w.apply(appWorkflow)
	w.publish("version1")
	w.comes(oam.WorkflowSuspending, "red", "")
	got := strings.Join(strings.Fields(w.kubectl("get app demo -n $NAME --no-headers", "")), " ")
	if want := "demo demo ref-objects workflowSuspending true "; !strings.HasPrefix(got, want) {
		t.Errorf("kubectl shows %q, want %q and the age", got, want)
	}
	w.end(first)

	second := w.serve("second")
	w.do(second, delivery.Resume, "", "Successfully resume workflow: demo")
	w.comes(oam.ApplicationRunning, "red", "red")
	w.apply(appObject, "VALUE", "blue")
	w.comes(oam.ApplicationRunning, "red", "red")
	w.publish("version2")
	w.comes(oam.WorkflowSuspending, "blue", "red")
	w.do(second, delivery.Terminate, "", "Successfully terminate workflow: demo")
	w.comes(oam.WorkflowTerminated, "blue", "red")
	w.do(second, delivery.Resume, "", "can not resume a terminated workflow")
	w.do(second, delivery.Restart, "deploy-prod", "Successfully restart workflow demo from step deploy-prod")
	w.comes(oam.WorkflowSuspending, "blue", "red")
	w.do(second, delivery.Resume, "", "Successfully resume workflow: demo")
	w.comes(oam.ApplicationRunning, "blue", "blue")
	w.eventually("the Events", func() error {
		return errors.Join(w.told("WorkflowStarted"), w.told("WorkflowSuspending"), w.told("WorkflowTerminated"), w.told("Running"))
	})

	w.kubectl("delete app demo -n $NAME --wait=false", "")
	w.eventually("the application to be gone", func() error {
		if app, err := w.app(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there, with the finalizers %v: %w", app.GetFinalizers(), err)
		}
		return w.allHold("")
	})
}

// If something is missing, an application does not begin. Its status and an Event list everything
// that is missing, and it begins once everything exists.
func TestAnApplicationThatCannotBegin(t *testing.T) {
	t.Parallel()
	w := newAppEnv(t)
	w.serve("hub")
	w.publish("version1")
	says := func(want string) {
		t.Helper()
		w.eventually("the status to say "+want, func() error {
			app, err := w.app()
			if err != nil {
				return err
			}
			if status, text := conditionOf(app, "Parsed"); status != "False" || !strings.Contains(text, want) {
				return fmt.Errorf("Parsed is %q: %s", status, text)
			}
			return w.told("WorkflowNotStarted")
		})
	}
	says("there is no Workflow deploy-demo in namespace " + w.name)
	w.apply(appWorkflow)
	says("there is no policy cluster-prod in the application or in namespace " + w.name)
	w.apply(appPolicies)
	says("component demo: there is no ConfigMap.v1 " + w.name + "/cm")
	w.apply(appObject, "VALUE", "red")
	w.comes(oam.WorkflowSuspending, "red", "")
}

// An Application and a ResourcePlacement with the same name are two placements. If one is deleted,
// even before its workflow has begun, the objects of the other stay.
func TestAnApplicationAndAPlacementOfOneName(t *testing.T) {
	t.Parallel()
	w := newAppEnv(t)
	w.serve("hub")
	w.apply(appObject, "VALUE", "red")
	w.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ResourcePlacement
metadata: {name: demo, namespace: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: ConfigMap, name: cm}]
  policy: {placementType: PickFixed, clusterNames: [$PROD]}
  strategy: {type: RollingUpdate}
`)
	w.kubectl("create namespace $NAME --kubeconfig "+w.memberConfig(1), "")
	w.eventually("the placement", func() error { return errors.Join(w.holds(w.members[0], ""), w.holds(w.members[1], "red")) })
	deleteApplication := func() {
		t.Helper()
		w.kubectl("delete app demo -n $NAME --wait=false", "")
		w.eventually("the application to be gone", func() error {
			if _, err := w.app(); !apierrors.IsNotFound(err) {
				return fmt.Errorf("it is there: %w", err)
			}
			return nil
		})
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if err := w.holds(w.members[1], "red"); err != nil {
				t.Fatalf("the deletion of the Application took what the ResourcePlacement delivered: %v", err)
			}
		}
	}

	w.publish("version1")
	w.eventually("the refusal", func() error { return w.told("WorkflowNotStarted") })
	deleteApplication()

	w.apply(appPolicies)
	w.apply(appWorkflow)
	w.publish("version1")
	w.eventually("the workflow", func() error {
		_, err := w.app()
		return errors.Join(err, w.holds(w.members[1], "red"), w.told("WorkflowStarted"))
	})
	deleteApplication()

	w.kubectl("delete resourceplacement demo -n $NAME", "")
	w.eventually("everything to be gone", func() error { return w.allHold("") })
}
