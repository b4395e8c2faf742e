package step

import (
	"encoding/xml"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/stages"
)

// transition is a change of a run's state.
type transition struct{ from, to stages.State }

// pictured returns the transitions that docs/states.svg draws as arrows. An arrow may have several
// origins.
func pictured(t *testing.T) (out map[transition]bool, single []transition) {
	t.Helper()
	b, err := os.ReadFile("../../docs/states.svg")
	if err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Paths []struct {
			From string `xml:"data-from,attr"`
			To   string `xml:"data-to,attr"`
		} `xml:"path"`
	}
	if err := xml.Unmarshal(b, &picture); err != nil {
		t.Fatal(err)
	}
	out = map[transition]bool{}
	for _, p := range picture.Paths {
		origins := strings.Fields(p.From)
		for _, from := range origins {
			out[transition{stages.State(from), stages.State(p.To)}] = true
		}
		if len(origins) == 1 {
			single = append(single, transition{stages.State(origins[0]), stages.State(p.To)})
		}
	}
	return out, single
}

// leads reports whether a path of arrows leads from one state to another.
func leads(arrows map[transition]bool, from, to stages.State) bool {
	reached := []stages.State{from}
	for i := 0; i < len(reached); i++ {
		for a := range arrows {
			if a.from == reached[i] && a.to == to {
				return true
			}
			if a.from == reached[i] && !slices.Contains(reached, a.to) {
				reached = append(reached, a.to)
			}
		}
	}
	return false
}

// The picture of a run's states has every change of state that a step can make, as one arrow or as
// several, and no arrow that no run takes.
func TestThePictureOfStatesHasEveryTransition(t *testing.T) {
	arrows, single := pictured(t)
	seen := map[transition]bool{}
	watched := func(p *stages.Plan, r Run, in stages.Input) Ready {
		out := Step(p, r, in)
		if out.Run.State != r.State {
			seen[transition{r.State, out.Run.State}] = true
		}
		return out
	}
	// Random runs rarely start again while another run is ahead, and start again at once.
	p := divided(t, nil)
	r := NewRun(p, "run", "uid", approval.Identity{Name: "ann"}, false, scriptEpoch)
	for i, does := range []struct {
		blocked string
		verb    stages.Verb
	}{{"other", ""}, {"other", stages.Stop}, {"other", stages.Start}, {"", ""}, {"", stages.Stop}, {"", stages.Start}} {
		in := stages.Input{Now: scriptEpoch, Slots: 100, Blocked: does.blocked}
		if does.verb != "" {
			in.Commands = []stages.Command{{ID: fmt.Sprint(i), Verb: does.verb}}
		}
		r = watched(p, r, in).Run
	}
	missing := func(a transition) bool { return !seen[a] }
	for seed := uint64(0); seed < 10 || seed < 600 && slices.ContainsFunc(single, missing); seed++ {
		for _, d := range []dice{{}, {timed: true}, {divided: true}} {
			d.data = lawBytes(seed)
			if _, err := play(&d, watched); err != nil {
				t.Fatal(err)
			}
		}
	}
	for a := range seen {
		if !leads(arrows, a.from, a.to) {
			t.Errorf("a run went from %s to %s, and no arrow leads there", a.from, a.to)
		}
	}
	for _, a := range single {
		if missing(a) {
			t.Errorf("no run went from %s to %s, as an arrow says", a.from, a.to)
		}
	}
}
