package fleet_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
)

var updateSelections = flag.Bool("update-selections", false, "rewrite the expected output of the scripts of selections")

// The scripts of selections: a line without indentation is a directive, and the indented lines
// after it are its output. Run it with -update-selections to write the output again, and review the
// difference.
func TestSelectionScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/selections/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got string
			synctest.Test(t, func(t *testing.T) { got = playSelections(t, string(text)) })
			if *updateSelections {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if d := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("%s (-want +got):\n%s", file, d)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// playSelections returns a script with its actual output.
func playSelections(t *testing.T, text string) string {
	w := &engineEnv{t: t, store: memory.NewStore(), fleet: memory.NewFleet()}
	w.source = memory.NewSource(namespace("test-namespace"), configMap("test-cm", "value"))
	s := &selectionScript{engineEnv: w, t: t}
	s.restart()
	defer func() { s.stop() }()
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			s.out.Reset()
			if err := s.do(words[0], words[1:]); err != nil {
				s.say("error: %v", err)
			}
			out.WriteString(s.out.String())
		}
	}
	return out.String()
}

type selectionScript struct {
	*engineEnv
	t    *testing.T
	e    *fleet.Engine
	stop func()
	out  strings.Builder
	last placement.Selection
}

func (s *selectionScript) say(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		s.out.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
	}
}

// restart continues with a new engine on the same store.
func (s *selectionScript) restart() {
	if s.stop != nil {
		s.stop()
	}
	s.e = s.engine(s.store, "engine")
	s.stop = running(s.t, s.e)
}

func (s *selectionScript) do(directive string, args []string) error {
	ctx := s.t.Context()
	switch directive {
	case "restart":
		s.restart()
		return nil
	case "cluster":
		s.report(args[0], args[1:])
		return nil
	case "remove":
		s.fleet.Remove(args[0])
		return nil
	case "policy":
		p := web()
		p.Policy = policyOf(args)
		return s.e.PutPlacement(ctx, p)
	case "resolve":
		r, err := s.e.Placement("web").Resolve(ctx)
		return s.tell(&r, err)
	case "preview":
		var policy *placement.Policy
		if len(args) > 0 {
			policy = new(policyOf(args))
		}
		r, err := s.e.Placement("web").PreviewResolve(ctx, policy)
		return s.tell(&r, err)
	case "run", "begin", "hold":
		return s.run(directive, args[0])
	case "catchup":
		_, err := s.e.Run(args[0]).CatchUp(ctx, args[1], approval.Identity{})
		return s.came(args[1], err)
	case "start":
		return s.came(args[0], s.e.Run(args[0]).Command(ctx, stages.Command{Verb: stages.Start}))
	case "hang", "unhang":
		s.fleet.Hang(args[0], directive == "hang")
		return nil
	case "members":
		for c := range s.fleet.Clusters(ctx) {
			if len(s.fleet.Cluster(c.Name).List("test-namespace")) > 0 {
				s.say("%s", c.Name)
			}
		}
		return nil
	}
	return fmt.Errorf("there is no directive %q", directive)
}

// report adds a cluster, or changes its entry in the inventory.
func (s *selectionScript) report(name string, words []string) {
	if s.fleet.Cluster(name) == nil {
		s.fleet.Add(placement.Cluster{Name: name})
	}
	s.fleet.Report(name, func(c *placement.Cluster) {
		if c.Labels == nil {
			c.Labels, c.Properties = map[string]string{}, map[string]resource.Quantity{}
		}
		for _, w := range words {
			key, value, _ := strings.Cut(w, "=")
			switch key {
			case "sick":
				c.Unhealthy = "no heartbeat"
			case "well":
				c.Unhealthy = ""
			case "leaving":
				c.Leaving = true
			case "taint":
				c.Taints = []placement.Taint{{Key: value, Effect: placement.NoSchedule}}
			case "nodes":
				c.Properties["nodes"] = resource.MustParse(value)
			default:
				c.Labels[key] = value
			}
		}
	})
}

