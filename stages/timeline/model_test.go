package timeline_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// words are segments in words, with their offsets from the start.
func words(all []timeline.Segment) (out []string) {
	for _, s := range all {
		from, to := s.From.Sub(simulate.DefaultStart()), s.To.Sub(simulate.DefaultStart())
		text := fmt.Sprintf("%s %s-%s", s.Kind, from, to)
		if s.Attempt > 1 {
			text += fmt.Sprintf(" #%d", s.Attempt)
		}
		if len(s.By) > 0 {
			text += " by " + strings.Join(s.By, "+")
		}
		if s.Expected {
			text += " expected"
		}
		if s.Open {
			text += " open"
		}
		out = append(out, text)
	}
	return out
}

// laneOf returns the lane of a cluster.
func laneOf(t *testing.T, picture *timeline.Timeline, cluster string) []string {
	t.Helper()
	for _, st := range picture.Stages {
		for _, g := range st.Groups {
			for _, l := range g.Lanes {
				if l.Cluster == cluster {
					return words(l.Segments)
				}
			}
		}
	}
	t.Fatalf("there is no lane of %s", cluster)
	return nil
}

func same(t *testing.T, what string, want, got []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A lane contains the events and their consequences: how long a cluster soaked, and when the
// attempt after a backoff started.
func TestLaneHasThePhasesOfACluster(t *testing.T) {
	gates := samples()["gates"].draw(t)
	same(t, "canary-us", []string{"Queued 0s-6m0s", "Applying 6m0s-11m0s", "Soaking 11m0s-13m0s", "Completed 13m0s-13m0s"}, laneOf(t, gates, "canary-us"))
	same(t, "gates of canary", []string{"Approval 13m0s-41m0s by ann+bob <bob@example.com>", "Wait 13m0s-23m0s"}, words(gates.Stages[0].Gates))
	same(t, "gates of rest", []string{"Rejected 1h2m0s-1h30m0s by carol"}, words(gates.Stages[1].Gates))
	same(t, "gates of odd", []string{"Wait 41m0s-44m0s"}, words(gates.Stages[1].Groups[0].Gates))
	if gates.State != stages.Failed || gates.Completed != 7 || !gates.Ends.Equal(simulate.DefaultStart().Add(90*minute)) {
		t.Errorf("the run is %s at %s, and %d clusters are completed", gates.State, gates.Ends, gates.Completed)
	}

	retries := samples()["retries"].draw(t)
	same(t, "canary-us", []string{"Queued 0s-4m0s", "Applying 4m0s-7m0s", "BackingOff 7m0s-8m0s", "Applying 8m0s-11m0s #2", "Completed 11m0s-11m0s #2"}, laneOf(t, retries, "canary-us"))
	same(t, "the run", []string{"Stopping 18m0s-19m0s by ann", "Stopped 19m0s-24m0s"}, words(retries.Segments))
	if retries.Failed != 1 || retries.Completed != 6 {
		t.Errorf("%d have failed and %d are completed", retries.Failed, retries.Completed)
	}

	windows := samples()["windows"].draw(t)
	if got := laneOf(t, windows, "canary-us"); len(got) != 4 || !strings.HasPrefix(got[1], "Closed ") {
		t.Errorf("the lane of a cluster outside its window is %q", got)
	}
}

// The measured time of a cluster begins when its first measurement is due; before that it soaks.
// A check of a gate lasts from its start to its verdict, and a check of a stage delays the stage
// from the bad measurement to the good one.
func TestLaneHasTheMeasuringPhase(t *testing.T) {
	checks := samples()["checks"].draw(t)
	same(t, "canary-us", []string{
		"Queued 0s-11m0s", "Applying 11m0s-16m0s", "Soaking 16m0s-18m0s", "Measuring 18m0s-23m0s", "Completed 23m0s-23m0s",
	}, laneOf(t, checks, "canary-us"))
	same(t, "eu-2", []string{
		"Queued 28m0s-40m1s", "Applying 40m1s-46m1s", "Settling 46m1s-47m0s", "Soaking 47m0s-49m0s", "Measuring 49m0s-52m0s",
		"Measuring 52m0s-53m0s", "Failed 53m0s-53m0s",
	}, laneOf(t, checks, "eu-2"))
	same(t, "checks of canary", []string{"Checked 23m0s-28m0s"}, words(checks.Stages[0].Gates))
	same(t, "checks of rest", []string{"Held 28m1s-40m1s", "CheckFailed 1h8m0s-1h13m0s"}, words(checks.Stages[1].Gates))
}

// Error and Inconclusive measurements delay a stage from the first one beyond the limit, for
// which there is no event.
func TestAStageIsBlockedByTheMeasurementOverItsLimit(t *testing.T) {
	two := check.Check{Name: "alerts", Query: "q", Max: new(1.0), Interval: metav1.Duration{Duration: minute}, InconclusiveLimit: 2, ConsecutiveErrorLimit: new(3)}
	p, err := simulate.NewPlan(canaryAndRest(func(s *stages.Strategy) { s.Stages[0].Checks = []check.Check{two} }), fewClusters())
	if err != nil {
		t.Fatal(err)
	}
	event := func(at time.Duration, count int, result string) stages.Event {
		return stages.Event{
			Type: stages.CheckMeasured, Time: simulate.DefaultStart().Add(at), Stage: "canary", Check: "alerts", Result: result, Count: count, Message: "why",
		}
	}
	started := stages.Event{Type: stages.StageStarted, Time: simulate.DefaultStart(), Stage: "canary"}
	for name, tt := range map[string]struct {
		events []stages.Event
		want   []string
	}{
		"errors that end in time":  {[]stages.Event{event(minute, 1, "Error"), event(4*minute, 4, "Successful")}, nil},
		"one error more":           {[]stages.Event{event(minute, 1, "Error"), event(5*minute, 5, "Successful")}, []string{"Held 4m0s-5m0s"}},
		"inconclusive twice":       {[]stages.Event{event(minute, 1, "Inconclusive"), event(3*minute, 3, "Successful")}, nil},
		"inconclusive three times": {[]stages.Event{event(minute, 1, "Inconclusive"), event(4*minute, 4, "Successful")}, []string{"Held 3m0s-4m0s"}},
		"inconclusive in between": {
			[]stages.Event{event(minute, 1, "Inconclusive"), event(3*minute, 3, "Successful"), event(4*minute, 4, "Inconclusive"), event(9*minute, 9, "Successful")},
			[]string{"Held 4m0s-9m0s"},
		},
		"a failure at once": {[]stages.Event{event(minute, 1, "Failed"), event(2*minute, 2, "Error"), event(3*minute, 3, "Successful")}, []string{"Held 1m0s-3m0s"}},
	} {
		picture := timeline.New(p, append([]stages.Event{started}, tt.events...), timeline.Options{Now: simulate.DefaultStart().Add(20 * minute)})
		same(t, name, tt.want, words(picture.Stages[0].Gates))
	}
}

// Segments on both sides of now are divided there, and future deciders are unknown.
func TestAPictureOfAnActiveRun(t *testing.T) {
	picture := samples()["forecast"].draw(t)
	same(t, "us-2", []string{"Queued 41m0s-52m0s", "Applying 52m0s-55m0s", "Applying 55m0s-1h0m0s expected", "Soaking 1h0m0s-1h2m0s expected", "Completed 1h2m0s-1h2m0s expected"}, laneOf(t, picture, "us-2"))
	same(t, "gates of rest", []string{"Approval 1h2m0s-1h30m0s expected"}, words(picture.Stages[1].Gates))
	if picture.Completed != 5 || !picture.Now.Equal(simulate.DefaultStart().Add(55*minute)) {
		t.Errorf("%d clusters are completed at %s", picture.Completed, picture.Now)
	}
}

// A forecast that is older than the events adds nothing to clusters that have ended. Without a
// forecast, active segments reach to now and are open. If the run has ended, now and the forecast
// have no effect.
func TestAForecastMayBeOlderThanTheEvents(t *testing.T) {
	s := samples()["plain"]
	p, err := simulate.NewPlan(s.strategy, s.clusters)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) time.Time { return simulate.DefaultStart().Add(d) }
	event := func(d time.Duration, typ stages.EventType, cluster string) simulate.Event {
		return simulate.Event{At: metav1.Duration{Duration: d}, Event: stages.Event{Type: typ, Time: at(d), Stage: "canary", Cluster: cluster}}
	}
	past := []stages.Event{
		{Type: stages.RunStarted, Time: at(0)},
		event(0, stages.StageStarted, "").Event, event(0, stages.ClusterStarted, "canary-eu").Event,
		event(minute, stages.ClusterFailed, "canary-eu").Event, event(minute, stages.ClusterStarted, "canary-us").Event,
	}
	expected := []simulate.Event{
		event(2*minute, stages.ClusterCompleted, "canary-eu"), event(2*minute, stages.ClusterStarted, "canary-us"), event(5*minute, stages.ClusterCompleted, "canary-eu"),
		event(5*minute, stages.ClusterStarted, "canary-us"), event(9*minute, stages.ClusterCompleted, "canary-us"),
	}
	picture := timeline.New(p, past, timeline.Options{Now: at(3 * minute), Expected: expected})
	same(t, "canary-eu", []string{"Applying 0s-1m0s", "Failed 1m0s-1m0s"}, laneOf(t, picture, "canary-eu"))
	same(t, "canary-us", []string{"Queued 0s-1m0s", "Applying 1m0s-3m0s", "Applying 3m0s-9m0s expected", "Completed 9m0s-9m0s expected"}, laneOf(t, picture, "canary-us"))

	picture = timeline.New(p, past, timeline.Options{Now: at(26 * minute)})
	same(t, "canary-us", []string{"Queued 0s-1m0s", "Applying 1m0s-26m0s open"}, laneOf(t, picture, "canary-us"))

	past = append(past, stages.Event{Type: stages.RunAborted, Time: at(4 * minute)})
	picture = timeline.New(p, past, timeline.Options{Now: at(26 * minute), Expected: expected})
	same(t, "canary-us", []string{"Queued 0s-1m0s", "Applying 1m0s-4m0s"}, laneOf(t, picture, "canary-us"))
	if !picture.Now.IsZero() || !picture.End.Equal(at(4*minute)) || picture.State != stages.Aborted {
		t.Errorf("the picture of a run that has ended is %s at %s, of %s", picture.State, picture.End, picture.Now)
	}
}

