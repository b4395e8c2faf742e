package fleet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// enveloped makes a ResourceEnvelope of test-namespace.
func enveloped(name string, objs ...*unstructured.Unstructured) *unstructured.Unstructured {
	data := map[string]any{}
	for _, obj := range objs {
		data[obj.GetName()+".yaml"] = obj.Object
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope",
		"metadata": map[string]any{"name": name, "namespace": "test-namespace"}, "data": data,
	}}
}

func budget(available string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": map[string]any{"name": "limits", "namespace": "test-namespace"},
		"spec": map[string]any{"minAvailable": available},
	}}
}

// held returns the objects of a member in the namespace.
func (w *engineEnv) held(cluster string) (out []string) {
	for _, obj := range w.fleet.Cluster(cluster).List("test-namespace") {
		name := snapshot.IDOf(obj).String()
		if n, ok, _ := unstructured.NestedString(obj.Object, "spec", "minAvailable"); ok {
			name += " " + n
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// The contents of an envelope are rolled out, overridden, compared and removed like any object; the
// envelope stays at the hub.
func TestEnvelopesAreRolledOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) {
			p.Overrides = []placement.Override{{
				Name: "more", Namespace: "test-namespace",
				Selectors: []placement.ObjectSelector{{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget", Name: "limits"}},
				Rules: []placement.Rule{{
					ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: selects("canary")}}},
					Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/spec/minAvailable", Value: []byte(`"50"`)}},
				}},
			}}
		})
		defer running(t, e)()
		const cm, ten, fifty = "ConfigMap.v1 test-namespace/test-cm", "PodDisruptionBudget.v1.policy test-namespace/limits 10", "PodDisruptionBudget.v1.policy test-namespace/limits 50"
		wants := func(when string, member1, member2 []string) {
			t.Helper()
			if diff := cmp.Diff([][]string{member1, member2}, [][]string{w.held("member1"), w.held("member2")}); diff != "" {
				t.Errorf("%s the members have (-want +got):\n%s", when, diff)
			}
		}
		w.puts(enveloped("hard", budget("10")))
		if s := w.capture(e, "v0"); s.Objects != 3 || s.Envelopes != 1 {
			t.Errorf("the snapshot has %d objects, and %d envelopes", s.Objects, s.Envelopes)
		}
		ranTo(t, e, specOf("r0", 0), stages.Completed)
		wants("with the envelope", []string{cm, fifty}, []string{cm, ten})

		w.puts(enveloped("hard", budget("20")))
		if s := w.capture(e, "v0"); s.Index != 1 {
			t.Errorf("another content of the envelope makes snapshot %d", s.Index)
		}
		w.source.Delete(snapshot.IDOf(enveloped("hard")))
		if s := w.capture(e, "v0"); s.Index != 2 || s.Objects != 2 || s.Envelopes != 0 {
			t.Errorf("without the envelope: snapshot %d with %d objects and %d envelopes", s.Index, s.Objects, s.Envelopes)
		}
		ranTo(t, e, specOf("r2", 2), stages.Completed)
		wants("without it", []string{cm}, []string{cm})
		ranTo(t, e, specOf("r3", 0), stages.Completed)
		wants("after the rollback", []string{cm, fifty}, []string{cm, ten})
	})
}

// An object without a name in an envelope delays no other object. The plan, the snapshot and the
// list of failing objects report it. No cluster completes until it is removed, which makes a new
// snapshot. The items of a snapshot name their envelope.
func TestAnObjectWithoutANameInAnEnvelope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, e := declared(t, func(p *fleet.Placement) {
			p.Overrides = []placement.Override{{
				Name: "more", Namespace: "test-namespace",
				Selectors: []placement.ObjectSelector{{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget", Name: "limits"}},
				Rules: []placement.Rule{{
					ClusterSelector: &placement.ClusterSelector{Terms: []placement.ClusterTerm{{LabelSelector: selects("canary")}}},
					Patches:         []placement.Patch{{Op: placement.OpReplace, Path: "/spec/minAvailable", Value: []byte(`"50"`)}},
				}},
			}}
		})
		defer running(t, e)()
		unnamed := configMap("", "v")
		unnamed.SetName("")
		unnamed.SetGenerateName("settings-")
		w.puts(enveloped("hard", budget("10"), unnamed))
		s := w.capture(e, "v0")
		if s.Index != 0 || s.Objects != 3 || len(s.Unplaced) != 1 || s.Unplaced[0].GenerateName != "settings-" || s.Unplaced[0].Envelope.Name != "hard" {
			t.Fatalf("the snapshot is %+v", s)
		}
		view := viewOf(t, e, ep)
		items, err := view.Items(t.Context(), 0)
		content, failed := view.Content(t.Context(), 0)
		if err := errors.Join(err, failed); err != nil || !cmp.Equal(items, content.Items) || len(content.Unplaced) != 1 {
			t.Errorf("items %v, content %v with %v, %v", items, content.Items, content.Unplaced, err)
		}
		for _, item := range items {
			if came := item.Envelope != nil && item.Envelope.Name == "hard"; came != (item.Kind == "PodDisruptionBudget") {
				t.Errorf("%s came in %v", item.ID, item.Envelope)
			}
		}
		w.create(e, specOf("r0", 0))
		settle()
		st, err := e.Run("r0").Status(t.Context())
		if err != nil || st.Run.State != stages.Running || !strings.Contains(strings.Join(st.Plan.Warnings, "\n"), "ConfigMap.v1 test-namespace/(no name)") {
			t.Errorf("the run: %v, %v, warnings %q", st.Run.State, err, st.Plan.Warnings)
		}
		const cm, fifty = "ConfigMap.v1 test-namespace/test-cm", "PodDisruptionBudget.v1.policy test-namespace/limits 50"
		if got := w.held("member1"); !cmp.Equal(got, []string{cm, fifty}) {
			t.Errorf("member1 has %v", got)
		}
		for cluster, f := range e.Placement(ep).Failing() {
			if len(f.Objects) != 1 || f.Objects[0].Envelope == nil || f.Objects[0].Name != "" {
				t.Errorf("on %s fail %+v", cluster, f.Objects)
			}
		}
		if len(e.Placement(ep).Failing()) == 0 {
			t.Error("nothing fails")
		}
		w.puts(enveloped("hard", budget("10")))
		if s := w.capture(e, "v0"); s.Index != 1 || len(s.Unplaced) != 0 {
			t.Errorf("without it the snapshot is %+v", s)
		}
		// The same objects in another envelope make another snapshot with the same digest.
		w.source.Delete(snapshot.IDOf(enveloped("hard")))
		w.puts(enveloped("soft", budget("10")))
		before, after := w.capture(e, "v0"), w.capture(e, "v0")
		if before.Index != 2 || after.Index != 2 {
			t.Errorf("moved to another envelope, the snapshots are %d and %d", before.Index, after.Index)
		}
	})
}

