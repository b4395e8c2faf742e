package timeline_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/timeline"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	second = time.Second
	minute = time.Minute
)

// sample is a run that is drawn.
type sample struct {
	strategy stages.Strategy
	clusters []placement.Cluster
	w        simulate.Environment
	lanes    int
	// now is when the picture is made; 0 is after the end.
	now time.Duration
}

func clusters(stage string, names ...string) (out []placement.Cluster) {
	for i, name := range names {
		out = append(out, placement.Cluster{Name: name, Labels: map[string]string{"stage": stage, "group": fmt.Sprint(i % 2)}})
	}
	return out
}

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func number(n int) *intstr.IntOrString { return new(intstr.FromInt32(int32(n))) }

func percent(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }

func decide(at time.Duration, verdict approval.Verdict, stage, by, comment string) simulate.Order {
	return simulate.Order{At: at, Command: stages.Command{Verb: stages.Decide, Decision: &approval.Decision{
		Verdict: verdict, By: approval.Identity{Name: by}, Comment: comment, Binding: approval.Binding{Stage: stage},
	}}}
}

func order(at time.Duration, verb stages.Verb, message string) simulate.Order {
	return simulate.Order{At: at, Command: stages.Command{Verb: verb, By: approval.Identity{Name: "ann"}, Message: message}}
}

// mornings opens the windows of every third cluster from six o'clock on.
type mornings struct{}

func (mornings) Window(pos int, at time.Time) stages.Window {
	six := at.Truncate(24 * time.Hour).Add(6 * time.Hour)
	switch {
	case pos%3 != 1:
		return stages.Window{Open: true}
	case at.Before(six):
		return stages.Window{Limited: true, Until: six, Reason: "outside window mornings"}
	default:
		return stages.Window{Limited: true, Open: true}
	}
}

// canaryAndRest is a strategy of two stages.
func canaryAndRest(edit func(*stages.Strategy)) stages.Strategy {
	s := stages.Strategy{Stages: []stages.Stage{
		{Name: "canary", Selector: labelled("stage", "canary")},
		{Name: "rest", Selector: labelled("stage", "rest"), MaxConcurrency: number(2)},
	}}
	if edit != nil {
		edit(&s)
	}
	return s
}

func fewClusters() []placement.Cluster {
	return append(clusters("canary", "canary-eu", "canary-us"), clusters("rest", "eu-1", "eu-2", "us-1", "us-2", "ap-1")...)
}

