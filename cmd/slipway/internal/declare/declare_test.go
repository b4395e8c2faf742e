package declare_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/declare"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

const head = "---\napiVersion: placement.kubernetes-fleet.io/v1beta1\nkind: "

// placed is the document of a placement.
func placed(name, more string) string {
	return head + "ClusterResourcePlacement\nmetadata: {name: " + name + "}\nspec: {strategy: {type: External}, resourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}]" + more + "}\n"
}

// changing is the document of an override of all placements, or of one.
func changing(name, priority, of string) string {
	return head + "ClusterResourceOverride\nmetadata: {name: " + name + "}\nspec: {" + of + "priority: " + priority +
		", clusterResourceSelectors: [{group: '', version: v1, kind: Namespace, name: shop}], policy: {overrideRules: [{overrideType: Delete, clusterSelector: {clusterSelectorTerms: []}}]}}\n"
}

const careful = head + "ClusterStagedUpdateStrategy\nmetadata: {name: careful}\nspec: {stages: [{name: all, labelSelector: {}}]}\n"

// running is the document of a run of web by the strategy careful.
func running(state string) string {
	return head + "ClusterStagedUpdateRun\nmetadata: {name: web-1}\nspec: {placementName: web, stagedRolloutStrategyName: careful, state: " + state + "}\n"
}