// puts puts objects into the source.
func (w *engineEnv) puts(objs ...*unstructured.Unstructured) {
	w.t.Helper()
	for _, obj := range objs {
		if err := w.source.Put(obj); err != nil {
			w.t.Fatal(err)
		}
	}
}

// An invalid envelope makes no snapshot, and the error names every invalid entry. If an object of
// an envelope is also in another envelope, or belongs to another namespace, the plan has a warning.
func TestAnEnvelopeThatIsWrongMakesNoSnapshot(t *testing.T) {
	w, e := declared(t, nil)
	elsewhere := budget("1")
	elsewhere.SetNamespace("other")
	elsewhere.SetName("elsewhere")
	pod := configMap("pod", "x")
	pod.SetKind("Pod")
	wrong := enveloped("hard", budget("1"), pod)
	wrong.Object["data"].(map[string]any)["text"] = "x"
	w.puts(wrong)
	refused(t, w.store, "an envelope that is wrong", func() error { _, err := e.Placement(ep).Capture(t.Context()); return err },
		"test-namespace/hard", "data[pod.yaml]: Forbidden", "data[text]: Invalid value")
	w.puts(enveloped("hard", budget("1"), elsewhere, configMap("test-cm", "x")))
	s := w.capture(e, "v0")
	plan := must(e.Preview(t.Context(), specOf("r", s.Index)))(t).Plan
	warnings := strings.Join(plan.Warnings, "\n")
	if len(s.Unplaced) != 2 || !strings.Contains(warnings, "no cluster gets PodDisruptionBudget.v1.policy other/elsewhere in ResourceEnvelope") ||
		!strings.Contains(warnings, "metadata.namespace must be test-namespace") || !strings.Contains(warnings, "has this object already, selected") {
		t.Errorf("not placed %v, warnings %s", s.Unplaced, warnings)
	}
}

// Kinds that a host never places cannot be declared, and selectors omit them.
func TestConfigRules(t *testing.T) {
	w := newEngineEnv(t)
	cfg := fleet.Config{Rules: snapshot.Rules{Reserved: []string{"default"}, Never: []snapshot.GroupKind{{Kind: "Secret"}}}}
	e := w.newEngine(cfg)
	p := tutorialPlacement()
	p.Selectors = append(p.Selectors, snapshot.Selector{Version: "v1", Kind: "Secret"}, snapshot.Selector{Version: "v1", Kind: "Namespace", Name: "default"})
	refused(t, w.store, "what a host never places", func() error { return e.PutPlacement(t.Context(), p) }, "selectors[1].kind", "selectors[2].name")
	if err := p.Validate(); err != nil {
		t.Errorf("without an engine nothing is wrong with it: %v", err)
	}
	secret := configMap("s", "x")
	secret.SetKind("Secret")
	w.puts(secret)
	if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
		t.Fatal(err)
	}
	if s := w.capture(e, "v0"); s.Objects != 2 {
		t.Errorf("the snapshot has %d objects, want the namespace and the ConfigMap", s.Objects)
	}
	cfg.Rules.Never = []snapshot.GroupKind{{}}
	cfg.Store, cfg.Inventory, cfg.Dialer = w.store, w.fleet, w.fleet
	if _, err := fleet.New(cfg); err == nil || !strings.Contains(err.Error(), "Rules.never[0].kind: Required") {
		t.Errorf("New: %v", err)
	}
}

// A placement with a selectionScope brings the objects of that scope, also after its record was
// written and read.
func TestSelectionScopesAreKept(t *testing.T) {
	for scope, want := range map[snapshot.Scope]int{"": 3, snapshot.NamespaceWithResources: 3, snapshot.NamespaceOnly: 1, snapshot.NamespaceWithResourceSelectors: 2} {
		w := newEngineEnv(t)
		w.puts(configMap("other", "x"))
		p := tutorialPlacement()
		p.Selectors[0].Scope = scope
		if scope == snapshot.NamespaceWithResourceSelectors {
			p.Selectors = append(p.Selectors, snapshot.Selector{Version: "v1", Kind: "ConfigMap", Name: "other"})
		}
		if err := w.engine(w.store, "one").PutPlacement(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if s := must(w.engine(w.store, "two").Placement(ep).Capture(t.Context()))(t); s.Objects != want {
			t.Errorf("scope %q brings %d objects, want %d", scope, s.Objects, want)
		}
	}
}
