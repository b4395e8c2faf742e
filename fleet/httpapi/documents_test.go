package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/check"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// documents are documents with all of their durations: every one is 10s.
var documents = map[string]struct {
	into any
	text string
}{
	"strategy": {new(stages.Strategy), `{"name":"s","stages":[{"name":"a",
		"beforeStageTasks":[{"type":"TimedWait","waitTime":"10s"},{"type":"Approval","approval":{"expires":"10s"}},
			{"type":"Check","checks":[{"name":"c","query":"q","initialDelay":"10s","interval":"10s","expires":"10s"}]}],
		"groups":[{"name":"g","afterGroupTasks":[{"type":"TimedWait","waitTime":"10s"}],"timeout":"10s"}],
		"checks":[{"name":"c","query":"q","interval":"10s"}],
		"clusterChecks":[{"name":"c","query":"q","expires":"10s"}],"timeout":"10s"}],
		"removal":{"deadline":"10s"},"backoff":"10s","maxBackoff":"10s","progressDeadline":"10s","minHealthy":"10s",
		"rollback":{"approval":{"expires":"10s"}}}`},
	"policy":           {new(approval.Policy), `{"expires":"10s"}`},
	"request":          {new(approval.Request), `{"policy":{"expires":"10s"}}`},
	"check":            {new(check.Check), `{"initialDelay":"10s","interval":"10s","expires":"10s"}`},
	"spec":             {new(fleet.RunSpec), `{"strategy":{"minHealthy":"10s"}}`},
	"delete options":   {new(fleet.DeleteOptions), `{"deadline":"10s"}`},
	"assumptions":      {new(fleet.Assumptions), `{"take":"10s","approve":"10s","until":"10s"}`},
	"forecast request": {new(httpapi.ForecastRequest), `{"spec":{"strategy":{"backoff":"10s"}},"assumptions":{"take":"10s"}}`},
	"gate of a plan":   {new(stages.PlannedGate), `{"wait":"10s","policy":{"expires":"10s"}}`},
	"event":            {new(simulate.Event), `{"at":"10s"}`},
	"end of a stage":   {new(simulate.StageEnd), `{"started":"10s","ended":"10s"}`},
	"end of a gate":    {new(simulate.GateEnd), `{"opened":"10s","held":"10s"}`},
}

// Every document has its durations as texts, and refuses numbers with the field and a right value.
func TestDurationsAreTexts(t *testing.T) {
	for name, c := range documents {
		t.Run(name, func(t *testing.T) {
			into := reflect.New(reflect.TypeOf(c.into).Elem()).Interface()
			if err := decode(c.text, into); err != nil {
				t.Fatal(err)
			}
			out, err := json.Marshal(into)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := strings.Count(string(out), `"10s"`), strings.Count(c.text, `"10s"`); got != want {
				t.Errorf("%d of %d durations are written: %s", got, want, out)
			}
			for at := 0; ; {
				next := strings.Index(c.text[at:], `"10s"`)
				if next < 0 {
					break
				}
				at += next
				field := c.text[:at-2]
				field = field[strings.LastIndex(field, `"`)+1:]
				for _, wrong := range []string{"10000000000", `"10"`, `"soon"`} {
					err := decode(c.text[:at]+wrong+c.text[at+len(`"10s"`):], into)
					if err == nil || !strings.Contains(err.Error(), field+" is "+wrong) || !strings.Contains(err.Error(), `such as "10s"`) {
						t.Errorf("%s %s: %v", field, wrong, err)
					}
				}
				at++
			}
			if err := decode(`{"unknown":1}`, into); err == nil || !strings.Contains(err.Error(), "unknown field") {
				t.Errorf("an unknown field: %v", err)
			}
		})
	}
}

func decode(text string, into any) error {
	return httpapi.DecodeBody(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)), into)
}

// A stage that has not begun has no times, and durations of less than a second keep their value.
func TestDurationsWithoutAValue(t *testing.T) {
	out, err := json.Marshal(simulate.StageEnd{})
	if err != nil || strings.Contains(string(out), "started") || strings.Contains(string(out), "ended") {
		t.Errorf("%s, %v", out, err)
	}
	var o fleet.DeleteOptions
	if err := decode(`{"deadline":"1.5ms"}`, &o); err != nil || o.Deadline.Duration != 1500*time.Microsecond {
		t.Errorf("%s, %v", o.Deadline.Duration, err)
	}
	if out, err := json.Marshal(fleet.DeleteOptions{}); err != nil || string(out) != "{}" {
		t.Errorf("%s, %v", out, err)
	}
}
