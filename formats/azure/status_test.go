package azure_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/upgrade"
	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

var update = flag.Bool("update", false, "write what the statuses are to testdata")

// played is a run that is stepped by hand: members a1 and a2 are in group a, b1 in b,
// c1 in c.
type played struct {
	t      *testing.T
	plan   *stages.Plan
	run    step.Run
	events []stages.Event
	now    time.Time
}

const playedStages = `{"stages": [
	{"name": "first", "maxAllowedFailures": "1", "afterStageWaitInSeconds": 600,
	 "beforeGates": [{"type": "Approval", "displayName": "may we?"}], "afterGates": [{"type": "Approval"}],
	 "groups": [{"name": "a", "maxAllowedFailures": "1"}, {"name": "b", "maxAllowedFailures": "1",
	   "beforeGates": [{"type": "ScheduledStart", "displayName": "at night", "scheduledStartConfiguration": {"startDay": "Monday", "startTime": "02:00", "utcOffset": "+00:00"}}],
	   "afterGates": [{"type": "Approval", "displayName": "b is well"}]}]},
	{"name": "second", "groups": [{"name": "c"}]}]}`

func play(t *testing.T) *played {
	t.Helper()
	s, err := azure.Read(strings.NewReader(playedStages), "stages.json")
	if err != nil {
		t.Fatal(err)
	}
	var members []placement.Cluster
	for _, name := range []string{"a1", "a2", "b1", "c1"} {
		members = append(members, placement.Cluster{Name: name, UID: name, Labels: map[string]string{azure.UpdateGroupLabel: name[:1]}})
	}
	p, err := planner.Plan(s, stages.Target{Placement: "fleet", Snapshot: "s", Selection: "d", Default: "r"}, members)
	if err != nil {
		t.Fatal(err)
	}
	g := &played{t: t, plan: p, now: time.Date(2026, 1, 4, 22, 0, 0, 0, time.UTC)} // a Sunday
	g.run = step.NewRun(p, "run-1", "uid", approval.Identity{Name: "ann"}, true, g.now)
	return g
}

// step lets a minute pass, and then something happen.
func (g *played) step(in stages.Input) *played {
	g.now = g.now.Add(time.Minute)
	in.Now = g.now
	ready := step.Step(g.plan, g.run, in)
	g.run, g.events = ready.Run, append(g.events, ready.Events...)
	return g
}

func (g *played) do(c stages.Command) *played {
	c.ID, c.By = g.now.Format("150405"), approval.Identity{Name: "ann"}
	if err := step.Allowed(g.plan, &g.run, c); err != nil {
		g.t.Fatal(err)
	}
	return g.step(stages.Input{Commands: []stages.Command{c}})
}

func (g *played) start() *played { return g.do(stages.Command{Verb: stages.Start}) }

// approve completes the gates that wait for a user.
func (g *played) approve() *played {
	for _, r := range step.Requests(g.plan, &g.run) {
		d := approval.Decision{Verdict: approval.Approve, By: approval.Identity{Name: "ann"}, At: g.now, Binding: r.Binding}
		g.do(stages.Command{Verb: stages.Decide, Decision: &d})
	}
	return g
}

func (g *played) done(member string) *played {
	return g.step(stages.Input{Observations: []stages.Observation{{
		Cluster: member, Attempt: 1, Sent: true, Applied: true, Revision: "r", Current: true, Healthy: true,
	}}})
}

func (g *played) failed(member string) *played {
	return g.step(stages.Input{Observations: []stages.Observation{{Cluster: member, Attempt: 1, Sent: true, Failed: true, Message: "no quota"}}})
}

func (g *played) status() azure.UpdateRun {
	u := azure.NewUpdateRun(azure.Record{
		Run: &g.run, Plan: g.plan, Events: g.events, StrategyID: "strategies/s1",
		Target:      upgrade.Target{Type: upgrade.NodeImageOnly, NodeImages: upgrade.NodeImages{Selection: upgrade.Consistent, Versions: []string{"image-7"}}},
		ResourceIDs: map[string]string{"a1": "/aks/a1"},
	})
	return u
}