// policyOf parses "n=2 spread=region prefer=nodes require=env:x atleast=nodes:3".
func policyOf(words []string) (p placement.Policy) {
	for _, w := range words {
		key, value, _ := strings.Cut(w, "=")
		name, wanted, _ := strings.Cut(value, ":")
		switch key {
		case "n":
			n, _ := strconv.Atoi(value)
			p.Type, p.NumberOfClusters = placement.PickN, &n
		case "fixed":
			p.Type, p.ClusterNames = placement.PickFixed, strings.Split(value, ",")
		case "spread":
			p.Spread = append(p.Spread, placement.SpreadConstraint{TopologyKey: value})
		case "prefer":
			p.Preferred = append(p.Preferred, placement.Preference{Weight: 100, Sorter: &placement.PropertySorter{Name: value, Order: placement.Descending}})
		case "require":
			p.Required = append(p.Required, placement.Term{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{name: wanted}}})
		case "atleast":
			p.Required = append(p.Required, placement.Term{Properties: []placement.PropertyRequirement{{Name: name, Operator: placement.Ge, Value: resource.MustParse(wanted)}}})
		case "tolerate":
			p.Tolerations = append(p.Tolerations, placement.Toleration{Key: value, Operator: placement.Exists})
		}
	}
	return p
}

func (s *selectionScript) tell(r *fleet.Resolution, err error) error {
	if err != nil {
		return err
	}
	s.decided(r.Selection)
	for _, v := range r.Evaluations {
		s.say("  %s %s: %s", v.Cluster, map[bool]string{true: "picked", false: "not picked"}[v.Picked], v.Reason)
	}
	if r.Shortfall != "" {
		s.say("warning: %s", r.Shortfall)
	}
	return nil
}

// decided prints a selection, and whether it differs from the last one.
func (s *selectionScript) decided(d placement.Selection) {
	same := "another selection"
	if d.Digest == s.last.Digest {
		same = "the same selection"
	}
	s.say("%s, index %d: %s", same, d.Index, strings.Join(d.Clusters, " "))
	s.last = d
}

// run creates a run over its clusters, one after the other. It waits for the end of the run, unless
// the run must only begin or be held.
func (s *selectionScript) run(directive, name string) error {
	if _, err := s.e.Placement("web").Capture(s.t.Context()); err != nil {
		return err
	}
	_, err := s.e.CreateRun(s.t.Context(), fleet.RunSpec{
		Name: name, Placement: "web", Hold: directive == "hold",
		Strategy: stages.Strategy{Name: "all", Stages: []stages.Stage{{Name: "all", Selector: &metav1.LabelSelector{}}}},
	})
	if directive != "run" && err == nil {
		quiet()
		return s.planned(name)
	}
	return s.came(name, err)
}

// came prints the result of a run after it has ended.
func (s *selectionScript) came(name string, err error) error {
	if err == nil {
		_, err = s.e.Run(name).Wait(s.t.Context())
	}
	if err != nil {
		return err
	}
	return s.planned(name)
}

// planned prints the plan of a run and its state.
func (s *selectionScript) planned(name string) error {
	now, err := s.e.Run(name).Status(s.t.Context())
	if err != nil {
		return err
	}
	s.say("%s, selection %d", now.Run.State, now.Selection)
	var lines []string
	for pos, state := range now.Run.States(now.Plan) {
		stage, _ := now.Plan.StageOf(pos)
		lines = append(lines, fmt.Sprintf("  %s %s %s", now.Plan.Stages[stage].Name, now.Plan.Clusters[pos].Name, state))
	}
	slices.Sort(lines)
	s.say("%s", strings.Join(lines, "\n"))
	for _, warning := range now.Plan.Warnings {
		s.say("warning: %s", warning)
	}
	return nil
}