func samples() map[string]sample {
	wait := stages.Task{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 10 * minute}}
	two := approval.Policy{Quorums: []approval.Quorum{{Count: 2}}}
	gate := stages.Task{Type: stages.Approval, Approval: &two}
	takes := map[string]simulate.Member{
		"canary-eu": {Take: 4 * minute}, "canary-us": {Take: 5 * minute}, "eu-1": {Take: 3 * minute}, "eu-2": {Take: 6 * minute}, "us-2": {Take: 8 * minute},
	}
	gates := sample{
		strategy: canaryAndRest(func(s *stages.Strategy) {
			s.MinHealthy.Duration = 2 * minute
			s.Stages[0].After = []stages.Task{wait, gate}
			s.Stages[1].Groups = []stages.Group{
				{Name: "odd", Selector: labelled("group", "1"), Before: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 3 * minute}}}},
				{Name: "even", Selector: labelled("group", "0")},
			}
			s.Stages[1].After = []stages.Task{{Type: stages.Approval}}
		}),
		clusters: fewClusters(),
		w: simulate.Environment{Default: simulate.Member{Take: 5 * minute}, Members: takes, Orders: []simulate.Order{
			decide(20*minute, approval.Approve, "canary", "ann", ""), decide(41*minute, approval.Approve, "canary", "bob <bob@example.com>", "error rate is 0.1%"),
			decide(90*minute, approval.Reject, "rest", "carol", "latency in eu-1 & eu-2 is up"),
		}},
	}
	retries := sample{
		strategy: canaryAndRest(func(s *stages.Strategy) {
			s.Attempts, s.Backoff.Duration, s.MaxBackoff.Duration = 3, minute, 10*minute
			s.Stages[1].MaxFailures = number(1)
		}),
		clusters: fewClusters(),
		w: simulate.Environment{Default: simulate.Member{Take: 4 * minute}, Members: map[string]simulate.Member{
			"canary-us": {Take: 3 * minute, Fail: 1}, "eu-2": {Take: 2 * minute, Fail: simulate.Always},
			"us-1": {Take: 4 * minute, Unreachable: []simulate.Interval{{From: 15 * minute, To: 35 * minute}}},
			"ap-1": {Take: 4 * minute, Unhealthy: []simulate.Interval{{From: 20 * minute, To: 45 * minute}}},
		}, Orders: []simulate.Order{order(18*minute, stages.Stop, ""), order(24*minute, stages.Start, "")}},
	}
	had := stages.Previous{Snapshot: "before", Revision: "before"}
	previous := map[string]stages.Previous{}
	for _, c := range fewClusters() {
		previous[c.Name] = had
	}
	many := make([]placement.Cluster, 10_000)
	members := map[string]simulate.Member{}
	for i := range many {
		name := fmt.Sprintf("cluster-%05d", i)
		region := []string{"ap", "eu", "us"}[i%3]
		many[i] = placement.Cluster{Name: name, Labels: map[string]string{"stage": "rest", "region": region}}
		if i%100 == 7 {
			many[i].Labels["stage"] = "canary"
		}
		m := simulate.Member{Take: 2*minute + time.Duration(i*7919%240)*second}
		if i%700 == 3 {
			m.Fail = simulate.Always
		}
		members[name] = m
	}
	regions := []stages.Group{
		{Name: "ap", Selector: labelled("region", "ap"), MaxConcurrency: percent("2%")},
		{Name: "eu", Selector: labelled("region", "eu"), MaxConcurrency: percent("5%"), Before: []stages.Task{{Type: stages.TimedWait, Wait: metav1.Duration{Duration: 2 * time.Hour}}}},
		{Name: "us", Selector: labelled("region", "us"), MaxConcurrency: percent("4%")},
	}
	forecast := gates
	forecast.now = 55 * minute
	forecast.w.Orders = append([]simulate.Order(nil), gates.w.Orders[:2]...)
	forecast.w.Orders = append(forecast.w.Orders, decide(90*minute, approval.Approve, "rest", "carol", ""))
	least := []check.Check{{Name: "errors", Query: "q", Max: new(0.1), InitialDelay: metav1.Duration{Duration: 3 * minute}, Interval: metav1.Duration{Duration: minute}, Count: 3, FailureLimit: 1}}
	value := func(from time.Duration, name, cluster string, v ...float64) simulate.Measure {
		return simulate.Measure{From: from, Check: name, Cluster: cluster, Answer: check.Answer{Values: v}}
	}
	checks := sample{
		strategy: canaryAndRest(func(s *stages.Strategy) {
			s.Attempts, s.MinHealthy.Duration = 1, 2*minute
			s.Stages[0].ClusterChecks = least
			s.Stages[0].After = []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "latency", Query: "q", Max: new(0.5), InitialDelay: metav1.Duration{Duration: 2 * minute}, Interval: metav1.Duration{Duration: minute}, Count: 4}}}}
			s.Stages[1].MaxFailures = number(1)
			s.Stages[1].Checks = []check.Check{{Name: "alerts", Query: "q", Max: new(1.0), Interval: metav1.Duration{Duration: minute}, FailureLimit: 100}}
			s.Stages[1].ClusterChecks = least
			s.Stages[1].After = []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "orders", Query: "q", Min: new(10.0), InitialDelay: metav1.Duration{Duration: 5 * minute}}}}}
		}),
		clusters: fewClusters(),
		w: simulate.Environment{Default: simulate.Member{Take: 5 * minute}, Members: takes, Measures: []simulate.Measure{
			value(0, "errors", "eu-2", 0.7), value(24*minute, "alerts", "", 4), value(40*minute, "alerts", "", 0), value(0, "errors", "", 0.01),
			value(0, "errors", "eu-2", 0.7), value(0, "orders", "", 3),
		}},
	}
	measured := checks
	measured.now = 42 * minute
	return map[string]sample{
		"checks": checks, "measured": measured,
		"plain":    {strategy: canaryAndRest(nil), clusters: fewClusters(), w: simulate.Environment{Default: simulate.Member{Take: 5 * minute}, Members: takes}},
		"gates":    gates,
		"forecast": forecast,
		"retries":  retries,
		"windows": {
			strategy: canaryAndRest(nil), clusters: fewClusters(),
			w: simulate.Environment{
				Start: time.Date(2026, time.March, 2, 3, 12, 0, 0, time.UTC), Default: simulate.Member{Take: 25 * minute}, Members: takes, Calendar: mornings{},
			},
		},
		"rollback": {
			strategy: canaryAndRest(func(s *stages.Strategy) {
				s.Attempts, s.Rollback = 1, &stages.RollbackPolicy{Approval: &approval.Policy{}}
			}),
			clusters: fewClusters(),
			w: simulate.Environment{
				Default: simulate.Member{Take: 4 * minute}, Members: map[string]simulate.Member{"us-2": {Take: 6 * minute, Fail: simulate.Always}},
				Return: simulate.Return{Previous: previous}, Orders: []simulate.Order{decide(40*minute, approval.Approve, "rest", "ann", "")},
			},
		},
		"groups": {
			strategy: stages.Strategy{Attempts: 2, MinHealthy: metav1.Duration{Duration: minute}, Stages: []stages.Stage{
				{Name: "canary", Selector: labelled("stage", "canary"), MaxConcurrency: percent("25%"), MaxFailures: percent("5%"), After: []stages.Task{wait, {Type: stages.Approval}}},
				{Name: "rest", Selector: labelled("stage", "rest"), Groups: regions, MaxFailures: percent("2%")},
			}},
			clusters: many,
			w:        simulate.Environment{Default: simulate.Member{Take: minute}, Members: members, Orders: []simulate.Order{decide(70*minute, approval.Approve, "canary", "ann", "")}},
		},
	}
}