// TestTheStatusOfARun compares the status in many situations with a reviewed file.
func TestTheStatusOfARun(t *testing.T) {
	for name, how := range map[string]func(*played) *played{
		"not-started": func(g *played) *played { return g },
		"gate":        func(g *played) *played { return g.start() },
		"running":     func(g *played) *played { return g.start().approve().failed("a1") },
		"pending": func(g *played) *played {
			g.start().approve().done("a1")
			return g.step(stages.Input{Observations: []stages.Observation{{Cluster: "a2", Attempt: 1, Unreachable: true, Message: "the region is not available"}}})
		},
		"waiting": func(g *played) *played {
			g.start().approve().done("a1").done("a2").do(stages.Command{Verb: stages.CompleteGate, Name: "b"})
			return g.done("b1").approve()
		},
		"failed": func(g *played) *played { return g.start().approve().failed("a1").failed("a2") },
		"stopping": func(g *played) *played {
			return g.start().approve().done("a1").do(stages.Command{Verb: stages.Stop})
		},
		"stopped": func(g *played) *played {
			return g.start().approve().done("a1").do(stages.Command{Verb: stages.Stop}).done("a2")
		},
		"skipped": func(g *played) *played {
			g.do(stages.Command{Verb: stages.Skip, Scope: stages.SkipStage, Name: "first"})
			return g.do(stages.Command{Verb: stages.Skip, Scope: stages.SkipCluster, Name: "c1"}).start()
		},
		"completed": func(g *played) *played {
			g.do(stages.Command{Verb: stages.Skip, Scope: stages.SkipStage, Name: "first"})
			return g.start().done("c1")
		},
		"aborted": func(g *played) *played { return g.start().approve().do(stages.Command{Verb: stages.Abort}) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := json.MarshalIndent(how(play(t)).status().Status, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "status", name+".json"), string(got)+"\n")
		})
	}
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestStatusShowsStrategyAndUpdate(t *testing.T) {
	u := play(t).status()
	if u.Name != "run-1" || u.UpdateStrategyID == nil || *u.UpdateStrategyID != "strategies/s1" || len(u.Strategy.Stages) != 2 {
		t.Errorf("%+v", u)
	}
	want := azure.Update{Upgrade: azure.Upgrade{Type: "NodeImageOnly"}, NodeImages: &azure.NodeImageSelection{Type: "Consistent"}}
	if diff := cmp.Diff(want, u.Update); diff != "" {
		t.Errorf("managedClusterUpdate (-want +got):\n%s", diff)
	}
	g := play(t)
	one := azure.OneByOne()
	p, err := planner.Plan(one, stages.Target{Placement: "fleet", Snapshot: "s", Selection: "d", Default: "r"}, []placement.Cluster{{Name: "a1"}})
	if err != nil {
		t.Fatal(err)
	}
	g.plan, g.run = p, step.NewRun(p, "run-2", "uid", approval.Identity{}, true, g.now)
	if u := g.status(); u.Strategy != nil || u.Status.Stages[0].Groups[0].Members[0].Name != "a1" {
		t.Errorf("one by one: %+v", u)
	}
}

// TestTheStatusDoesNotChangeTheRun: it is a function of its arguments.
func TestTheStatusDoesNotChangeTheRun(t *testing.T) {
	g := play(t).start().approve().failed("a1")
	before, err := json.Marshal(g.run)
	if err != nil {
		t.Fatal(err)
	}
	first, second := g.status(), g.status()
	after, err := json.Marshal(g.run)
	if diff := cmp.Diff(string(before), string(after)); diff != "" || err != nil {
		t.Errorf("%v, the run (-before +after):\n%s", err, diff)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the status of the same (-first +second):\n%s", diff)
	}
}