func read(t *testing.T, text string) kubefleet.Documents {
	t.Helper()
	docs, err := kubefleet.Read(strings.NewReader(text), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return docs
}

// stateOf is a store to which documents were applied; its runs have a state.
func stateOf(t *testing.T, text string, state stages.State, hold bool) declare.State {
	t.Helper()
	docs := read(t, text)
	have := declare.State{Placements: map[string]httpapi.PlacementSummary{}, Strategies: map[string]httpapi.DeclaredStrategy{}, Runs: map[string]fleet.Status{}}
	for _, p := range docs.Placements {
		have.Placements[p.Name] = httpapi.PlacementSummary{Placement: p, Version: "v-" + p.Name}
	}
	for _, s := range docs.Strategies {
		have.Strategies[s.Name] = httpapi.DeclaredStrategy{Strategy: s, Version: "v-" + s.Name}
	}
	for _, r := range docs.Runs {
		have.Runs[r.EngineName()] = fleet.Status{
			Run: step.Run{Placement: r.PlacementName(), State: state, Hold: hold}, Plan: &stages.Plan{Strategy: stages.Strategy{Name: r.StrategyName}},
		}
	}
	return have
}

// lines returns changes in short.
func lines(changes []declare.Change, err error) string {
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, c := range changes {
		line := c.Object() + " " + string(c.Action)
		for _, f := range c.Fields {
			line += fmt.Sprintf(" %s=%s>%s", f.Path, f.Now, f.Then)
		}
		if c.Version != "" && (c.Placement != nil || c.Strategy != nil) {
			line += " of " + c.Version
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestPlan(t *testing.T) {
	all := placed("web", "") + changing("eu", "1", "") + careful + running("Run")
	for _, c := range []struct {
		name, have, docs string
		state            stages.State
		hold             bool
		want             string
	}{
		{name: "nothing is there", docs: all, want: "placement/web created\noverride/eu created\nstrategy/careful created\nrun/web-1 created"},
		{name: "everything is there", have: all, docs: all, want: "placement/web unchanged\noverride/eu unchanged\nstrategy/careful unchanged\nrun/web-1 unchanged"},
		{
			name: "a placement and a strategy change", have: all, docs: placed("web", ", revisionHistoryLimit: 3") + strings.Replace(careful, "name: all", "name: each", 1),
			want: `placement/web configured spec.revisionHistoryLimit=>3 of v-web` + "\n" + `strategy/careful configured spec.stages[0].name="all">"each" of v-careful`,
		},
		{
			name: "an override reaches placements of the store", have: placed("a", "") + placed("b", ""), docs: changing("eu", "1", "") + changing("own", "2", "placement: {name: b}, "),
			want: "placement/a configured overrides.eu=>" + overrideJSON("eu", 1) + " of v-a\nplacement/b configured overrides.eu=>" + overrideJSON("eu", 1) +
				" overrides.own=>" + overrideJSON("own", 2) + " of v-b\noverride/eu created\noverride/own created",
		},
		{
			name: "an override leaves a placement", have: placed("a", "") + placed("b", "") + changing("eu", "1", "placement: {name: a}, "), docs: changing("eu", "1", "placement: {name: b}, "),
			want: "placement/a configured overrides.eu=" + overrideJSON("eu", 1) + "> of v-a\nplacement/b configured overrides.eu=>" + overrideJSON("eu", 1) + " of v-b\noverride/eu configured",
		},
		{name: "an override changes", have: placed("a", "") + changing("eu", "1", ""), docs: changing("eu", "5", ""), want: "placement/a configured overrides.eu.priority=1>5 of v-a\noverride/eu configured"},
		{name: "an override for nothing", docs: changing("eu", "1", ""), want: "f.yaml:2: ClusterResourceOverride/eu: it concerns no placement of the store: a store keeps overrides with their placements, so apply it with its placement or after it"},
		{name: "a run on hold starts", have: all, hold: true, state: stages.NotStarted, docs: running("Run"), want: "run/web-1 started"},
		{name: "a run on hold stays so", have: all, hold: true, state: stages.NotStarted, docs: running("Initialize"), want: "run/web-1 unchanged"},
		{name: "a run stops", have: all, state: stages.Running, docs: running("Stop"), want: "run/web-1 stopped"},
		{name: "a run has ended", have: all, state: stages.Completed, docs: running("Stop"), want: "run/web-1 unchanged"},
		{name: "a stopped run is not started again", have: all, state: stages.Stopped, docs: running("Run"), want: "run/web-1 unchanged"},
		{name: "a run that was stopped while it waited is not started again", have: all, hold: true, state: stages.Stopped, docs: running("Run"), want: "run/web-1 unchanged"},
		{name: "a run on hold that waits starts", have: all, hold: true, state: stages.Pending, docs: running("Run"), want: "run/web-1 started"},
		{
			name: "a run of a strategy that has changed", have: all, docs: strings.Replace(careful, "name: all", "name: each", 1) + running("Run"),
			want: `strategy/careful configured spec.stages[0].name="all">"each" of v-careful` + "\nrun/web-1 unchanged",
		},
		{
			name: "a run without its parts", docs: running("Run"),
			want: "f.yaml:2: ClusterStagedUpdateRun/web-1: spec.placementName: placement web is not declared: apply its document, too\n" +
				"f.yaml:2: ClusterStagedUpdateRun/web-1: spec.stagedRolloutStrategyName: strategy careful is not declared: apply its document, too",
		},
		{name: "an application", docs: "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {name: shop}\n", want: "f.yaml:1: Application/shop: slipway workflow delivers applications; leave the document out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lines(declare.Plan(read(t, c.docs), stateOf(t, c.have, c.state, c.hold)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func overrideJSON(name string, priority int) string {
	return fmt.Sprintf(`{"name":%q,"overrideRules":[{"clusterSelector":{"clusterSelectorTerms":null},"overrideType":"Delete"}],"priority":%d,"resourceSelectors":[{"group":"","kind":"Namespace","name":"shop","version":"v1"}]}`, name, priority)
}

// Whatever was applied is unchanged when it is applied again.
func TestAnAppliedPlanIsUnchanged(t *testing.T) {
	docs := read(t, placed("web", "")+changing("eu", "1", "")+careful)
	have := declare.State{Placements: map[string]httpapi.PlacementSummary{"old": {Placement: fleet.Placement{Name: "old", Selectors: docs.Placements[0].Selectors, RunHistory: 3}}}, Strategies: map[string]httpapi.DeclaredStrategy{}}
	changes, err := declare.Plan(docs, have)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		if c.Placement != nil {
			have.Placements[c.Name] = httpapi.PlacementSummary{Placement: *c.Placement}
		}
		if c.Strategy != nil {
			have.Strategies[c.Name] = httpapi.DeclaredStrategy{Strategy: *c.Strategy}
		}
	}
	if old := have.Placements["old"]; old.RunHistory != 3 || len(old.Overrides) != 1 {
		t.Errorf("%+v", old)
	}
	if got := lines(declare.Plan(docs, have)); strings.Contains(got, "configured") || strings.Contains(got, "created") {
		t.Error(got)
	}
}

func TestDelete(t *testing.T) {
	have := stateOf(t, placed("a", "")+placed("b", "")+changing("eu", "1", "")+careful, "", false)
	other := have.Placements["b"]
	other.Overrides = append(other.Overrides, placement.Override{Name: "other"})
	have.Placements["b"] = other
	docs := read(t, placed("a", "")+changing("eu", "1", "")+changing("none", "1", "")+careful+running("Run"))
	want := "run/web-1 not found\nplacement/a deleted\nplacement/b configured overrides.eu=" + overrideJSON("eu", 1) +
		"> of v-b\noverride/eu deleted\noverride/none not found\nstrategy/careful deleted"
	if diff := cmp.Diff(want, lines(declare.Delete(docs, have, false))); diff != "" {
		t.Error(diff)
	}
}

// A run that is running or stopping refuses the whole deletion.
func TestDeleteOfARunningRun(t *testing.T) {
	text := placed("web", "") + careful + running("Run")
	for _, state := range []stages.State{stages.Running, stages.Stopping} {
		have := stateOf(t, text, state, false)
		want := "f.yaml:12: ClusterStagedUpdateRun/web-1: the run is " + string(state) + ": stop it first, or force its deletion with --force"
		if diff := cmp.Diff(want, lines(declare.Delete(read(t, text), have, false))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff("run/web-1 deleted\nplacement/web deleted\nstrategy/careful deleted", lines(declare.Delete(read(t, text), have, true))); diff != "" {
			t.Error(diff)
		}
	}
}

// A placement whose run is in progress refuses the whole deletion, unless the run is in the
// documents, which refuses itself.
func TestDeleteOfAPlacementWithARunInProgress(t *testing.T) {
	text := placed("web", "") + careful
	have := stateOf(t, text, "", false)
	have.InProgress = map[string]fleet.RunSummary{"web": {Name: "web-7", State: stages.Running, Completed: 1, Clusters: 3}}
	want := "f.yaml:2: ClusterResourcePlacement/web: the placement has run web-7, which is Running, 1 of 3 clusters done: stop it first, or set --force"
	if diff := cmp.Diff(want, lines(declare.Delete(read(t, text), have, false))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("placement/web deleted\nstrategy/careful deleted", lines(declare.Delete(read(t, text), have, true))); diff != "" {
		t.Error(diff)
	}
	have = stateOf(t, text+running("Run"), stages.Running, false)
	have.InProgress = map[string]fleet.RunSummary{"web": {Name: "web-1", State: stages.Running}}
	if got := lines(declare.Delete(read(t, text+running("Run")), have, false)); strings.Count(got, "stop it first") != 1 {
		t.Error(got)
	}
}

// Neither an override of all placements nor its deletion changes a placement that a program owns
// or that is being deleted. An override that names one is a problem.
func TestOverridesLeaveOtherPlacementsAlone(t *testing.T) {
	have := stateOf(t, placed("a", "")+placed("b", "")+placed("c", "")+changing("old", "1", ""), "", false)
	owned := have.Placements["a"]
	owned.Owner = "program"
	deleting := have.Placements["b"]
	deleting.DeletingSince = time.Unix(1, 0)
	have.Placements["a"], have.Placements["b"] = owned, deleting
	docs := read(t, changing("eu", "1", "")+changing("old", "1", ""))
	want := "placement/c configured overrides.eu=>" + overrideJSON("eu", 1) + " of v-c\noverride/eu created\noverride/old unchanged"
	if diff := cmp.Diff(want, lines(declare.Plan(docs, have))); diff != "" {
		t.Error(diff)
	}
	want = "placement/c configured overrides.old=" + overrideJSON("old", 1) + "> of v-c\noverride/eu not found\noverride/old deleted"
	if diff := cmp.Diff(want, lines(declare.Delete(docs, have, false))); diff != "" {
		t.Error(diff)
	}
	for name, why := range map[string]string{"a": `belongs to "program", a program that declares it: change it there`, "b": "is being deleted"} {
		got := lines(declare.Plan(read(t, changing("eu", "1", "placement: {name: "+name+"}, ")), have))
		if want := "f.yaml:2: ClusterResourceOverride/eu: spec.placement: placement " + name + " " + why; !strings.HasPrefix(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A run of a snapshot that is older than the latest one is not created: it may be the file of a run
// that was deleted or forgotten.
func TestAFileCreatesNoRunOfAnOldSnapshot(t *testing.T) {
	have := stateOf(t, placed("web", "")+careful, "", false)
	web := have.Placements["web"]
	web.Latest = &snapshot.Snapshot{Index: 4}
	have.Placements["web"] = web
	for index, want := range map[string]string{
		"4": "run/web-1 created",
		"3": "f.yaml:2: ClusterStagedUpdateRun/web-1: spec.resourceSnapshotIndex: there is no run of this name, and snapshot 3 is older than the latest one, 4: " +
			"if the run has ended and was deleted or forgotten, remove its file; otherwise slipway create run NAME --index 3 rolls an older snapshot out",
	} {
		docs := read(t, strings.Replace(running("Run"), "state", "resourceSnapshotIndex: '"+index+"', state", 1))
		if diff := cmp.Diff(want, lines(declare.Plan(docs, have))); diff != "" {
			t.Error(diff)
		}
	}
}

// A new placement does not get the overrides of all placements that the store has, and its change
// says so.
func TestANewPlacementIsWithoutTheOverridesOfOthers(t *testing.T) {
	have := stateOf(t, placed("a", "")+placed("b", "")+changing("eu", "1", "")+changing("own", "2", "placement: {name: b}, "), "", false)
	for docs, want := range map[string]string{
		placed("new", ""): "without override eu of other placements: apply its file, too, if it is for all",
		placed("new", "") + changing("eu", "1", ""): "",
	} {
		changes, err := declare.Plan(read(t, docs), have)
		if err != nil || changes[0].Object() != "placement/new" || changes[0].Note != want {
			t.Errorf("%+v, %v", changes, err)
		}
	}
}
