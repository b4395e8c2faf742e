package timeline_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
	"github.com/slipway-dev/slipway/stages/timeline"
)

// eventTypes are the known event types of a picture, and an unknown one.
var eventTypes = []stages.EventType{
	stages.RunTaken, stages.RunQueued, stages.RunStarted, stages.RunStopping, stages.RunStopped, stages.RunResumed, stages.RunRetried,
	stages.RollbackRequested, stages.RunClosing, stages.RunCompleted, stages.RunFailed, stages.RunAborted, stages.RunSuperseded,
	stages.StageStarted, stages.StageSkipped, stages.StageCompleted, stages.WaitStarted, stages.WaitEnded, stages.ApprovalRequested,
	stages.ApprovalGiven, stages.ApprovalEarly, stages.ApprovalAccepted, stages.ApprovalRejected, stages.ApprovalExpired, stages.ClusterStarted,
	stages.ClusterPending, stages.ClusterApplied, stages.ClusterUnhealthy, stages.ClusterRetrying, stages.ClusterCompleted, stages.ClusterFailed,
	stages.ObjectsReleased, stages.ObjectsAltered, stages.ClusterSkipped, stages.ClusterRemoved, stages.WindowsBypassed, stages.CommandRefused, "Unknown",
	stages.CheckMeasured, stages.CheckEnded,
}

// bytesOf hands out the bytes of an input, and zeros behind its end.
type bytesOf []byte

func (b *bytesOf) next() int {
	if len(*b) == 0 {
		return 0
	}
	n := (*b)[0]
	*b = (*b)[1:]
	return int(n)
}

// moment is before, within or far away from the run.
func (b *bytesOf) moment() time.Time {
	start := simulate.DefaultStart()
	switch n := b.next(); n {
	case 255:
		return time.Time{}
	case 254:
		return start.AddDate(30_000, 0, 0)
	case 253:
		return start.AddDate(-5_000, 0, 0)
	case 252:
		return start.AddDate(900, 0, 0)
	default:
		return start.Add(time.Duration(n*256+b.next()) * time.Second)
	}
}

// events are as many as the input has.
func (b *bytesOf) events(p *stages.Plan, text string) (out []simulate.Event) {
	names := []string{"", text, "none"}
	for i := range p.Clusters {
		names = append(names, p.Clusters[i].Name)
	}
	groups := []string{"", "odd", "even", text}
	for len(*b) > 0 && len(out) < 2000 {
		e := simulate.Event{Event: stages.Event{Type: eventTypes[b.next()%len(eventTypes)], Time: b.moment(), Run: text, Message: text, By: text}}
		switch b.next() % 3 {
		case 0:
			e.Cluster = names[b.next()%len(names)]
		case 1:
			e.Stage, e.Group = p.Stages[b.next()%len(p.Stages)].Name, groups[b.next()%len(groups)]
		}
		n := b.next()
		e.Attempt, e.Count, e.Request, e.Until = n%4, n%7-1, fmt.Sprint(n%3), b.moment()
		e.Check = []string{"errors", "latency", "alerts", text}[n%4]
		e.Result = []string{"Successful", "Failed", "Error", "Inconclusive", text}[n%5]
		if n%16 == 15 {
			e.Back = p
		}
		out = append(out, e)
	}
	return out
}

// Whatever the events and the names are, nothing panics, an SVG is well formed and bounded, and
// no line of a text is longer than the width.
func FuzzPicture(f *testing.F) {
	f.Add([]byte{}, "", 0, 0)
	f.Add([]byte("\x02\x00\x00\x02\x0d\x00\x00\x01\x00\x18\x01\x00\x00\x03\x1b\x02\x00\x09\x00\x00\x00\x05"), "<script>alert(1)</script>", 60, 3)
	f.Add(bytes.Repeat([]byte{24, 3, 0, 0, 4, 1, 28, 4, 0, 0, 4, 2, 252, 9, 9, 25, 255, 30, 1, 1}, 80), "\x00\x1b[31mred\xff\u202e世界\u0301", 41, 200)
	f.Add(bytes.Repeat([]byte{18, 5, 1, 1, 0, 0, 7, 1, 21, 6, 1, 1, 1, 2, 9}, 60), strings.Repeat("long & \"quoted\" ", 40), 1000, 1)
	r := rand.New(rand.NewPCG(1, 2))
	for range 30 {
		input := make([]byte, 40+r.IntN(900))
		for i := range input {
			input[i] = byte(r.IntN(256))
		}
		f.Add(input, "text", r.IntN(200), r.IntN(12))
	}
	p := fuzzPlan(f)
	f.Fuzz(func(t *testing.T, input []byte, text string, width, lanes int) {
		b := bytesOf(input)
		all := b.events(p, text)
		half := len(all) / 2
		var past []stages.Event
		for i := range all[:half] {
			past = append(past, all[i].Event)
		}
		width = min(width, 400)
		for _, picture := range []*timeline.Timeline{
			timeline.Simulated(p, all, timeline.Options{Lanes: lanes}),
			timeline.New(p, past, timeline.Options{Lanes: lanes}),
			timeline.New(p, past, timeline.Options{Lanes: lanes, Now: simulate.DefaultStart().Add(time.Hour), Expected: all[half:]}),
		} {
			checkModel(t, picture)
			for _, ascii := range []bool{false, true} {
				var out bytes.Buffer
				if err := timeline.Text(&out, picture, timeline.TextOptions{Width: width, ASCII: ascii}); err != nil {
					t.Fatal(err)
				}
				want := max(width, 40)
				if width == 0 {
					want = 80
				}
				checkLines(t, out.String(), want)
			}
			var out bytes.Buffer
			if err := timeline.SVG(&out, picture, timeline.SVGOptions{Width: width * 4}); err != nil {
				t.Fatal(err)
			}
			checkSVG(t, out.Bytes())
		}
	})
}

