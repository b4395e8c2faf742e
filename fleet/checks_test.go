package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/runstate"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/step"
)

// dial is a provider with configurable answers that counts its queries.
type dial struct {
	mu sync.Mutex
	// value is the answer for every cluster that is not in own.
	value float64
	own   map[string]float64
	fault func(context.Context) error
	asked []backend.MetricQuery
	// now is the number of concurrent requests, most its maximum.
	now, most int
	// takes is the duration of a query.
	takes time.Duration
}

func (d *dial) set(value float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value = value
}

func (d *dial) queries() (out []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.asked {
		out = append(out, q.Text)
	}
	return out
}

func (d *dial) Measure(ctx context.Context, q backend.MetricQuery) ([]backend.Sample, error) {
	d.mu.Lock()
	d.asked = append(d.asked, q)
	d.now++
	d.most = max(d.most, d.now)
	value, own, fault := d.value, maps.Clone(d.own), d.fault
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.now--
		d.mu.Unlock()
	}()
	time.Sleep(d.takes)
	if fault != nil {
		return nil, fault(ctx)
	}
	if !strings.Contains(q.Text, "by (cluster)") {
		return []backend.Sample{{Value: value}}, nil
	}
	var out []backend.Sample
	for i := range 2000 {
		name := fmt.Sprint("member", i)
		v, ok := own[name]
		if !ok {
			v = value
		}
		out = append(out, backend.Sample{Labels: map[string]string{"cluster": name}, Value: v})
	}
	return out, nil
}

// measuring declares the placement on an engine with the provider, and takes its snapshot 0.
func measuring(t *testing.T, d *dial) (*engineEnv, *fleet.Engine) {
	t.Helper()
	w := newEngineEnv(t)
	e := w.newEngine(fleet.Config{Name: "one", Metrics: map[string]backend.MetricProvider{"prom": d}})
	if err := e.PutPlacement(t.Context(), tutorialPlacement()); err != nil {
		t.Fatal(err)
	}
	w.capture(e, "v0")
	return w, e
}

// checked is a run of one stage.
func checked(name string, change func(*stages.Stage)) fleet.RunSpec {
	spec := specOf(name, 0)
	st := stages.Stage{Name: "all", Selector: &metav1.LabelSelector{}}
	change(&st)
	spec.Strategy = stages.Strategy{Stages: []stages.Stage{st}}
	return spec
}

// eventsOf are the events of a type in a run.
func (w *engineEnv) eventsOf(run string, of stages.EventType) (out []stages.Event) {
	w.t.Helper()
	for _, event := range w.past(1000) {
		if event.Run == run && event.Type == of {
			out = append(out, event)
		}
	}
	return out
}

// If a query returns a number for each cluster, one request measures all clusters that are due, and
// the journal has the query.
func TestClustersAreMeasuredByOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dial{own: map[string]float64{"member2": 0.5}}
		w, e := measuring(t, d)
		defer running(t, e)()
		spec := checked("r", func(st *stages.Stage) {
			st.MaxConcurrency = percent("100%")
			st.MaxFailures = percent("50%")
			st.ClusterChecks = []check.Check{{
				Name: "errors", Query: `max by (cluster) (errors[{{window}}])`, ClusterLabel: "cluster", Max: new(0.1), InitialDelay: metav1.Duration{Duration: 30 * time.Second},
			}}
		})
		must(e.CreateRun(t.Context(), spec))(t)
		s := endOf(t, e, "r")
		if s.Run.State != stages.Completed || len(s.Run.Form(runstate.Key{}).Unsuccessful) != 1 {
			t.Fatalf("the run is %s (%s), and %v have failed", s.Run.State, s.Run.Reason, s.Run.Form(runstate.Key{}).Unsuccessful)
		}
		if got := d.queries(); len(got) != 1 || got[0] != "max by (cluster) (errors[20s])" {
			t.Errorf("asked %q", got)
		}
		ended := w.eventsOf("r", stages.CheckEnded)
		if len(ended) != 3 {
			t.Fatalf("ended %v", ended)
		}
		for _, event := range ended {
			if event.Query != "max by (cluster) (errors[20s])" || event.Check != "errors" || event.Value == "" {
				t.Errorf("%+v", event)
			}
			if (event.Cluster == "member2") != (event.Result == string(check.Failed)) {
				t.Errorf("%s is %s", event.Cluster, event.Result)
			}
		}
	})
}

// A query that names the cluster is sent for each cluster, with its labels from the inventory, and
// at most 16 are sent at a time.
func TestMeasurementsAtATimeAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dial{takes: time.Second}
		w, e := measuring(t, d)
		for i := range 97 {
			w.fleet.Add(placement.Cluster{Name: fmt.Sprint("member", 100+i), Labels: map[string]string{"region": fmt.Sprint("r", i)}})
		}
		defer running(t, e)()
		spec := checked("r", func(st *stages.Stage) {
			st.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "region", Operator: metav1.LabelSelectorOpExists}}}
			st.MaxConcurrency = percent("100%")
			st.ClusterChecks = []check.Check{{Name: "errors", Query: `errors{cluster="{{cluster}}",region="{{labels.region}}"}`, Max: new(0.1)}}
		})
		spec.Strategy.Unassigned = stages.UnassignedExclude
		must(e.CreateRun(t.Context(), spec))(t)
		if s := endOf(t, e, "r"); s.Run.State != stages.Completed {
			t.Fatalf("the run is %s (%s)", s.Run.State, s.Run.Reason)
		}
		got := d.queries()
		slices.Sort(got)
		if len(got) != 97 || got[0] != `errors{cluster="member100",region="r0"}` {
			t.Errorf("%d queries, the first %s", len(got), got[0])
		}
		if d.most > 16 || d.most < 10 {
			t.Errorf("%d requests at the same time", d.most)
		}
	})
}

