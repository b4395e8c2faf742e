package fleet_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

func badSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like"}}}
}

// All problems of a placement are reported at once, with the placement and the field, and nothing
// is written.
func TestPlacementProblemsAreReportedAtOnce(t *testing.T) {
	w, e := declared(t, nil)
	bad := replaceFor("canary", "x")
	bad.Rules[0].Patches[0].Path = "no-pointer"
	p := fleet.Placement{
		Name: "Web_1", HistoryLimit: 1001, RunHistory: -1, Admission: "Maybe",
		Selectors: []snapshot.Selector{{Kind: "ConfigMap", Name: "a", LabelSelector: badSelector()}},
		Policy:    placement.Policy{Type: placement.PickAll, ClusterNames: []string{"Bad Name"}, Required: []placement.Term{{LabelSelector: *badSelector()}}},
		Overrides: []placement.Override{bad, bad, {Name: "UP"}},
	}
	refused(t, w.store, "a placement that is wrong everywhere", func() error { return e.PutPlacement(t.Context(), p) },
		"placement Web_1: ", "name: Invalid value", "historyLimit: Invalid value: 1001: must be from 1 to 1000",
		"runHistory: Invalid value: -1: must be from 1 to 500", `admission: Unsupported value: "Maybe"`,
		"selectors[0].version: Required", "selectors[0].labelSelector", "policy.clusterNames: Forbidden",
		"policy.clusterNames[0]", "policy.required[0].matchExpressions[0].operator", "overrides[0].overrideRules[0].jsonPatchOverrides[0].path",
		"overrides[1].name: Duplicate value: \"test-namespace/o\"", "overrides[2].name", "overrides[2].overrideRules: Required")
	refused(t, w.store, "the empty placement", func() error { return e.PutPlacement(t.Context(), fleet.Placement{}) },
		"name: Required", "selectors: Required")
	before, _ := w.store.Stats()
	if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
		t.Fatal(err)
	}
	if after, _ := w.store.Stats(); after != before {
		t.Error("declaring a placement as it is writes")
	}
}

// All problems of a run and of its strategy are reported at once.
func TestRunProblemsAreReportedAtOnce(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	spec := fleet.RunSpec{Name: "a b", Placement: "", Index: new(-1), Strategy: stages.Strategy{
		MinHealthy: metav1.Duration{Duration: -time.Second},
		Stages: []stages.Stage{
			{Name: "one", Selector: badSelector(), MaxConcurrency: percent("101%")},
			{Name: "one", Selector: everything(), MaxFailures: percent("half"), After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: -1}}}},
			{Name: "Two", Before: []stages.Task{{Type: stages.Approval, Approval: &approval.Policy{ForbidStarter: true, Quorums: []approval.Quorum{{Count: 0}}}}}},
		},
	}}
	fields := []string{
		"placement: Required", "index: Invalid value: -1", "strategy.minHealthy", "strategy.stages[0].labelSelector",
		"strategy.stages[0].maxConcurrency", "strategy.stages[1].name: Duplicate", "strategy.stages[1].maxFailures",
		"strategy.stages[1].afterStageTasks[0].waitTime", "strategy.stages[2].name", "strategy.stages[2].beforeStageTasks[0].approval.quorums[0].count",
		"starter.name: Required", "the approval before stage Two forbids them to approve",
	}
	refused(t, w.store, "a run that is wrong everywhere", func() error { _, err := e.CreateRun(t.Context(), spec); return err },
		append(fields, "run a b: ", "name: Invalid value")...)
	refused(t, w.store, "its preview", func() error { _, err := e.Preview(t.Context(), spec); return err }, append(fields, "preview of a run: ")...)
}

// A strategy that forbids the starter's approval requires a known starter, on every side of every
// stage.
func TestForbiddenStarterMustBeKnown(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	gate := []stages.Task{{Type: stages.Approval, Approval: &approval.Policy{ForbidStarter: true}}}
	for want, change := range map[string]func(*stages.Strategy){
		"before stage all":    func(s *stages.Strategy) { s.Stages[0].Before = gate },
		"after stage all":     func(s *stages.Strategy) { s.Stages[0].After = gate },
		"before stage remove": func(s *stages.Strategy) { s.Removal.Before = gate },
		"after stage remove":  func(s *stages.Strategy) { s.Removal.After = gate },
	} {
		spec := specOf("r", 0)
		change(&spec.Strategy)
		refused(t, w.store, want, func() error { _, err := e.CreateRun(t.Context(), spec); return err }, "starter.name: Required", want)
		spec.Starter.Name = "ann"
		must(e.CreateRun(t.Context(), spec))(t)
		if err := e.Run("r").Delete(t.Context(), forced); err != nil {
			t.Fatal(err)
		}
	}
}

