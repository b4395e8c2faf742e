package scenario_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/formats/problem"
	"github.com/slipway-dev/slipway/formats/scenario"
)

// problems compares the problems that Read reports for a text: each of want is a part of one
// problem, in their order, and there are no others.
func problems(t *testing.T, text string, want ...string) {
	t.Helper()
	_, err := scenario.Read(strings.NewReader(text), "f.yaml")
	var got problem.List
	if !errors.As(err, &got) {
		t.Fatalf("error = %v, want %q\ninput:\n%s", err, want, text)
	}
	for i, p := range got {
		if i >= len(want) || !strings.Contains(p.Error(), want[i]) {
			t.Errorf("problem %d = %v\nwant all of %q", i, p, want)
		}
	}
	if len(got) < len(want) {
		t.Errorf("problems:\n%v\nwant %q", err, want)
	}
}

// good is a complete scenario; additional text begins on line 4.
const good = `clusters: [{name: c1}, {name: c2}]
strategy: {stages: [{name: all, labelSelector: {}}]}
---
`

func TestProblemsHaveTheirLinesAndPaths(t *testing.T) {
	base := strings.TrimSuffix(good, "---\n")
	for text, want := range map[string]string{
		"profile: staged":                     `f.yaml:3: profile: must be Staged or ClusterUpdate or Workflow, not "staged"`,
		"colour: red":                         "f.yaml:3: colour: unknown field; known are attempts, backoff, cap, churn, clusters, commands, count,",
		"take: 1m\ntake: 2m":                  "f.yaml:4: take: is there already, on line 3; leave one of the two",
		"take: 10":                            "f.yaml:3: take: must be a duration such as 30s, 5m or 1h30m, not the number 10",
		"take: soon":                          `take: must be a duration such as 30s, 5m or 1h30m, not "soon"`,
		"take: -1s":                           "take: must be from 0s to 365 days (8760h), not -1s",
		"take: 8761h":                         "take: must be from 0s to 365 days (8760h), not 8761h",
		"take: [1s]":                          "take: must be a duration such as 30s, 5m or 1h30m, not a list",
		"start: tomorrow":                     `start: must be a time after 1970 with an offset, such as "2026-01-05T10:00:00Z", not "tomorrow"`,
		"start: 2026-01-05":                   "start: must be a time after 1970 with an offset",
		"until: 0s":                           "until: must be more than 0s",
		"starter: ''":                         "starter: must not be empty",
		"starter: [ann]":                      "starter: must be a string, not a list",
		"starter: 7":                          `starter: must be a string, not the number 7; write "7"`,
		"1: two":                              "f.yaml:3: keys must be strings; quote the key",
		"<<: {take: 1s}":                      "f.yaml:3: merge keys (<<) are not read; write the fields out",
		"timeZone: Mars/Base":                 `timeZone: Invalid value: "Mars/Base"`,
		"windows: [{rrule: X, duration: 1h}]": "windows[0].rrule: Invalid value",
		"windows: [{rrule: FREQ=HOURLY}]":     "windows[0].duration: is required",
		"windows: {rrule: FREQ=HOURLY}":       "windows: must be a list, not an object",
		"freezes: [{from: x}]":                "freezes[0].from: Invalid value",
		"freezes: [{from: '2026-01-05T00:00', when: x}]": "freezes[0].when: unknown field",
		"attempts: -2":                                  "attempts: must be from -1 to 2147483647, not -2",
		"attempts: many":                                "attempts: must be a whole number, not a string",
		"backoff: 1h\nmaxBackoff: 1m":                   "f.yaml:4: maxBackoff: ",
		"backoff: 0s":                                   "backoff: must be more than 0s",
		"progressDeadline: 1":                           "progressDeadline: must be a duration",
		"minHealthy: long":                              "minHealthy: must be a duration",
		"maxFailures: 101%":                             "maxFailures: Invalid value",
		"maxFailures: -1":                               "maxFailures: must be from 0 to",
		"maxFailures: {}":                               "maxFailures: must be a whole number, not an object",
		"strictFailures: perhaps":                       "strictFailures: must be true or false, not a string",
		"domains: [{key: a b}]":                         `domains[0].key: Invalid value: "a b"`,
		"domains: [{key: zone, maxConcurrency: 0}]":     "domains[0].maxConcurrency: Invalid value",
		"domains: [{}]":                                 "domains[0].key: is required",
		"cap: 0":                                        "cap: must be from 1 to 1000000, not 0",
		"unassigned: Never":                             `unassigned: must be Error or Exclude or FinalStage, not "Never"`,
		"count: {prefix: d}":                            "f.yaml:3: count.n: is required",
		"count: {prefix: d, n: 0}":                      "count.n: must be from 1 to 100000, not 0",
		"count: {prefix: d, n: 100001}":                 "count.n: must be from 1 to 100000, not 100001",
		"count: {prefix: D, n: 1}":                      `count.prefix: a cluster would be called "D1": a lowercase RFC 1123 label`,
		"count: {prefix: c, n: 5}":                      "f.yaml:3: count: cluster c1 is there already, on line 1",
		"count: [{prefix: d, n: 1}, {prefix: d, n: 2}]": "count[1]: cluster d1 is there already, on line 3",
		"count: d":                                      "count: must be an object, not a string",
		"count: {prefix: d, n: 1, group: g, labels: {slipway.dev/update-group: h}}": `says that label slipway.dev/update-group is "h", and another field says "g"`,

		"faults: [{cluster: c3, fail: 1}]":                                 "f.yaml:3: faults[0].cluster: there is no cluster c3 in the scenario",
		"faults: [{fail: 1}]":                                              "faults[0].cluster: is required",
		"faults: [{cluster: c1}]":                                          "faults[0]: says nothing; write fail, unreachable, unhealthyAt or take",
		"faults: [{cluster: c1, fail: sometimes}]":                         `faults[0].fail: must be a number of attempts or always, not "sometimes"`,
		"faults: [{cluster: c1, fail: -1}]":                                "faults[0].fail: must be from 0 to",
		"faults: [{cluster: c1, fail: 1}, {cluster: c1, fail: 2}]":         "faults[1].fail: cluster c1 has this already, on line 3; leave one of the two",
		"faults: [{cluster: c1, unreachable: 5m}]":                         "faults[0].unreachable: must be a list, not a string",
		"faults: [{cluster: c1, unreachable: [5m]}]":                       "faults[0].unreachable: must be two times, the beginning and the end, for example [1m, 5m]",
		"faults: [{cluster: c1, unreachable: [5m, 5m]}]":                   "faults[0].unreachable: ends at 5m0s and begins at 5m0s; it must end later",
		"faults: [{cluster: c1, unreachable: [5m, soon]}]":                 "faults[0].unreachable[1]: must be a duration",
		"faults: [{cluster: c1, for: 5m}]":                                 "faults[0].for: is how long a cluster is unhealthy; write unhealthyAt too",
		"faults: [{cluster: c1, unhealthyAt: 5m, for: 0s}]":                "faults[0].for: must be more than 0s",
		"faults: [{cluster: c1, take: 1s, color: red}]":                    "faults[0].color: unknown field; known are cluster, during, fail, for, take, unhealthyAt, unreachable",
		"churn: [{at: 1m, remove: c3}]":                                    "churn[0].remove: there is no cluster c3 at 1m0s",
		"churn: [{at: 1m, remove: c1}, {at: 2m, relabel: c1, labels: {}}]": "churn[1].relabel: there is no cluster c1 at 2m0s",
		"churn: [{at: 1m, add: c1}]":                                       "churn[0].add: cluster c1 is there already",
		"churn: [{at: 1m, relabel: c1}]":                                   "churn[0].labels: is required",
		"churn: [{at: 1m, remove: c1, labels: {}}]":                        "churn[0].labels: is only for add and relabel",
		"churn: [{at: 1m}]":                                                "churn[0]: must say one of remove, add and relabel",
		"churn: [{at: 1m, add: d, remove: c1}]":                            "churn[0]: must say one of remove, add and relabel",
		"churn: [{remove: c1}]":                                            "churn[0].at: is required",
		"commands: [{at: 1m}]":                                             "commands[0].do: is required",
		"commands: [{do: stop}]":                                           "commands[0].at: is required",
		"commands: [{at: 1m, do: dance}]":                                  "commands[0].do: must be start or stop or skip or approve or reject or retry or abort or complete-gate or bypass",
		"commands: [{at: 1m, do: skip}]":                                   "commands[0].target: is required for skip",
		"commands: [{at: 1m, do: skip, target: g2}]":                       "commands[0].target: must be Member:, Group:, Stage:, AfterStageWait: and a name, for example Group:g2, not \"g2\"",
		"commands: [{at: 1m, do: skip, target: 'group:g2'}]":               "commands[0].target: must be Member:",
		"commands: [{at: 1m, do: skip, target: 'Group:'}]":                 "commands[0].target: must be Member:",
		"commands: [{at: 1m, do: stop, target: 'Group:g2'}]":               "commands[0].target: is not for stop, which has at, do, by, reason",
		"commands: [{at: 1m, do: approve, stage: a}]":                      "commands[0].by: is required for approve",
		"commands: [{at: 1m, do: reject, by: ann}]":                        "commands[0].stage: is required for reject",
		"commands: [{at: 1m, do: retry, only: all}]":                       `commands[0].only: must be failed or skipped, not "all"`,
		"commands: [{at: 1m, do: complete-gate}]":                          "commands[0]: must say which gate: write stage, group or both",
		"commands: [{at: 1m, do: bypass, for: 1h, by: ann}]":               "commands[0].reason: is required for bypass",
		"commands: [{at: 1m, do: bypass, by: ann, reason: x}]":             "commands[0].for: is required for bypass",
		"commands: [{at: 1m, do: abort, for: 1h}]":                         "commands[0].for: is not for abort",
		"commands: {at: 1m, do: abort}":                                    "commands: must be a list, not an object",
	} {
		t.Run(text, func(t *testing.T) { problems(t, base+text+"\n", want) })
	}
}

