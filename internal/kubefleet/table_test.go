package main

import (
	"strings"
	"testing"
	"time"
)

func TestTable(t *testing.T) {
	for name, test := range map[string]struct {
		row          row
		theirs, ours []float64
		want, missed string
		note         string
	}{
		"times":           {row{name: "run"}, []float64{30, 48.4, 36}, []float64{0.25, 1.26, 12}, "| run | 36 s (30 s to 48 s) | 1.3 s (250 ms to 12 s) |", "", ""},
		"an even number":  {row{name: "run"}, []float64{4, 1, 3, 2}, []float64{1, 1}, "| run | 2.5 s (1.0 s to 4.0 s) | 1.0 s (1.0 s to 1.0 s) |", "", ""},
		"the peer better": {row{name: "run"}, []float64{1}, []float64{2}, "| run | 1.0 s | 2.0 s |", "run: KubeFleet is better", ""},
		"with a reason":   {row{name: "run", reason: "it does less"}, []float64{1}, []float64{2}, "| run | 1.0 s | 2.0 s |", "", `KubeFleet is better in "run": it does less.`},
		"beyond a limit":  {row{name: "idle", unit: requestsPerMinute, atMost: 80}, []float64{85}, []float64{81}, "| idle | 85 | 81 |", "idle: 81, which is more than 80", ""},
		"failures":        {row{name: "old", unit: failures}, []float64{1, 1, 0}, []float64{0, 0, 0}, "| old | 2 of 3 | 0 of 3 |", "", ""},
		"memory":          {row{name: "memory", unit: mebibytes}, []float64{310.4}, []float64{60}, "| memory | 310 MiB | 60 MiB |", "", ""},
		"not measured":    {row{name: "run"}, nil, []float64{1}, "| run | - | 1.0 s |", "run: not measured", ""},
	} {
		t.Run(name, func(t *testing.T) {
			table := table{rows: []row{test.row}, systems: []string{"KubeFleet", "Slipway"}}
			for _, s := range test.theirs {
				table.add("KubeFleet", test.row.name, s)
			}
			for _, s := range test.ours {
				table.add("Slipway", test.row.name, s)
			}
			var out strings.Builder
			err := table.print(&out)
			if lines := strings.Split(out.String(), "\n"); len(lines) < 4 || lines[2] != test.want {
				t.Errorf("the table is %q", out.String())
			}
			if said := strings.Contains(out.String(), "is better in"); said != (test.note != "") || !strings.Contains(out.String(), test.note) {
				t.Errorf("it says %q, want %q", out.String(), test.note)
			}
			if (err == nil) != (test.missed == "") || err != nil && err.Error() != test.missed {
				t.Errorf("missed: %v", err)
			}
		})
	}
}

func TestTook(t *testing.T) {
	var table table
	table.took("a", "b", 1500*time.Millisecond)
	if got := table.samples["a"]["b"]; len(got) != 1 || got[0] != 1.5 {
		t.Errorf("samples %v", got)
	}
}

func TestRequestCounts(t *testing.T) {
	for _, test := range []struct {
		verb, stage string
		want        bool
	}{{"get", "ResponseComplete", true}, {"get", "ResponseStarted", false}, {"watch", "ResponseStarted", true}, {"watch", "ResponseComplete", false}, {"update", "Panic", true}} {
		if r := (request{Verb: test.verb, Stage: test.stage}); r.counts() != test.want {
			t.Errorf("%s %s counts: %v", test.verb, test.stage, r.counts())
		}
	}
}
