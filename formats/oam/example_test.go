package oam_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/oam"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// documents reads files of the tutorial, as kubectl apply -f does one after the
// other.
func documents(files ...string) (docs oam.Documents, err error) {
	for _, name := range files {
		f, err := os.Open("testdata/seed/" + name)
		if err != nil {
			return docs, err
		}
		got, err := oam.Read(f, name)
		if err := errors.Join(err, f.Close()); err != nil {
			return docs, err
		}
		docs.Applications = append(docs.Applications, got.Applications...)
		docs.Policies = append(docs.Policies, got.Policies...)
		docs.Workflows = append(docs.Workflows, got.Workflows...)
		docs.Objects = append(docs.Objects, got.Objects...)
	}
	return docs, nil
}

// A release is the result of publishing an application: a placement, and a run with a stage for
// each step of its workflow.
func ExamplePublish() {
	docs, err := documents("policy-topology.yaml", "workflow.yaml", "app.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	clusters := []placement.Cluster{{Name: "clusterid1"}, {Name: "clusterid2"}}
	rel, err := oam.Publish(docs, docs.Applications[0], clusters, oam.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rel.Run.Name, "of", rel.Placement.Name)
	for _, s := range rel.Run.Strategy.Stages {
		fmt.Println(s.Name, s.Clusters, len(s.Before))
	}
	fmt.Println(rel.IsDue(""), rel.IsDue("version1"))
	// Output:
	// a.demo.demo.version1 of a.demo.demo
	// deploy-test [clusterid1] 0
	// deploy-prod [clusterid2] 1
	// true false
}

// The seed's application on an engine: production has no objects before a user resumes the
// workflow. The operation contains the commands for the engine.
func ExampleRecord_Resume() {
	if err := tutorial(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// workflowSuspending
	// deploy-test succeeded
	// deploy-prod suspending: Waiting approval to the deploy step "deploy-prod"
	// on clusterid2: false
	// Successfully resume workflow: demo
	// running
	// deploy-test succeeded
	// deploy-prod succeeded
	// on clusterid2: true
}

func tutorial(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	docs, err := documents("app-meta.yaml", "policy-topology.yaml", "workflow.yaml", "app.yaml")
	if err != nil {
		return err
	}
	members := memory.NewFleet()
	var clusters []placement.Cluster
	for _, name := range []string{"clusterid1", "clusterid2"} {
		clusters = append(clusters, placement.Cluster{Name: name})
		members.Add(clusters[len(clusters)-1])
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "demo"},
	}}
	engine, err := fleet.New(fleet.Config{
		Store: memory.NewStore(), Inventory: members, Dialer: members, Source: memory.NewSource(append(docs.Objects, namespace)...),
		Prober: health.ProberFunc(func(context.Context, *unstructured.Unstructured) (health.Status, error) {
			return health.Status{Healthy: true}, nil // nothing runs Deployments here
		}),
	})
	if err != nil {
		return err
	}
	go func() { _ = engine.Start(ctx) }()

	rel, err := oam.Publish(docs, docs.Applications[0], clusters, oam.Options{})
	if err != nil {
		return err
	}
	if err := engine.PutPlacement(ctx, rel.Placement); err != nil {
		return err
	}
	if _, err := engine.CreateRun(ctx, rel.Run); err != nil {
		return err
	}
	rec, err := show(ctx, engine, members, &rel, oam.WorkflowSuspending)
	if err != nil {
		return err
	}
	op, err := rec.Resume("", approval.Identity{Name: "ann"})
	if err != nil {
		return err
	}
	for _, c := range op.Commands {
		if err := engine.Run(rec.Run.Name).Command(ctx, c); err != nil {
			return err
		}
	}
	fmt.Println(op.Message)
	_, err = show(ctx, engine, members, &rel, oam.ApplicationRunning)
	return err
}

// show waits for a phase and prints the visible state.
func show(ctx context.Context, engine *fleet.Engine, members *memory.Fleet, rel *oam.Release, phase string) (oam.Record, error) {
	events, err := engine.Placement(rel.Placement.Name).Follow("")
	if err != nil {
		return oam.Record{}, err
	}
	for _, err := range events.Events(ctx) {
		if err != nil {
			return oam.Record{}, err
		}
		st, err := engine.Run(rel.Run.Name).Status(ctx)
		if err != nil {
			return oam.Record{}, err
		}
		rec := oam.Record{Release: rel, Run: &st.Run, Plan: st.Plan}
		if status := oam.NewStatus(rec); status.Phase == phase {
			fmt.Println(status.Phase)
			for _, s := range status.Workflow.Steps {
				line := s.Name + " " + s.Phase
				if s.Message != "" {
					line += ": " + s.Message
				}
				fmt.Println(line)
			}
			_, err := members.Cluster("clusterid2").Get(snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "demo", Name: "demo"})
			fmt.Println("on clusterid2:", err == nil)
			return rec, nil
		}
	}
	return oam.Record{}, ctx.Err()
}