func TestProblemsOfClusters(t *testing.T) {
	const rest = "\nstrategy: {stages: [{name: all, labelSelector: {}}]}\n"
	for text, want := range map[string]string{
		"take: 1s":                              "f.yaml:1: clusters: are required: name some, or let count make them",
		"clusters: []":                          "clusters: are required",
		"clusters: c1":                          "clusters: must be a list, not a string",
		"clusters: [c1]":                        "clusters[0]: must be an object, not a string",
		"clusters: [{labels: {}}]":              "clusters[0].name: is required",
		"clusters: [{name: A}]":                 `clusters[0].name: "A": a lowercase RFC 1123 label`,
		"clusters:\n- {name: a}\n- {name: a}":   "f.yaml:3: clusters[1].name: cluster a is there already, on line 2",
		"clusters: [{name: a, labels: {b: 1}}]": `clusters[0].labels.b: must be a string, not the number 1; write "1"`,
		"clusters: [{name: a, group: 1}]":       `clusters[0].group: must be a string, not the number 1; write "1"`,
		"clusters: [{name: a, timeZone: X}]":    "clusters[0].timeZone: Invalid value",
		"clusters: [{name: a, windows: [{rrule: FREQ=DAILY, duration: -1h}]}]": "clusters[0].windows[0].duration: must be more than 0s",
		"clusters: [{name: a, color: red}]":                                    "clusters[0].color: unknown field; known are freezes, group, had, labels, name, new, region, timeZone, windows",
	} {
		t.Run(text, func(t *testing.T) { problems(t, text+rest, want) })
	}
}

