package main

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend/faulty"
	"github.com/slipway-dev/slipway/backend/memory"
)

// A problem that an application has already keeps its time, so that its status is not written again and again;
// another one begins now.
func TestAProblemKeepsItsTime(t *testing.T) {
	app := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Parsed", "status": "False", "message": "no workflow", "lastTransitionTime": "2026-01-02T03:04:05Z"},
	}}}}
	now := metav1.NewTime(time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC))
	for message, want := range map[string]string{"no workflow": "2026-01-02T03:04:05Z", "no policy": "2026-01-02T04:00:00Z"} {
		conditions := []metav1.Condition{{Type: "Parsed", Status: metav1.ConditionFalse, Message: message, LastTransitionTime: now}}
		keepTimes(app, conditions)
		if got := conditions[0].LastTransitionTime.UTC().Format(time.RFC3339); got != want {
			t.Errorf("%s: %s, want %s", message, got, want)
		}
	}
}

// A store that fails says nothing about an application: it is no problem of it, and its status stays.
func TestAStoreThatFailsIsNoProblemOfAnApplication(t *testing.T) {
	kept := stores{memory.NewStore(), memory.NewStore(), memory.NewStore()}
	script, err := readTutorial("walk.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := walkIn(t.Context(), kept, readSteps(string(script))[:7]); err != nil {
		t.Fatal(err)
	}
	down := errors.New("the disk is gone")
	fails := faulty.NewPlan(func(faulty.Call) faulty.Fault { return faulty.Before(down) })
	d, err := newDirectory(t.Context(), kept)
	if err != nil {
		t.Fatal(err)
	}
	before := phaseOf(t, d)
	for name, spoil := range map[string]func() context.Context{
		"a store that fails": func() context.Context {
			d.records = fails.Store(kept.engine)
			return t.Context()
		},
		"a context that ends": func() context.Context {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx
		},
	} {
		ctx := spoil()
		d.tell = func(app string, problem error) {
			if problem != nil {
				t.Errorf("%s: %s has a problem: %v", name, app, problem)
			}
		}
		_, _ = d.reconcile(ctx) // it may fail or not
		if after := phaseOf(t, d); after != before || before != "workflowSuspending" {
			t.Errorf("%s: the phase was %q and is %q", name, before, after)
		}
		d.records = kept.engine
	}
}

func phaseOf(t *testing.T, d *directory) string {
	t.Helper()
	app, err := d.hub.cluster.Get(applications.id("demo", "demo"))
	if err != nil {
		t.Fatal(err)
	}
	return field("", "status", "status").cell(app)
}
