package hub_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/hub/compat"
	"github.com/slipway-dev/slipway/hub/manifests"
)

// of sets the compatibility setting of a hub.
func of(setting compat.Setting) func(*hub.Config) {
	return func(c *hub.Config) { c.Compatibility = setting }
}

// installOf installs the definitions of a setting on the hub cluster, and returns the notes.
func (w *hubEnv) installOf(setting compat.Setting) (notes []string, err error) {
	err = manifests.Install(context.WithoutCancel(w.t.Context()), w.server.Config(), manifests.Options{
		Compatibility: setting, Note: func(n string) { notes = append(notes, n) },
	})
	return notes, err
}

// switchTo changes the definitions, and fails unless the notes contain the texts.
func (w *hubEnv) switchTo(setting compat.Setting, told ...string) {
	w.t.Helper()
	notes, err := w.installOf(setting)
	if err != nil {
		w.t.Fatal(err)
	}
	all := strings.Join(notes, "\n")
	for _, text := range told {
		if !strings.Contains(all, text) {
			w.t.Errorf("nothing tells %q:\n%s", text, all)
		}
	}
	w.eventually("the definitions of "+string(setting), func() error { return w.defaultState(setting) })
}

// defaultState returns an error unless the API server gives a new run the default state of the
// setting.
func (w *hubEnv) defaultState(setting compat.Setting) error {
	probe := w.stateless("probe-" + w.name)
	made, err := w.at("csur").Create(w.t.Context(), probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	got, _, _ := unstructured.NestedString(made.Object, "spec", "state")
	if want := map[compat.Setting]string{compat.KubeFleet018: "Initialize"}[setting]; got != want {
		return fmt.Errorf("a run has the state %q, want %q", got, want)
	}
	return nil
}

// stateless returns a run without spec.state.
func (w *hubEnv) stateless(name string) *unstructured.Unstructured {
	w.t.Helper()
	run := w.runOf(name, "")
	unstructured.RemoveNestedField(run.Object, "spec", "state")
	return run
}

// stateOf returns the state of a run in the API server's answer.
func (w *hubEnv) stateOf(name string) string {
	w.t.Helper()
	u, err := w.at("csur").Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	state, _, _ := unstructured.NestedString(u.Object, "spec", "state")
	return state
}

// waits fails if a run that should only be planned starts.
func (w *hubEnv) waits(name string) {
	w.t.Helper()
	w.await("csur", name, "Initialized", "True")
	for range 15 {
		if err := w.condition("csur", name, "Progressing", ""); err != nil {
			w.t.Fatalf("it does not wait: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// asks waits for an open request.
func (w *hubEnv) asks(request string) {
	w.t.Helper()
	w.eventually("the request "+request, func() error {
		_, err := w.at("careq").Get(w.t.Context(), request, metav1.GetOptions{})
		return err
	})
}

// TestAHubRefusesTheDefinitionsOfAnotherSetting: the error names the setting, the definitions and
// the remedy, even if the hub does not lead yet. The definitions and the leader's Lease name their
// setting.
func TestAHubRefusesTheDefinitionsOfAnotherSetting(t *testing.T) {
	t.Parallel()
	w := newHubEnvAlone(t, "refusing", 0)
	refused := func(setting compat.Setting, texts ...string) {
		t.Helper()
		cfg := w.config("refused")
		cfg.Compatibility, cfg.AlwaysLead = setting, false
		h, err := hub.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		err = h.Run(t.Context())
		if !errors.Is(err, manifests.ErrOtherCompatibility) {
			t.Fatalf("a hub of %q: %v", setting, err)
		}
		for _, text := range append(texts, "hub install --compatibility") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("no %q in %v", text, err)
			}
		}
	}
	refused(compat.KubeFleet018, "the setting is v0.18", "clusterstagedupdateruns.placement.kubernetes-fleet.io is installed for 2025-07")
	one := w.start("one", func(c *hub.Config) { c.AlwaysLead = false })
	lease := func(want compat.Setting) error {
		u, err := w.kube.CoordinationV1().Leases(w.name+"-hub").Get(t.Context(), "slipway-hub", metav1.GetOptions{})
		if err == nil && u.Labels[compat.Label] != string(want) {
			err = fmt.Errorf("the lease has the labels %v", u.Labels)
		}
		return err
	}
	w.eventually("the Lease to say the setting", func() error { return lease(compat.July2025) })
	w.end(one)
	w.switchTo(compat.KubeFleet018, "change from compatibility 2025-07 to v0.18")
	refused(compat.July2025, "is installed for v0.18")
	refused("", "the setting is 2025-07")
	two := w.start("two", of(compat.KubeFleet018), func(c *hub.Config) { c.AlwaysLead = false })
	w.eventually("the Lease to say the new setting", func() error { return lease(compat.KubeFleet018) })
	w.end(two)

	crds := w.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	const name = "stagedupdateruns.placement.kubernetes-fleet.io"
	if _, err := crds.Patch(t.Context(), name, mergePatch, []byte(`{"metadata":{"labels":{"slipway.dev/compatibility":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	refused(compat.KubeFleet018, name+" has no label")
	if _, err := hub.New(hub.Config{Compatibility: "v0.17"}); err == nil || !strings.Contains(err.Error(), `compatibility "v0.17" is not known: use 2025-07 or v0.18`) {
		t.Errorf("an unknown setting: %v", err)
	}
}

// TestSwitchOfTheSettingKeepsRunsAndRequests: runs keep their states and requests, in both
// directions.
func TestSwitchOfTheSettingKeepsRunsAndRequests(t *testing.T) {
	t.Parallel()
	w := newHubEnvAlone(t, "switching", 1)
	run := func(name string) string { return name + "-" + w.name }
	w.place("v1")
	w.staged("Approval")
	one := w.start("one")
	w.eventually("the first snapshot", func() error { return w.shown([]string{w.name + "-0-snapshot"}) })
	w.create(w.stateless(run("a")))
	w.asks(run("a") + "-canary")
	w.create(w.stateless(run("b")))
	w.await("csur", run("b"), "Progressing", "False") // it waits for a
	refused := w.stateless(run("refused"))
	refused.Object["spec"].(map[string]any)["stagedRolloutStrategyName"] = "none"
	w.create(refused)
	w.await("csur", run("refused"), "Initialized", "False")
	w.end(one)
	w.create(w.stateless(run("late"))) // no hub has seen it yet

	w.switchTo(compat.KubeFleet018,
		"change from compatibility 2025-07 to v0.18", "1 placements with strategy External take no snapshot of a change any more",
		"1 approval requests are open and keep their names: "+run("a")+"-canary",
		"3 ClusterStagedUpdateRun without spec.state keep the state Run, which is written into them: "+run("a")+", "+run("b")+", "+run("late"))
	for name, want := range map[string]string{"a": "Run", "b": "Run", "late": "Run", "refused": "Initialize"} {
		if got := w.stateOf(run(name)); got != want {
			t.Errorf("run %s has the state %q, want %q", name, got, want)
		}
	}
	two := w.start("two", of(compat.KubeFleet018))
	w.change("v2")
	w.patch("csur", run("a"), `{"spec":{"state":"Stop"}}`) // not by way of Run
	w.eventually("a to stop", func() error { return w.says("csur", run("a"), "Progressing", "UpdateRunStopped") })
	w.patch("csur", run("a"), `{"spec":{"state":"Run"}}`)
	w.approve(run("a") + "-canary")
	w.await("csur", run("a"), "Succeeded", "True")
	w.approve(run("b") + "-canary") // it is recorded with the names of the other setting
	w.await("csur", run("b"), "Succeeded", "True")
	w.approve(run("late") + "-after-canary")
	w.await("csur", run("late"), "Succeeded", "True")
	if err := w.shown([]string{w.name + "-0-snapshot", w.name + "-1-snapshot"}); err != nil {
		t.Errorf("snapshots, one for the last run: %v", err)
	}
	w.create(w.stateless(run("idle")))
	w.waits(run("idle"))
	w.await("csur", run("refused"), "Initialized", "False")
	w.end(two)

	if _, err := w.installOf(""); err == nil || !strings.Contains(err.Error(), "the definitions on the server have the compatibility v0.18: name that setting to keep them, or 2025-07 to replace them") {
		t.Errorf("an installation that names no setting: %v", err)
	}
	w.switchTo(compat.July2025, "change from compatibility v0.18 to 2025-07", "1 placements with strategy External take a snapshot of each change from now on",
		"keep the state Initialize, which is written into them: "+run("idle"))
	if got := w.stateOf(run("idle")); got != "Initialize" {
		t.Errorf("the state of a run that waits is %q", got)
	}
	w.start("three")
	w.change("v3")
	w.eventually("a snapshot of a change", func() error {
		return w.shown([]string{w.name + "-0-snapshot", w.name + "-1-snapshot", w.name + "-2-snapshot"})
	})
	w.waits(run("idle"))
	if err := w.allHold("v2"); err != nil {
		t.Error(err)
	}
	w.patch("csur", run("idle"), `{"spec":{"state":"Run"}}`)
	w.approve(run("idle") + "-after-canary")
	w.await("csur", run("idle"), "Succeeded", "True")
	w.await("csur", run("refused"), "Initialized", "False")
}

// TestDefinitionsThatAreReplacedByHandStartNothing: without hub install nothing is written into
// runs. A run that had begun continues although its state is read as Initialize, and a run that
// waits stays so although its state is read as Run.
func TestDefinitionsThatAreReplacedByHandStartNothing(t *testing.T) {
	t.Parallel()
	w := newHubEnvAlone(t, "replacing", 1)
	replace := func(setting compat.Setting) {
		t.Helper()
		all, err := manifests.CRDs(setting)
		if err != nil {
			t.Fatal(err)
		}
		crds := w.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
		for _, crd := range all {
			if _, err := crds.Apply(t.Context(), crd.GetName(), crd, metav1.ApplyOptions{FieldManager: "hand", Force: true}); err != nil {
				t.Fatal(err)
			}
		}
		w.eventually("the definitions of "+string(setting), func() error { return w.defaultState(setting) })
	}
	run := func(name string) string { return name + "-" + w.name }
	w.place("v1")
	w.staged("Approval")
	one := w.start("one")
	w.create(w.stateless(run("a")))
	w.asks(run("a") + "-canary")
	w.end(one)
	w.create(w.stateless(run("b")))

	replace(compat.KubeFleet018)
	if got := w.stateOf(run("a")); got != "Initialize" {
		t.Fatalf("a reads as %q", got)
	}
	two := w.start("two", of(compat.KubeFleet018))
	w.waits(run("b"))
	w.approve(run("a") + "-canary")
	w.await("csur", run("a"), "Succeeded", "True")
	w.end(two)

	replace(compat.July2025)
	w.start("three")
	w.waits(run("b"))
}

// says returns an error unless a condition of an object has a text in its reason or its message.
func (w *hubEnv) says(short, name, condition, text string) error {
	obj, err := w.at(short).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if _, got := conditionOf(obj, condition); !strings.Contains(got, text) {
		return fmt.Errorf("condition %s of %s says %q", condition, name, got)
	}
	return nil
}
