// Command step performs a plan with its own loop, without package fleet: it loads the run from a
// file, steps it, saves it, and then acts. It updates a cluster by a program, which receives the
// names of the cluster and of the version.
//
//	go run ./examples/step run.json v2 echo eu-1 eu-2 eu-3     # eu-1 goes first, the others a minute later
//
// Kill it at any moment and start it again: Step returns an action until its result is known.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/planner"
	"github.com/slipway-dev/slipway/stages/step"
)

func main() {
	if len(os.Args) < 5 {
		log.Fatal("usage: step FILE VERSION PROGRAM CLUSTER...")
	}
	state, err := carryOut(context.Background(), os.Args[1], os.Args[2], os.Args[4:], func(cluster, version string) error {
		out, err := exec.Command(os.Args[3], cluster, version).CombinedOutput()
		fmt.Printf("%s", out)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state)
}

// newPlan returns a plan that brings the first cluster to a version, and the others a minute
// later, two at a time.
func newPlan(version string, clusters []string) (*stages.Plan, error) {
	two := intstr.FromInt32(2)
	strategy := stages.Strategy{Attempts: 3, Stages: []stages.Stage{
		{Name: "first", Clusters: clusters[:1], After: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: time.Minute}}}},
		{Name: "others", Rest: true, MaxConcurrency: &two},
	}}
	var all []placement.Cluster
	for _, name := range clusters {
		all = append(all, placement.Cluster{Name: name})
	}
	return planner.Plan(strategy, stages.Target{Placement: "web", Snapshot: version, Selection: "all", Default: version}, all)
}

// stored is the content of the file. The plan is frozen with the run: flags of a later start
// change nothing.
type stored struct {
	Plan *stages.Plan
	Run  step.Run
}

// load reads the file, or begins a run if the file does not exist.
func load(file, version string, clusters []string) (s stored, err error) {
	text, err := os.ReadFile(file)
	switch {
	case err == nil:
		return s, json.Unmarshal(text, &s)
	case !errors.Is(err, fs.ErrNotExist):
		return s, err
	}
	if s.Plan, err = newPlan(version, clusters); err == nil {
		s.Run = step.NewRun(s.Plan, "web-"+version, version, approval.Identity{Name: "step"}, false, time.Now())
	}
	return s, err
}

// save writes the file beside itself and renames it, so that a crash leaves the old one or the
// new one.
func save(file string, s stored) error {
	text, _ := json.Marshal(s) // a plan and its run always are JSON
	if err := os.WriteFile(file+".next", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".next", file)
}

// carryOut is the loop: step with the new observations, save, act. The results of the actions are
// the observations of the next step.
func carryOut(ctx context.Context, file, version string, clusters []string, update func(cluster, version string) error) (stages.State, error) {
	s, err := load(file, version, clusters)
	if err != nil {
		return "", err
	}
	for in := (stages.Input{Unwatched: true}); !s.Run.IsEnded(); {
		in.Now = time.Now()
		ready := step.Step(s.Plan, s.Run, in)
		if ready.Err != nil { // the run does not belong to the plan
			return "", ready.Err
		}
		in, s.Run = stages.Input{}, ready.Run
		if err := save(file, s); err != nil {
			return "", err
		}
		for _, a := range ready.Actions { // Apply or Observe: this strategy asks for nothing else
			o := stages.Observation{Cluster: a.Cluster, Attempt: a.Attempt, Sent: true}
			if err := update(a.Cluster, a.Revision); err != nil {
				o.Failed, o.Message = true, err.Error()
			} else {
				o.Applied, o.Revision, o.Current, o.Healthy = true, a.Revision, true, true
			}
			in.Observations = append(in.Observations, o)
		}
		if len(ready.Actions) == 0 && !ready.Wake.IsZero() {
			select {
			case <-time.After(time.Until(ready.Wake)):
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
	}
	return s.Run.State, nil
}