// draw carries a sample out and returns its picture.
func (s sample) draw(t testing.TB) *timeline.Timeline {
	t.Helper()
	p, err := simulate.NewPlan(s.strategy, s.clusters)
	if err != nil {
		t.Fatal(err)
	}
	var events []simulate.Event
	if _, err := simulate.Run(p, s.w, func(e simulate.Event) error {
		events = append(events, e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s.now == 0 {
		return timeline.Simulated(p, events, timeline.Options{Lanes: s.lanes})
	}
	var past []stages.Event
	for len(events) > 0 && events[0].At.Duration <= s.now {
		past = append(past, events[0].Event)
		events = events[1:]
	}
	return timeline.New(p, past, timeline.Options{Now: simulate.DefaultStart().Add(s.now), Expected: events, Lanes: s.lanes})
}

// The pictures of runs equal the stored files; -update rewrites the files.
func TestPictures(t *testing.T) {
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			picture := s.draw(t)
			var svg, text, ascii bytes.Buffer
			for _, err := range []error{
				timeline.SVG(&svg, picture, timeline.SVGOptions{}),
				timeline.Text(&text, picture, timeline.TextOptions{Width: 100}),
				timeline.Text(&ascii, picture, timeline.TextOptions{Width: 80, ASCII: true}),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			golden(t, name+".svg", svg.Bytes())
			golden(t, name+".txt", text.Bytes())
			golden(t, name+".ascii.txt", ascii.Bytes())
			checkSVG(t, svg.Bytes())
			checkLines(t, text.String(), 100)
			checkLines(t, ascii.String(), 80)
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%.2000s", file, diff)
	}
}

// checkSVG checks that a document is well formed, has no more than it may have, and needs nothing
// else.
func checkSVG(t *testing.T, svg []byte) {
	t.Helper()
	if len(svg) > timeline.MaxSVG {
		t.Errorf("the SVG has %d bytes", len(svg))
	}
	d := xml.NewDecoder(bytes.NewReader(svg))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("the SVG is not well formed: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "svg", "title", "style", "defs", "pattern", "rect", "text", "path", "g":
			default:
				t.Fatalf("the SVG has an element %s", e.Name.Local)
			}
		}
	}
}

func checkLines(t *testing.T, text string, width int) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := len([]rune(line)); n > width || strings.ContainsAny(line, "\x1b\r\t") {
			t.Errorf("a line has %d of %d columns: %q", n, width, line)
		}
	}
}
