package main

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/internal/soak/environment"
)

// ending is the result that must not depend on the number of kills.
type ending struct {
	// Members are the objects of each cluster with their generations, and the contents of its
	// ledger. A repeated change is visible in the generation.
	Members map[string][]string
	Runs    map[string][]string
	// Approvals are the decisions with their authors, gates and plans.
	Approvals []string
	Snapshots []string
	// Audit contains the number of changes for each object and run.
	Audit map[string]int
}

// endingOf reads the result of an environment, and checks all of it.
func endingOf(ctx context.Context, env *environment.Environment, placed string, runs ...string) (end ending, err error) {
	end = ending{Members: map[string][]string{}, Runs: map[string][]string{}, Audit: map[string]int{}}
	for c, err := range env.Members.Clusters(ctx) {
		if err != nil {
			return end, err
		}
		for _, obj := range env.Members.Cluster(c.Name).List("") {
			text, err := contentOf(ctx, env, c.Name, placed, obj)
			if err != nil {
				return end, err
			}
			end.Members[c.Name] = append(end.Members[c.Name], text)
		}
	}
	for _, run := range runs {
		if err := addRun(ctx, env, &end, run); err != nil {
			return end, err
		}
	}
	view, err := env.Observer.Placement(placed).View(ctx)
	if err != nil {
		return end, err
	}
	for _, s := range view.Snapshots() {
		end.Snapshots = append(end.Snapshots, fmt.Sprint(s.Index, " ", s.Digest))
	}
	audits, err := env.Audits(ctx)
	for _, a := range audits {
		end.Audit[fmt.Sprintf("%s on %s for run %s", a.Object, a.Cluster, a.Run)]++
	}
	return end, err
}

func addRun(ctx context.Context, env *environment.Environment, end *ending, run string) error {
	s, err := env.Observer.Run(run).Status(ctx)
	if err != nil {
		return err
	}
	lines := []string{fmt.Sprint(s.Run.State, " ", s.Run.Reason, " attempt ", s.Run.Attempt, " plan ", s.Plan.Digest)}
	for pos, state := range s.Run.States(s.Plan) {
		lines = append(lines, fmt.Sprint(s.Plan.Clusters[pos].Name, " ", state))
	}
	for i := range s.Run.Form(runstate.Key{}).Stages {
		for _, g := range s.Run.Form(runstate.Key{}).Stages[i].Gates {
			lines = append(lines, fmt.Sprint(s.Plan.Stages[i].Name, " ", g.When, " ", g.Type, " ", g.State, " ", g.Attempt))
			for _, d := range g.Decisions {
				end.Approvals = append(end.Approvals, fmt.Sprint(run, " ", d.Binding.Stage, " ", d.Verdict, " by ", d.By.Name, ", ", d.Comment, ", for ", d.Binding.Plan))
			}
		}
	}
	end.Runs[run] = lines
	return nil
}

// contentOf returns the part of an object that does not depend on the number of takeovers.
func contentOf(ctx context.Context, env *environment.Environment, cluster, placed string, obj *unstructured.Unstructured) (string, error) {
	if obj.GetNamespace() == environment.LedgerNamespace {
		l, err := env.OpenLedger(ctx, placed, environment.LedgerOf(env.Members.Cluster(cluster), placed))
		return fmt.Sprint("ledger of run ", l.Run, " attempt ", l.Attempt, " ", l.Phase, " ", l.Revision, l.Target), err
	}
	marks := obj.GetAnnotations()
	maps.DeleteFunc(marks, func(k, _ string) bool { return strings.HasPrefix(k, "epoch.slipway.dev/") })
	return fmt.Sprint(obj.GetKind(), " ", obj.GetNamespace(), "/", obj.GetName(), " ", obj.Object["spec"], " ", marks, " generation ", obj.GetGeneration()), nil
}