// The error about a missing object has its kind, its name and the existing ones.
func TestNotFoundErrorsNameExistingObjects(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	w.capture(e, "v1")
	must(e.CreateRun(t.Context(), specOf("taken", 0)))(t)
	ctx := t.Context()
	elsewhere := specOf("r", 0)
	elsewhere.Placement = "nowhere"
	for what, c := range map[string]struct {
		do   func() error
		want []string
	}{
		"an index":               {func() error { return second1(e.CreateRun(ctx, specOf("r", 7))) }, []string{"run r", "snapshot example-placement-7-snapshot does not exist", "indexes 0, 1"}},
		"a placement to run":     {func() error { return second1(e.CreateRun(ctx, elsewhere)) }, []string{"placement nowhere does not exist", "declare it first"}},
		"a placement to capture": {func() error { return second1(e.Placement("nowhere").Capture(ctx)) }, []string{"placement nowhere does not exist"}},
		"a name that cannot be":  {func() error { return second1(e.Placement("../run/taken").Get(ctx)) }, []string{"placement ../run/taken does not exist"}},
		"runs of it":             {func() error { return second1(e.Placement("nowhere").RunNames(ctx)) }, []string{"nowhere"}},
		"a run":                  {func() error { return second1(e.Run("missing").Status(ctx)) }, []string{"run missing does not exist"}},
		"a run to delete":        {func() error { return e.Run("Missing!").Delete(ctx, forced) }, []string{"run Missing! does not exist"}},
		"a run to stop":          {func() error { return e.Run("missing").Command(ctx, stages.Command{Verb: stages.Stop}) }, []string{"run missing does not exist"}},
		"a request": {func() error {
			return e.Run("taken").Command(ctx, stages.Command{Verb: stages.Decide, Name: "taken-after-all", Decision: &approval.Decision{Verdict: approval.Approve}})
		}, []string{"request taken-after-all does not exist", "run taken has no open request"}},
	} {
		if err := refused(t, w.store, what, c.do, c.want...); !errors.Is(err, backend.ErrNotFound) {
			t.Errorf("%s: %v does not match ErrNotFound", what, err)
		}
	}
	for _, index := range []int{0, 1} {
		err := refused(t, w.store, "a name that is taken", func() error { return second1(e.CreateRun(ctx, specOf("taken", index))) }, "run taken exists already", "choose another name")
		if !errors.Is(err, backend.ErrConflict) {
			t.Errorf("%v does not match ErrConflict", err)
		}
	}
}

// A command or an answer that makes no sense is refused before it is stored.
func TestCommandProblemsAreReportedAtOnce(t *testing.T) {
	w, e := declared(t, nil)
	w.capture(e, "v0")
	must(e.CreateRun(t.Context(), specOf("r", 0)))(t)
	for _, c := range []struct {
		command stages.Command
		want    []string
	}{
		{stages.Command{Verb: "Pause", ID: "No/ID"}, []string{"command to run r", `verb: Unsupported value: "Pause"`, "id: Invalid value"}},
		{stages.Command{Verb: stages.Decide}, []string{"decision: Required"}},
		{stages.Command{Verb: stages.Supersede}, []string{"verb"}},
		{stages.Command{}, []string{"verb"}},
		{stages.Command{Verb: stages.Skip, Scope: "World"}, []string{`scope: Unsupported value: "World"`, "name: Required"}},
	} {
		refused(t, w.store, fmt.Sprint(c.command), func() error { return e.Run("r").Command(t.Context(), c.command) }, c.want...)
	}
	refused(t, w.store, "an answer", func() error {
		return e.Run("r").Command(t.Context(), stages.Command{Verb: stages.Decide, ID: "?", Name: "q", Decision: &approval.Decision{}})
	}, "command to run r", "id: Invalid value")
	abort := stages.Command{Verb: stages.Abort, ID: "once"}
	for range 2 {
		if err := e.Run("r").Command(t.Context(), abort); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.keys("command/")); n != 1 {
		t.Errorf("%d commands of one ID", n)
	}
}

// All missing fields of a Config are reported at once, in the order of its fields.
func TestConfigProblemsAreReportedAtOnce(t *testing.T) {
	_, err := fleet.New(fleet.Config{Lease: -1, Skew: -1, CallTimeout: -1, Poll: -1, MaxUpdates: -1})
	if err == nil {
		t.Fatal("an empty Config is accepted")
	}
	text, last := err.Error(), -1
	for _, field := range []string{"Store", "Inventory", "Dialer", "Lease", "Skew", "CallTimeout", "Poll", "MaxUpdates"} {
		at := strings.Index(text, "Config."+field)
		if at <= last {
			t.Errorf("Config.%s is not told in its place: %v", field, err)
		}
		last = at
	}
	if _, err := fleet.New(fleet.Config{Store: memory.NewStore(), Inventory: memory.NewFleet(), Dialer: memory.NewFleet()}); err != nil {
		t.Errorf("the smallest Config: %v", err)
	}
}
