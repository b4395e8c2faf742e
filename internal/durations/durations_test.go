package durations_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/internal/durations"
)

type embedded struct {
	Timeout metav1.Duration `json:"timeout,omitzero"`
}

type document struct {
	Name  string                     `json:"name,omitempty"`
	Wait  metav1.Duration            `json:"wait,omitzero"`
	Until *metav1.Duration           `json:"until,omitempty"`
	Parts []document                 `json:"parts,omitempty"`
	Named map[string]metav1.Duration `json:"named,omitempty"`
	At    time.Time                  `json:"at,omitzero"`
	embedded
}

func TestExplain(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"number":          {`{"wait":60000000000}`, `wait is 60000000000: must be a duration with its unit, such as "10s" or "1h30m"`},
		"without a unit":  {`{"wait":"60"}`, `wait is "60": must be a duration`},
		"null":            {`{"wait":null}`, `wait is null: must be`},
		"other case":      {`{"WAIT":1}`, `wait is 1: must be`},
		"pointer":         {`{"until":5}`, `until is 5: must be`},
		"in a list":       {`{"parts":[{"wait":"1s","until":null},{"parts":[{"wait":{}}]}]}`, `parts[1].parts[0].wait is {}: must be`},
		"in a map":        {`{"named":{"a":"1s","b":2}}`, `named[b] is 2: must be`},
		"embedded":        {`{"parts":[{"timeout":true}]}`, `parts[0].timeout is true: must be`},
		"another problem": {`{"name":5,"wait":"10s"}`, `cannot unmarshal number into Go struct field document.name`},
		"an unknown one":  {`{"wait":"10s","waits":"1s"}`, `unknown field "waits"`},
		"no JSON":         {`{"wait":`, `unexpected EOF`},
	} {
		t.Run(name, func(t *testing.T) {
			var into document
			d := json.NewDecoder(bytes.NewReader([]byte(c.text)))
			d.DisallowUnknownFields()
			err := durations.Explain(d.Decode(&into), []byte(c.text), &into)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestAnErrorOfAReadableDocumentIsKept(t *testing.T) {
	problem := errors.New("read")
	if err := durations.Explain(problem, []byte(`{"wait":"10s","at":"2026-01-01T00:00:00Z"}`), &document{}); !errors.Is(err, problem) {
		t.Errorf("got %v, want the error itself", err)
	}
	if err := durations.Explain(nil, []byte(`{"wait":1}`), &document{}); err != nil {
		t.Errorf("got %v for no error", err)
	}
}
