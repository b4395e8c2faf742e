package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
)

// everyth is the distance between the writes at which the process crashes. With the
// race detector, which makes it ten times as slow, it is larger.
func everyth() int {
	if underRace {
		return 12
	}
	return 3
}

// A process that crashes at any write, of the hub, of a member or of the engine, is followed by one that
// goes on: in the end the same runs were made, each once, and the members have the same.
func TestAWalkGoesOnAfterACrashAtAnyWrite(t *testing.T) {
	text, err := readTutorial("walk.txt")
	if err != nil {
		t.Fatal(err)
	}
	script, _, _ := strings.Cut(string(text), "# What an application delivered goes with it")
	steps := readSteps(script)
	want, crashed := walkThrough(t, steps, faulty.NewPlan())
	if crashed {
		t.Fatal("it crashed without a fault")
	}
	for n := 1; ; n += everyth() {
		got, crashed := walkThrough(t, steps, faulty.NewPlan(faulty.CrashAfter(n)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after a crash at write %d (-want +got):\n%s", n, diff)
		}
		if !crashed {
			break
		}
	}
}

// walkThrough walks in a process that suffers what the plan says, and if it crashes in another one.
func walkThrough(t *testing.T, steps []step, plan *faulty.Plan) (state string, crashed bool) {
	t.Helper()
	kept := stores{memory.NewStore(), memory.NewStore(), memory.NewStore()}
	err := walkIn(t.Context(), stores{plan.Store(kept.engine), plan.Store(kept.hub), plan.Store(kept.members)}, steps)
	if plan.Crashed() {
		err = walkIn(t.Context(), kept, steps)
	}
	if err != nil {
		t.Fatalf("after %d writes: %v\n%s", plan.Writes(), err, stateOf(t, kept))
	}
	return stateOf(t, kept), plan.Crashed()
}

func walkIn(ctx context.Context, kept stores, steps []step) error {
	d, err := newDirectory(ctx, kept)
	if err != nil {
		return err
	}
	w := walker{directory: d, line: line{wait: time.Minute, output: "text"}, std: stdio{strings.NewReader(""), io.Discard, io.Discard}}
	return errors.Join(w.walk(ctx, steps), d.close())
}

// stateOf says which runs there were and what everybody has.
func stateOf(t *testing.T, kept stores) string {
	t.Helper()
	d, err := newDirectory(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	names, err := d.engine.Placements(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		runs, err := d.engine.Runs(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range runs {
			st, err := d.engine.Status(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString(run + " " + string(st.Run.State) + "\n")
		}
	}
	for _, cluster := range []string{testCluster, prodCluster} {
		obj, err := d.members.Cluster(cluster).Get(deployments.id("demo", "demo"))
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(cluster + " " + deployments.wide[1].cell(obj) + "\n")
	}
	app, err := d.hub.cluster.Get(applications.id("demo", "demo"))
	if err != nil {
		t.Fatal(err)
	}
	b.WriteString("phase " + applications.columns[2].cell(app) + "\n")
	return b.String()
}