// If there are more clusters than lanes, a group shows the number of clusters in each phase.
func TestAGroupCountsItsClusters(t *testing.T) {
	s := samples()["plain"]
	s.lanes = 3
	picture := s.draw(t)
	rest := &picture.Stages[1].Groups[0]
	if len(rest.Lanes) > 0 || len(rest.Load) == 0 {
		t.Fatalf("there are %d lanes and %d counts", len(rest.Lanes), len(rest.Load))
	}
	first, last := &rest.Load[0], &rest.Load[len(rest.Load)-1]
	if first.Count(timeline.Applying) != 2 || first.Count(timeline.Queued) != 3 || last.Count(timeline.Completed) != 5 || last.Count(timeline.Applying) != 0 {
		t.Errorf("at first %d are applying and %d wait; at last %d are completed and %d applying", first.Count(timeline.Applying), first.Count(timeline.Queued), last.Count(timeline.Completed), last.Count(timeline.Applying))
	}
}

// The title of a picture names an existing run, or the placement of a future run, unless the host
// sets another title.
func TestTheTitle(t *testing.T) {
	first := func(picture *timeline.Timeline) string {
		var out strings.Builder
		if err := timeline.Text(&out, picture, timeline.TextOptions{Width: 200}); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		return strings.Join(lines[:4], "|")
	}
	s := samples()["plain"]
	p, err := simulate.NewPlan(s.strategy, s.clusters)
	if err != nil {
		t.Fatal(err)
	}
	started := stages.Event{Type: stages.RunStarted, Run: "web-2", Time: simulate.DefaultStart()}
	at := simulate.DefaultStart().Add(minute)
	completed := stages.Event{Type: stages.RunCompleted, Run: "web-2", Time: at}
	for want, picture := range map[string]*timeline.Timeline{
		"Run web-2 of placement scenario|Completed at 2026-01-05 00:01:00 UTC after 1m|7 clusters|":    timeline.New(p, []stages.Event{started, completed}, timeline.Options{}),
		"Run of placement scenario|would be Completed at 2026-01-05 00:01:00 UTC after 1m|7 clusters|": timeline.Simulated(p, []simulate.Event{{Event: started}, {Event: completed}}, timeline.Options{}),
		"Run web-2 of placement scenario|Running at 2026-01-05 00:01:00 UTC|7 clusters|waits for ann":  timeline.New(p, []stages.Event{started}, timeline.Options{Now: at, Note: "waits for ann"}),
		"Run of placement scenario|Running at 2026-01-05 00:01:00 UTC|7 clusters|":                     timeline.New(p, nil, timeline.Options{Now: at, Expected: []simulate.Event{{Event: stages.Event{Type: stages.RunStarted, Run: "run", Time: at}}}}),
		"the rehearsal|Running|7 clusters|": timeline.Simulated(p, []simulate.Event{{Event: started}}, timeline.Options{Title: "the rehearsal"}),
	} {
		if got := first(picture); got != want {
			t.Errorf("it begins with %q, want %q", got, want)
		}
	}
}

// broken is a writer that fails.
type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestAnErrorOfTheWriterIsReturned(t *testing.T) {
	picture, err := samples()["plain"].draw(t), errors.New("no space")
	if got := timeline.SVG(broken{err}, picture, timeline.SVGOptions{}); !errors.Is(got, err) {
		t.Errorf("SVG returned %v", got)
	}
	if got := timeline.Text(broken{err}, picture, timeline.TextOptions{}); !errors.Is(got, err) {
		t.Errorf("Text returned %v", got)
	}
}