func fuzzPlan(tb testing.TB) *stages.Plan {
	s := samples()["gates"]
	measured := samples()["checks"].strategy.Stages
	for i := range s.strategy.Stages {
		st := &s.strategy.Stages[i]
		st.Checks, st.ClusterChecks, st.Before = measured[i].Checks, measured[i].ClusterChecks, measured[i].After
	}
	p, err := simulate.NewPlan(s.strategy, s.clusters)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// checkModel checks that segments ascend within the picture, that segments of a lane do not
// overlap, and that expected segments come last.
func checkModel(t *testing.T, picture *timeline.Timeline) {
	t.Helper()
	check := func(all []timeline.Segment, lane bool) {
		var last timeline.Segment
		for i, s := range all {
			if s.To.Before(s.From) || s.From.Before(picture.Start) || s.To.After(picture.End) || lane && i > 0 && (s.From.Before(last.To) || last.Expected && !s.Expected) {
				t.Fatalf("%+v after %+v, in a picture from %s to %s", s, last, picture.Start, picture.End)
			}
			last = s
		}
	}
	if picture.End.Before(picture.Start) {
		t.Fatalf("the picture is from %s to %s", picture.Start, picture.End)
	}
	check(picture.Segments, true)
	for i := range picture.Stages {
		st := &picture.Stages[i]
		check(st.Gates, false)
		for j := range st.Groups {
			check(st.Groups[j].Gates, false)
			for k := range st.Groups[j].Lanes {
				check(st.Groups[j].Lanes[k].Segments, true)
			}
			for k := range st.Groups[j].Load {
				l, n := &st.Groups[j].Load[k], 0
				for _, kind := range []timeline.Kind{timeline.Completed, timeline.Failed, timeline.Skipped, timeline.Soaking, timeline.Settling, timeline.Applying, timeline.BackingOff, timeline.Yielded, timeline.Closed, timeline.Queued} {
					if l.Count(kind) < 0 {
						t.Fatalf("%d clusters are %s", l.Count(kind), kind)
					}
					n += l.Count(kind)
				}
				if n > st.Groups[j].Clusters {
					t.Fatalf("%d of %d clusters of a group at %s", n, st.Groups[j].Clusters, l.At)
				}
			}
		}
	}
}

// Clusters that are tried again for days, and thousands of groups, are drawn more coarsely.
func TestAPictureIsBounded(t *testing.T) {
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprintf("cluster-%d-%s", i, strings.Repeat("x", 50)))
	}
	retrying := sample{
		strategy: stages.Strategy{Attempts: -1, Backoff: metav1.Duration{Duration: time.Minute}, Stages: []stages.Stage{{Name: "all", Selector: labelled("stage", "all"), MaxConcurrency: number(60)}}},
		clusters: clusters("all", names...),
		w:        simulate.Environment{Default: simulate.Member{Take: time.Minute, Fail: simulate.Always}, Until: 6 * time.Hour},
	}
	groups := sample{strategy: stages.Strategy{Stages: []stages.Stage{{Name: "all", Selector: labelled("stage", "all"), MaxConcurrency: percent("5%")}}}, w: simulate.Environment{Default: simulate.Member{Take: time.Minute}}}
	for i := range 1000 {
		group := fmt.Sprintf("group-%03d", i)
		groups.strategy.Stages[0].Groups = append(groups.strategy.Stages[0].Groups, stages.Group{Name: group, Selector: labelled("group", group)})
		for k := range 4 {
			groups.clusters = append(groups.clusters, placement.Cluster{Name: fmt.Sprintf("%s-%d", group, k), Labels: map[string]string{"stage": "all", "group": group}})
		}
	}
	for name, s := range map[string]sample{"retries": retrying, "groups": groups} {
		t.Run(name, func(t *testing.T) {
			picture := s.draw(t)
			checkModel(t, picture)
			var svg, text bytes.Buffer
			if err := timeline.SVG(&svg, picture, timeline.SVGOptions{Width: 3000}); err != nil {
				t.Fatal(err)
			}
			checkSVG(t, svg.Bytes())
			if err := timeline.Text(&text, picture, timeline.TextOptions{}); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(text.String(), "\n"); n > 150 {
				t.Errorf("the text has %d lines", n)
			}
		})
	}
}