// A provider that hangs, panics or is unknown ends the run with a reason, and does not block it
// forever.
func TestAProviderThatDoesNotAnswerIsAnError(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{
		"deadline": func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"refused":  func(context.Context) error { return errors.New("connection refused") },
		"panic":    func(context.Context) error { panic("no data") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &dial{fault: fault}
				_, e := measuring(t, d)
				defer running(t, e)()
				must(e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
					st.After = []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "errors", Query: "errors", Max: new(1.0), ConsecutiveErrorLimit: new(int)}}}}
				})))(t)
				s := endOf(t, e, "r")
				if s.Run.State != stages.Failed || !strings.HasPrefix(s.Run.Reason, "check errors is Error: ") {
					t.Errorf("the run is %s: %s", s.Run.State, s.Run.Reason)
				}
			})
		})
	}
}

// The measurements of one run do not count for the next.
func TestARunDoesNotUseTheMeasurementsOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dial{}
		_, e := measuring(t, d)
		defer running(t, e)()
		spec := func(name string) fleet.RunSpec {
			return checked(name, func(st *stages.Stage) {
				st.Before = []stages.Task{{Type: stages.CheckTask, Checks: []check.Check{{Name: "errors", Query: "errors", Max: new(1.0)}}}}
			})
		}
		must(e.CreateRun(t.Context(), spec("first")))(t)
		if s := endOf(t, e, "first"); s.Run.State != stages.Completed {
			t.Fatalf("the first is %s (%s)", s.Run.State, s.Run.Reason)
		}
		d.set(2)
		must(e.CreateRun(t.Context(), spec("second")))(t)
		if s := endOf(t, e, "second"); s.Run.State != stages.Failed {
			t.Errorf("the second is %s", s.Run.State)
		}
	})
}

// Starts stop at most the interval and a second after the sample that breaks a threshold.
func TestABadMeasurementStopsStartsWithinItsInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dial{}
		w, e := measuring(t, d)
		for i := range 200 {
			w.fleet.Add(placement.Cluster{Name: fmt.Sprint("z", 1000+i)})
		}
		defer running(t, e)()
		spec := checked("r", func(st *stages.Stage) {
			st.Checks = []check.Check{{Name: "errors", Query: "errors", Max: new(1.0), Interval: metav1.Duration{Duration: 10 * time.Second}, FailureLimit: 100}}
		})
		spec.Strategy.MinHealthy.Duration = time.Second // a cluster a second
		must(e.CreateRun(t.Context(), spec))(t)
		time.Sleep(33*time.Second + 500*time.Millisecond)
		bad := time.Now()
		d.set(2)
		time.Sleep(time.Minute)
		d.set(0)
		good := time.Now()
		time.Sleep(15 * time.Second)
		before, between, after := 0, 0, 0
		for _, event := range w.eventsOf("r", stages.ClusterStarted) {
			switch {
			case event.Time.Before(bad.Add(11 * time.Second)):
				before++
			case event.Time.Before(good):
				between++
			default:
				after++
			}
		}
		if before < 30 || between > 0 || after == 0 {
			t.Errorf("%d clusters started before the stop, %d while it was bad, %d after", before, between, after)
		}
		explained := must(e.Run("r").Explain(t.Context(), "z1199"))(t)
		if explained.State != stages.NotStarted {
			t.Errorf("z1199 is %s", explained.State)
		}
	})
}

// An engine that takes a run over continues its checks: earlier measurements count, and open
// questions are asked again.
func TestMeasurementsGoOnWithAnotherEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &dial{}
		w, e := measuring(t, d)
		stop := running(t, e)
		must(e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
			st.After = []stages.Task{
				{Type: stages.CheckTask, Checks: []check.Check{{Name: "errors", Query: "errors", Max: new(1.0), Interval: metav1.Duration{Duration: time.Minute}, Count: 5}}},
				{Type: stages.Approval},
			}
		})))(t)
		time.Sleep(2*time.Minute + 30*time.Second)
		stop()
		two := w.newEngine(fleet.Config{Name: "two", Metrics: map[string]backend.MetricProvider{"prom": d}})
		defer running(t, two)()
		time.Sleep(10 * time.Minute)
		s := must(two.Run("r").Status(t.Context()))(t)
		if got := s.Run.Form(runstate.Key{}).Stages[0].Gates; s.Run.State != stages.Running || len(d.queries()) != 5 {
			t.Fatalf("after %d measurements the run is %s, %+v", len(d.queries()), s.Run.State, got)
		}
		open := step.Requests(s.Plan, &s.Run)
		if err := two.Run("r").Command(t.Context(), stages.Command{Verb: stages.Decide, Name: open[0].Name, By: approval.Identity{Name: "ann"}, Decision: &approval.Decision{Verdict: approval.Approve}}); err != nil {
			t.Fatal(err)
		}
		if s := endOf(t, two, "r"); s.Run.State != stages.Completed || len(d.queries()) != 6 {
			t.Errorf("after %d measurements the run is %s (%s)", len(d.queries()), s.Run.State, s.Run.Reason)
		}
	})
}

// The creation of a run is refused if the host lacks the provider of one of its checks.
func TestAnUnknownProviderIsRefused(t *testing.T) {
	d := &dial{}
	_, e := measuring(t, d)
	_, err := e.CreateRun(t.Context(), checked("r", func(st *stages.Stage) {
		st.Checks = []check.Check{{Name: "errors", Provider: "datadog", Query: "errors", Max: new(1.0)}}
	}))
	if err == nil || !strings.Contains(err.Error(), `stage all: check errors: there is no metric provider "datadog": there are prom`) {
		t.Errorf("the error is %v", err)
	}
}