func TestProblemsOfStrategies(t *testing.T) {
	const clusters = "clusters: [{name: c1, labels: {order: x}}, {name: c2}]\n"
	for text, want := range map[string]string{
		"take: 1s":     "f.yaml:1: strategy: is required",
		"strategy: {}": "strategy.stages: is required",
		"strategy: a":  "f.yaml:2: strategy: must be an object",
		"strategy:\n  stages:\n  - name: a\n    maxConcurency: 1":                           "f.yaml:5: strategy.stages[0].maxConcurency: unknown field",
		"strategy:\n  stages:\n  - name: a\n    labelSelector: {}\n    maxConcurrency: 0":   "f.yaml:6: strategy.stages[0].maxConcurrency: Invalid value",
		"strategy:\n  stages:\n  - name: a\n    labelSelector: {}\n  - name: a":             "f.yaml:6: strategy.stages[1].name: Duplicate value",
		"strategy:\n  stages:\n  - name: a\n    groups:\n    - {name: g1, max: 1}":          "f.yaml:6: strategy.stages[0].groups[0].max: unknown field",
		"strategy:\n  stages:\n  - name: a\n    labelSelector: {}\n    labelSelector: {}":   "f.yaml:6: strategy.stages[0].labelSelector: is there already, on line 5",
		"strategy: {stages: [{name: a, labelSelector: {matchLabels: {a: !!binary YQ==}}}]}": "has the YAML tag !!binary, which JSON has not",
		"strategy: {stages: [{name: a, labelSelector: {}, groups: [{name: g}]}]}":           "f.yaml:2: strategy: has groups, which is Azure's, and labelSelector, which is KubeFleet's; write one of the two formats",
		"strategy: {stages: [{name: a, groups: [{name: g}]}]}\nmaxFailures: 1":              "f.yaml:3: maxFailures: is not for Azure's stages: write maxAllowedFailures in its stages and groups",
		"strategy: {stages: [{name: a, labelSelector: {}, sortingLabelKey: order}]}":        "f.yaml:1: clusters[0].name: cluster c1=x: label order",
		"strategy: {stages: [{name: a}]}":                                                   "f.yaml:1: clusters[0].name: clusters c1, c2: in no stage",
		"strategy: {stages: [{name: a, labelSelector: {}}, {name: b, labelSelector: {}}]}":  "f.yaml:1: clusters[0].name: clusters c1, c2: in stages a and b",
		"shares: {b: 1}\nstrategy: {stages: [{name: a, labelSelector: {}}]}":                "f.yaml:2: shares.b: there is no stage b in the strategy",
		"shares:\n  a: 0%\nstrategy: {stages: [{name: a, labelSelector: {}}]}":              "f.yaml:3: shares.a: Invalid value",
		"shares: {a: rest}\nstrategy: {stages: [{name: a, labelSelector: {}}]}":             "f.yaml:2: shares.a: Forbidden: the rest is all that no other stage has",
		"shares: {a: [1]}\nstrategy: {stages: [{name: a, labelSelector: {}}]}":              "f.yaml:2: shares.a: must be",
	} {
		t.Run(text, func(t *testing.T) { problems(t, clusters+text+"\n", want) })
	}
}

