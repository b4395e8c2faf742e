package azure_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/formats/azure"
	"github.com/slipway-dev/slipway/formats/problem"
)

// problems compares the problems that Read reports for a text, one line each.
func problems(t *testing.T, text string, want ...string) {
	t.Helper()
	s, err := azure.Read(strings.NewReader(text), "f")
	var got problem.List
	if !errors.As(err, &got) {
		t.Fatalf("error = %v, want %q\ninput:\n%s", err, want, text)
	}
	if s.Stages != nil {
		t.Errorf("a strategy beside the error: %+v", s)
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

// stage is a file with one stage that has a group; more stands on line 4.
func stage(more string) string {
	return "{\"stages\": [\n{\"name\": \"s\",\n\"groups\": [{\"name\": \"g\"}],\n" + more + "}]}"
}

func group(more string) string {
	return "{\"stages\": [\n{\"name\": \"s\",\n\"groups\": [{\"name\": \"g\",\n" + more + "}]}]}"
}

func TestProblemsOfStages(t *testing.T) {
	const limit = `must be a number of at least 1, or a percentage from 1% to 100%, such as "3" or "25%", not `
	const budget = `must be a number of at least 0, or a percentage from 0% to 100%, such as "3" or "25%", not `
	for text, want := range map[string]string{
		`"maxConcurency": "1"`:                                        "f:4: stages[0].maxConcurency: unknown field; known are afterGates, afterStageWaitInSeconds, beforeGates, groups, maxAllowedFailures, maxConcurrency, memberSelector, name",
		`"name": "t"`:                                                 "f:4: stages[0].name: is there already, on line 2; leave one of the two",
		`"maxConcurrency": 0`:                                         "f:4: stages[0].maxConcurrency: " + limit + "the number 0",
		`"maxConcurrency": "-1"`:                                      limit + `"-1"`,
		`"maxConcurrency": "0%"`:                                      limit + `"0%"`,
		`"maxConcurrency": "101%"`:                                    limit + `"101%"`,
		`"maxConcurrency": "05"`:                                      limit + `"05"`,
		`"maxConcurrency": "5.5"`:                                     limit + `"5.5"`,
		`"maxConcurrency": 5.5`:                                       limit + `the number 5.5`,
		`"maxConcurrency": 1e1`:                                       limit + `the number 1e1`,
		`"maxConcurrency": "all"`:                                     limit + `"all"`,
		`"maxConcurrency": ""`:                                        limit + `""`,
		`"maxConcurrency": true`:                                      limit + `a boolean`,
		`"maxConcurrency": "99999999999999999"`:                       limit + `"99999999999999999"`,
		`"maxConcurrency": "51"`:                                      "f:4: stages[0].maxConcurrency: must be at most 50, not 51",
		`"maxAllowedFailures": "-1"`:                                  "f:4: stages[0].maxAllowedFailures: " + budget + `"-1"`,
		`"maxAllowedFailures": "101%"`:                                budget + `"101%"`,
		`"maxAllowedFailures": []`:                                    budget + `a list`,
		`"afterStageWaitInSeconds": -1`:                               "stages[0].afterStageWaitInSeconds: must be from 0 to 31536000, not -1",
		`"afterStageWaitInSeconds": 31536001`:                         "must be from 0 to 31536000, not 31536001",
		`"afterStageWaitInSeconds": 1.5`:                              "must be a whole number, not the number 1.5",
		`"afterStageWaitInSeconds": "3600"`:                           "must be a whole number, not a string",
		`"memberSelector": {}`:                                        "stages[0].memberSelector.byLabel: is required",
		`"memberSelector": ""`:                                        "stages[0].memberSelector: must be a label selector of 1 to 512 characters, for example env=production",
		`"memberSelector": {"byLabel": "a in"}`:                       `stages[0].memberSelector.byLabel: "a in" must be a label selector, for example env=production,tier in (web,api): `,
		`"memberSelector": "a>1"`:                                     "numbers are not compared; use =, !=, in, notin, or the key alone",
		`"memberSelector": 5`:                                         "stages[0].memberSelector: must be a string, not the number 5",
		`"memberSelector": []`:                                        "stages[0].memberSelector: must be an object, not a list",
		`"memberSelector": "` + strings.Repeat("a,", 256) + `a"`:      "must be a label selector of 1 to 512 characters",
		`"beforeGates": {}`:                                           "stages[0].beforeGates: must be a list, not an object",
		`"beforeGates": [{}]`:                                         "stages[0].beforeGates[0].type: is required",
		`"beforeGates": [{"type": "Manual"}]`:                         `stages[0].beforeGates[0].type: must be Approval or ScheduledStart, not "Manual"`,
		`"beforeGates": [{"type": "Approval", "displayName": ""}]`:    "stages[0].beforeGates[0].displayName: must be 1 to 100 characters long, not 0",
		`"beforeGates": [{"type": "Approval"}, {"type": "Approval"}]`: "stages[0].beforeGates[1]: there is a gate of type Approval already",
		`"beforeGates": [{"type": "ScheduledStart"}]`:                 "stages[0].beforeGates[0].scheduledStartConfiguration: is required with type ScheduledStart",
		`"beforeGates": [{"type": "Approval", ` + schedule("Monday", "00:00", "+00:00") + `}]`:       "stages[0].beforeGates[0].scheduledStartConfiguration: goes with type ScheduledStart only",
		`"beforeGates": [{"type": "ScheduledStart", ` + schedule("Mon", "00:00", "+00:00") + `}]`:    `stages[0].beforeGates[0].scheduledStartConfiguration.startDay: must be Sunday or Monday`,
		`"beforeGates": [{"type": "ScheduledStart", ` + schedule("Monday", "24:00", "+00:00") + `}]`: `scheduledStartConfiguration.startTime: must be a time of day from 00:00 to 23:59, not "24:00"`,
		`"beforeGates": [{"type": "ScheduledStart", ` + schedule("Monday", "00:00", "2h") + `}]`:     `scheduledStartConfiguration.utcOffset: must be a distance from UTC such as +02:00 or -08:00, not "2h"`,
		`"beforeGates": [{"type": "ScheduledStart", ` + schedule("Monday", "00:00", "-13:00") + `}]`: `scheduledStartConfiguration.utcOffset: Invalid value: "-13:00"`,
		`"beforeGates": [{"type": "ScheduledStart", "scheduledStartConfiguration": {}}]`:             "scheduledStartConfiguration.startDay: is required\nscheduledStartConfiguration.startTime: is required\nscheduledStartConfiguration.utcOffset: is required",
		`"afterGates": [{"type": "ScheduledStart", ` + schedule("Monday", "00:00", "+00:00") + `}]`:  "stages[0].afterGates[0].type: a ScheduledStart is a gate before something; write it in beforeGates of what comes next",
		`"afterGates": [{"type": "Approval", "displayName": "` + strings.Repeat("ä", 101) + `"}]`:    "stages[0].afterGates[0].displayName: must be 1 to 100 characters long, not 101",
	} {
		t.Run(text, func(t *testing.T) { problems(t, stage(text), strings.Split(want, "\n")...) })
	}
}

func schedule(day, time, offset string) string {
	return fmt.Sprintf(`"scheduledStartConfiguration": {"startDay": %q, "startTime": %q, "utcOffset": %q}`, day, time, offset)
}

func TestProblemsOfGroups(t *testing.T) {
	for text, want := range map[string]string{
		`"strict": true`:                                              "f:4: stages[0].groups[0].strict: unknown field; known are afterGates, beforeGates, maxAllowedFailures, maxConcurrency, memberSelector, name",
		`"maxConcurrency": "51"`:                                      "f:4: stages[0].groups[0].maxConcurrency: must be at most 50, not 51",
		`"maxAllowedFailures": "x"`:                                   "f:4: stages[0].groups[0].maxAllowedFailures: must be a number of at least 0",
		`"afterStageWaitInSeconds": 5`:                                "stages[0].groups[0].afterStageWaitInSeconds: unknown field",
		`"afterGates": [{"type": "Manually"}]`:                        `stages[0].groups[0].afterGates[0].type: must be Approval or ScheduledStart, not "Manually"`,
		`"beforeGates": [{"type": "Approval"}, {"type": "Approval"}]`: "stages[0].groups[0].beforeGates[1]: there is a gate of type Approval already",
	} {
		t.Run(text, func(t *testing.T) { problems(t, group(text), want) })
	}
}

// TestAllProblemsAreToldAtOnce: names, duplicates inside a stage and across stages,
// a group that may do more than its stage, a stage that selects no cluster.
func TestAllProblemsAreToldAtOnce(t *testing.T) {
	problems(t, `{
  "stages": [
    {"name": "Stage", "groups": [{"name": "a"}, {"name": "a"}]},
    {"name": "b", "maxConcurrency": "2", "groups": [
      {"name": "a"},
      {"name": "c", "maxConcurrency": "3"}
    ]},
    {"name": "b"},
    {"groups": [{"name": ""}, {"name": "-x"}, {"name": "`+strings.Repeat("n", 51)+`"}, {}, 7]},
    {"name": "remove", "groups": []}
  ],
  "more": 1
}`,
		`f:3: stages[0].name: "Stage" must be 1 to 50 lower-case letters, digits and hyphens, and begin and end with a letter or a digit`,
		`f:3: stages[0].groups[1].name: the group "a" is there already, on line 3; a group is in one stage, once`,
		`f:5: stages[1].groups[0].name: the group "a" is there already, on line 3; a group is in one stage, once`,
		`f:6: stages[1].groups[1].maxConcurrency: 3 is more than the maxConcurrency of the stage, 2`,
		`f:8: stages[2].groups: is required; or write a memberSelector`,
		`f:8: stages[2].name: Duplicate value: "b"`,
		`f:9: stages[3].groups[0].name: "" must be 1 to 50 lower-case letters`,
		`f:9: stages[3].groups[1].name: "-x" must be 1 to 50 lower-case letters`,
		`f:9: stages[3].groups[2].name: "`+strings.Repeat("n", 51)+`" must be 1 to 50 lower-case letters`,
		`f:9: stages[3].groups[3].name: is required`,
		`f:9: stages[3].groups[4]: must be an object, not the number 7`,
		`f:9: stages[3].name: is required`,
		`f:10: stages[4].groups: is required; or write a memberSelector`,
		`f:10: stages[4].name: Invalid value: "remove": is reserved for a stage that the planner adds`,
		`f:12: more: unknown field; known are slipwayRollback, stages`,
	)
}

func TestAStageHasAtMost50Groups(t *testing.T) {
	groups := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"name": "g%d"}`, i))
		}
		return `{"stages": [{"name": "s", "groups": [` + strings.Join(all, ",\n") + `]}]}`
	}
	if s, err := azure.Read(strings.NewReader(groups(50)), "f"); err != nil || len(s.Stages[0].Groups) != 50 {
		t.Errorf("50 groups: %v", err)
	}
	problems(t, groups(51), "f:1: stages[0].groups: has 51 groups; a stage has at most 50")
}

func TestSyntaxErrorsHaveALine(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "f:1: is not JSON: it ends too early",
		"{\n\"stages\": [\n":       "f:3: is not JSON: it ends too early",
		"{\n\"stages\": [\n{,}]}":  "f:3: is not JSON: invalid character ','",
		"{\n\"stages\": []\n}\n{}": "f:4: is not JSON: something follows the value that the file is",
		"stages: []":               "f:1: is not JSON: invalid character 's'",
		"[]":                       "f:1: must be an object, not a list",
		"null":                     "f:1: must be an object, not null",
		"{}":                       "f:1: stages: is required",
		"{\"stages\": null}":       "f:1: stages: is required",
		"{\"stages\": []}":         "f:1: stages: Required value: a strategy needs at least one stage",
		"{\"stages\": {}}":         "f:1: stages: must be a list, not an object",
		"{\"stages\": [\n\"a\"]}":  "f:2: stages[0]: must be an object, not a string",
		"{\"\": 1, \"stages\": [{\"name\": \"a\", \"memberSelector\": \"x\"}]}": `f:1: "": unknown field`,
	} {
		t.Run(text, func(t *testing.T) { problems(t, text, want) })
	}
}

// TestHostileInputIsBounded: long, deep or wrong input costs little and is not repeated.
func TestHostileInputIsBounded(t *testing.T) {
	problems(t, strings.Repeat(" ", azure.MaxBytes)+"{}", "f:1: is longer than 4194304 bytes; write it as several")
	problems(t, strings.Repeat("[", 100_000), "f:1: is not JSON: it is nested deeper than 100 levels")
	problems(t, `{"stages": [`+strings.Repeat(`{"name": "a", "memberSelector": "x"},`, 5_000)+`1]}`,
		"f:1: stages: has 5001 stages; at most 100 are read")
	_, err := azure.Read(strings.NewReader(`{"stages": [{"name": "a", "memberSelector": "x", "beforeGates": [`+strings.Repeat("1,", 50_000)+`1]}]}`), "f")
	var all problem.List
	if !errors.As(err, &all) || len(all) != 1001 || all[1000].Text != "and 49001 problems more" {
		t.Errorf("%d problems, the last %v", len(all), all[max(0, len(all)-1):])
	}
	long := strings.Repeat("x", 900_000)
	for _, text := range []string{
		`{"` + long + `": 1}`, `{"stages": [{"name": "` + long + `"}]}`, `{"stages": [{"name": "a", "memberSelector": "a in ` + long[:500] + `"}]}`,
		`{"stages": [{"name": "a", "maxConcurrency": ` + strings.Repeat("9", 900_000) + `}]}`,
	} {
		if _, err := azure.Read(strings.NewReader(text), "f"); err == nil || len(err.Error()) > 1000 {
			t.Errorf("an error of %d bytes", len(fmt.Sprint(err)))
		}
	}
}

// FuzzRead: Read returns for every input, and writing an accepted input reproduces it.
func FuzzRead(f *testing.F) {
	f.Add(stage(`"afterStageWaitInSeconds": 3600`))
	f.Add(group(`"maxConcurrency": "25%"`))
	f.Add(`{"stages": [{"name": "a", "memberSelector": {"byLabel": "x in (y,z),!w"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := azure.Read(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		written, err := formOf(azure.Form(s))
		if err != nil {
			t.Fatalf("%q is read and not written: %v", text, err)
		}
		again, err := azure.Read(strings.NewReader(string(written)), "f")
		if err != nil {
			t.Fatalf("%q is written as %s and not read again: %v", text, written, err)
		}
		if twice, err := formOf(azure.Form(again)); err != nil || string(twice) != string(written) {
			t.Fatalf("%s is read and written as %s, %v", written, twice, err)
		}
	})
}
