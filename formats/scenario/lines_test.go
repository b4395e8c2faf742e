package scenario_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/formats/scenario"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// TestLinesEndWithTheEnd: every line has the keys of its type, and the simulation ends if its
// reader stops.
func TestLinesEndWithTheEnd(t *testing.T) {
	s, err := scenario.Read(strings.NewReader(`
clusters: [{name: a}, {name: b}]
strategy: {stages: [{name: all, labelSelector: {}, maxConcurrency: 1}]}
take: 10s
faults: [{cluster: b, fail: 1}]
`), "test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var events []simulate.Event
	end, err := simulate.Run(s.Plan, s.Environment, func(e simulate.Event) error {
		events = append(events, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var last string
	n := 0
	for line := range s.Lines(events, &end) {
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		if n++; !strings.HasPrefix(string(text), `{"at":"`) || !strings.Contains(string(text), `,"type":"`) {
			t.Errorf("line %d: %s", n, text)
		}
		last = string(text)
	}
	want := `"type":"End","state":"Completed","stages":{"all":"Completed"},"clusters":{"a":"Completed","b":"Completed"},"reason":"Ended"`
	if n != len(events)+1 || !strings.Contains(last, want) {
		t.Errorf("%d lines of %d events, the last is %s, want %s", n, len(events), last, want)
	}
	for range s.Lines(events, &end) {
		break
	}
}