func TestPlanErrorsNameFewClusters(t *testing.T) {
	problems(t, "count: {prefix: c, n: 1000}\nstrategy: {stages: [{name: a}]}\n", "f.yaml:1: count: clusters c1, c10, c100, c1000, c101, c102, c103, c104, c105, c106 and 990 more: in no stage")
}

func TestAllProblemsAreReportedTogether(t *testing.T) {
	problems(t, `profile: Stages
clusters: [{name: A}]
strategy: {stages: [{name: B, color: red}]}
attempts: -5
backoff: 2h
maxBackoff: 1h
maxFailures: 200%
take: x
faults: [{cluster: z, fail: 1}]
churn: [{at: 1m, remove: z}]
commands: [{at: 1m, do: skip}]
`, "1: profile", "2: clusters[0].name", "3: strategy.stages[0].color", "3: strategy.stages[0].name", "4: attempts",
		"6: maxBackoff", "7: maxFailures", "8: take", "9: faults[0].cluster", "10: churn[0].remove", "11: commands[0].target")
}

// Problems of the plan are reported together with other problems.
func TestProblemsOfThePlanAreReportedWithOthers(t *testing.T) {
	problems(t, "clusters: [{name: c1}]\nstrategy: {stages: [{name: a}]}\ntake: x\n", "1: clusters[0].name: cluster c1: in no stage", "3: take")
}

func TestProblemsOfDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "f.yaml:1: is empty",
		"# nothing\n":            "f.yaml:1: is empty",
		"[]":                     "f.yaml:1: must be an object, not a list",
		"a: b\n c: d":            "f.yaml:2: is not YAML: mapping values are not allowed",
		"a:\n\tb: c":             "indent with spaces, not with tabs",
		good + "take: 1s":        "f.yaml:4: is a second document; a file has one scenario, and may have one strategy",
		"a: &a [*a]":             "holds an alias of something that it is in itself",
		strings.Repeat("[", 200): "is not YAML",
		"a: " + strings.Repeat("[", 150) + strings.Repeat("]", 150): "is nested deeper than 100 levels",
		strings.Repeat("#", scenario.MaxBytes+1):                    "is longer than 4194304 bytes",
		bomb():                                                      "makes more than 1048576 values with its aliases written out",
	} {
		name := text[:min(len(text), 20)]
		t.Run(name, func(t *testing.T) { problems(t, text, want) })
	}
}

// bomb is a short document that is long when its aliases are written out.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x]\n")
	for i := range 30 {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return b.String()
}

func TestAScenarioHasABoundedNumberOfClusters(t *testing.T) {
	problems(t, "profile: ClusterUpdate\ncount:\n- {prefix: a, n: 60000}\n- {prefix: b, n: 60000}\n", "f.yaml:4: count[1]: makes more than 100000 clusters")
}

func TestManyProblemsAreCounted(t *testing.T) {
	text := "faults:\n" + strings.Repeat("- {fail: 1}\n", 1500)
	_, err := scenario.Read(strings.NewReader(text), "f.yaml")
	var got problem.List
	if !errors.As(err, &got) || len(got) != 1001 || !strings.Contains(got[1000].Text, "problems more") {
		t.Errorf("%d problems, the last one is %v", len(got), got[len(got)-1])
	}
	if !slices.IsSortedFunc(got, func(a, b problem.Problem) int { return a.Line - b.Line }) {
		t.Error("they are not in the order of lines")
	}
}

// FuzzRead checks that no input causes a panic, and that every problem has a line.
func FuzzRead(f *testing.F) {
	f.Add([]byte(everyField))
	f.Add([]byte(good))
	f.Add([]byte("clusters: [{name: c1, group: g1}]\nstrategy: {stages: [{name: a, groups: [{name: g1}]}]}"))
	for _, name := range []string{"staged", "clusterupdate", "workflow", "windows", "thousand"} {
		data, err := os.ReadFile("../../cmd/slipway/internal/simulate/testdata/" + name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scenario.Read(strings.NewReader(string(data)), "f.yaml")
		var problems problem.List
		if err == nil {
			if s.Plan == nil || s.Environment.Validate() != nil {
				t.Errorf("a scenario without a problem cannot be played: %v", s.Environment.Validate())
			}
			return
		}
		if !errors.As(err, &problems) || len(problems) == 0 {
			t.Fatalf("error = %v", err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Text == "" || p.File != "f.yaml" {
				t.Errorf("problem %#v", p)
			}
		}
	})
}
