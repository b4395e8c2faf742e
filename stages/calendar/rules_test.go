package calendar_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/stages/calendar"
)

// problems returns the paths and texts of the problems in err.
func problems(t *testing.T, err error) []string {
	t.Helper()
	var all utilerrors.Aggregate
	if err != nil && !errors.As(err, &all) {
		t.Fatalf("%v is no aggregate", err)
	}
	var list []string
	for i := 0; err != nil && i < len(all.Errors()); i++ {
		var problem *field.Error
		if !errors.As(all.Errors()[i], &problem) {
			t.Fatalf("%v is no problem of a field", all.Errors()[i])
		}
		list = append(list, problem.Field+": "+problem.Detail)
	}
	return list
}

func TestInvalidRulesAreRefused(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct {
		rule, start string
		d           time.Duration
		// want are parts of the problems, separated by |.
		want string
	}{
		{"", "", h, "rrule: for example FREQ=DAILY"},
		{"FREQ", "", h, "is not <name>=<value>|FREQ is missing"},
		{"FREQ=DAILY;", "", h, `"" is not <name>=<value>`},
		{"BYHOUR=2", "", h, "FREQ is missing"},
		{"FREQ=SOMETIMES", "", h, "FREQ=SOMETIMES is none of YEARLY"},
		{"FREQ=SECONDLY", "", h, "at most MINUTELY"},
		{"FREQ=DAILY;FREQ=DAILY", "", h, "FREQ is given twice"},
		{"FREQ=DAILY;BYHOUR=24;BYMINUTE=60;BYSECOND=60", "", h, "BYHOUR: 24 is not a number from 0 to 23|BYMINUTE: 60 is|BYSECOND: 60 is"},
		{"FREQ=DAILY;BYMONTHDAY=0;BYMONTH=13", "", h, "from 1 to 31 or from -31 to -1|BYMONTH: 13"},
		{"FREQ=DAILY;BYHOUR=two", "", h, "BYHOUR: TWO is not a number"},
		{"FREQ=DAILY;BYDAY=XX,M", "", h, `BYDAY: "XX" is none of MO|BYDAY: "M" is none of`},
		{"FREQ=MONTHLY;BYDAY=0MO", "", h, "BYDAY: 0 is not a number"},
		{"FREQ=MONTHLY;BYDAY=6MO,-6TU", "", h, "a month has no +6MO|a month has no -6TU"},
		{"FREQ=MONTHLY;BYDAY=MO,1TU", "", h, "with and without a number"},
		{"FREQ=WEEKLY;BYDAY=1MO", "", h, "BYDAY with numbers goes with"},
		{"FREQ=YEARLY;BYDAY=1MO;BYWEEKNO=1", "", h, "BYDAY with numbers goes with"},
		{"FREQ=MONTHLY;BYWEEKNO=1;BYDAY=MO", "", h, "BYWEEKNO goes with FREQ=YEARLY only"},
		{"FREQ=YEARLY;BYWEEKNO=-1;BYDAY=MO", "", h, "BYWEEKNO: -1 is not"},
		{"FREQ=DAILY;BYYEARDAY=1", "", h, "BYYEARDAY does not go with FREQ=DAILY"},
		{"FREQ=WEEKLY;BYDAY=MO;BYMONTHDAY=1", "", h, "BYMONTHDAY does not go with FREQ=WEEKLY"},
		{"FREQ=HOURLY;BYHOUR=1;BYSETPOS=1", "", h, "BYSETPOS does not go with FREQ=HOURLY"},
		{"FREQ=DAILY;BYSETPOS=1", "", h, "BYSETPOS picks from"},
		{"FREQ=YEARLY;BYEASTER=1", "", h, "BYEASTER is not a part|"},
		{"FREQ=DAILY;DTSTART=20260101", "", h, "give it as start"},
		{"FREQ=DAILY;COUNT=2;UNTIL=20260101", "2026-01-01T00:00", h, "COUNT and UNTIL exclude each other"},
		{"FREQ=DAILY;COUNT=2", "", h, "COUNT needs a start"},
		{"FREQ=DAILY;COUNT=1001", "2026-01-01T00:00", h, "COUNT: 1001 is not a number from 1 to 1000"},
		{"FREQ=DAILY;INTERVAL=0", "", h, "INTERVAL: 0 is not"},
		{"FREQ=DAILY;INTERVAL=99999999999999999999", "", h, "INTERVAL: 99999999999999999999 is not"},
		{"FREQ=DAILY;INTERVAL=2", "", h, "INTERVAL=2 with FREQ=DAILY needs a start"},
		{"FREQ=HOURLY;INTERVAL=5", "", h, "INTERVAL=5 with FREQ=HOURLY needs a start"},
		{"FREQ=WEEKLY", "", h, "FREQ=WEEKLY needs BYDAY, or a start"},
		{"FREQ=MONTHLY;BYMONTH=1", "", h, "FREQ=MONTHLY needs BYMONTHDAY or BYDAY, or"},
		{"FREQ=YEARLY;BYMONTH=1", "", h, "FREQ=YEARLY needs BYMONTHDAY, BYYEARDAY or BYDAY, or"},
		{"FREQ=YEARLY;BYWEEKNO=1", "", h, "FREQ=YEARLY needs BYDAY, or"},
		{"FREQ=DAILY;UNTIL=tomorrow", "", h, "UNTIL=TOMORROW is neither a date"},
		{"FREQ=DAILY;UNTIL=20260101", "2026-02-01T00:00", h, "ends before it occurs for the first time, which is at 2026-02-01T00:00:00Z"},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "", h, "never occurs"},
		{"FREQ=MINUTELY;BYHOUR=1;BYMONTH=2;BYMONTHDAY=30", "", h, "never occurs"},
		{"FREQ=YEARLY;INTERVAL=2;BYMONTH=2;BYMONTHDAY=29", "2025-01-01T00:00", h, "never occurs from its start on"},
		{"FREQ=HOURLY;INTERVAL=24;BYHOUR=3", "2026-01-01T02:00", h, "never comes to a time"},
		{"FREQ=MINUTELY;INTERVAL=7;BYDAY=TH;BYHOUR=0;BYMINUTE=1", "2026-01-01T00:00", h, "never comes to a time"},
		{"FREQ=DAILY;INTERVAL=7;BYDAY=MO", "2026-01-01T00:00", h, "never comes to a time"},
		{"FREQ=DAILY;BYSECOND=0,30", "", h, "BYSECOND has more than one"},
		{"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9;BYMINUTE=0,5,10,15,20,25,30,35,40,45", "", time.Minute, "100 times of the day, which is more than 96"},
		{"FREQ=DAILY;BYHOUR=" + strings.Repeat("1,", 1000) + "1", "", h, "more than 2000 characters"},
		{"FREQ=DAILY", "", 0, "duration: must be more than 0"},
		{"FREQ=DAILY", "", -h, "duration: must be more than 0"},
		{"FREQ=YEARLY;BYYEARDAY=1", "", 366*24*h + 1, "at most 8784h"},
		{"FREQ=DAILY", "", 25 * h, "duration: is longer than the 24h0m0s from one start"},
		{"FREQ=WEEKLY;BYDAY=MO", "", 169 * h, "duration: is longer than the 168h0m0s"},
		{"FREQ=HOURLY;INTERVAL=2", "", 2*h + 1, "duration: is longer than the 2h0m0s"},
		{"FREQ=MINUTELY", "", 2 * time.Minute, "duration: is longer than the 1m0s"},
		{"FREQ=DAILY", "tomorrow", h, "start: must be a local time"},
		{"FREQ=DAILY", "1969-12-31T00:00", h, "start: must be a local time from 1970"},
		{"FREQ=DAILY;BYHOUR=24", "x", 0, "duration: |start: |rrule: BYHOUR"},
	} {
		w := window(c.rule, c.d)
		w.Start = c.start
		got := problems(t, calendar.Rules{Run: level("", w)}.Validate())
		want := strings.Split(strings.TrimSuffix(c.want, "|"), "|")
		if len(got) != len(want) {
			t.Errorf("%s: %d problems instead of %d: %q", c.rule, len(got), len(want), got)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], "run.windows[0].") || !strings.Contains(got[i], want[i]) {
				t.Errorf("%s: %q has no %q", c.rule, got[i], want[i])
			}
		}
	}
}

func TestValidRulesAreAccepted(t *testing.T) {
	const h = time.Hour
	for _, c := range []struct {
		rule string
		d    time.Duration
	}{
		{"FREQ=DAILY", 24 * h},
		{"FREQ=DAILY;BYDAY=SA", 60 * h},
		{"FREQ=DAILY;BYHOUR=2,2;BYDAY=MO,MO", h},
		{"FREQ=DAILY;UNTIL=30000101", h},
		{"FREQ=WEEKLY;BYDAY=FR;BYHOUR=20", 168 * h},
		{"FREQ=WEEKLY;BYMONTH=3;BYDAY=MO", 200 * h},
		{"FREQ=MONTHLY;BYMONTHDAY=1", 31 * 24 * h},
		{"FREQ=YEARLY;BYYEARDAY=1", 366 * 24 * h},
		{"FREQ=YEARLY;BYDAY=53MO", h},
		{"FREQ=HOURLY;BYHOUR=1,2", 5 * h},
		{"FREQ=MINUTELY", time.Minute},
		{"FREQ=MINUTELY;BYHOUR=1", 5 * h},
	} {
		if err := (calendar.Rules{Run: level("Europe/Berlin", window(c.rule, c.d))}).Validate(); err != nil {
			t.Errorf("%s: %v", c.rule, err)
		}
	}
}

func TestAllProblemsAreReportedWithTheirPaths(t *testing.T) {
	bad := window("FREQ=DAILY;BYHOUR=25", time.Hour)
	bad.TimeZone = "CEST"
	hours := metav1.Duration{Duration: time.Hour}
	rules := calendar.Rules{
		TimeZone: "Local",
		Run: calendar.Level{TimeZone: "europe/berlin", Freezes: []calendar.Freeze{
			{Name: "nothing"},
			{From: "2026-01-01T00:00:00Z", RRule: "FREQ=DAILY", Duration: hours},
			{From: "2026-01-01", Until: "soon"},
			{From: "2026-01-02T00:00", Until: "2026-01-02T00:00:00Z"},
			{RRule: "FREQ=DAILY"},
			{RRule: "FREQ=DAILY", Duration: hours},
		}},
		Stages:   map[string]calendar.Level{"canary": level("", bad)},
		Groups:   map[string]calendar.Level{"canary/a": {TimeZone: "../etc/passwd"}},
		Clusters: map[string]calendar.Level{"paris": level("UTC", bad), "berlin": level("UTC", window("FREQ=DAILY", time.Hour), bad)},
	}
	const zone = "is not the name of a time zone in the IANA database"
	want := []string{
		"timeZone: means another zone on every host",
		"run.timeZone: " + zone + ": it is Europe/Berlin",
		"run.freezes[0]: a freeze needs from or until",
		"run.freezes[1]: a freeze is either",
		"run.freezes[2].from: must be a time with an offset",
		"run.freezes[2].until: must be a time with an offset",
		"run.freezes[3].until: must be after from, which is 2026-01-02T00:00",
		"run.freezes[4].duration: must be more than 0",
		"stages[canary].windows[0].timeZone: " + zone + ", which are for example",
		"stages[canary].windows[0].rrule: BYHOUR: 25",
		"groups[canary/a].timeZone: " + zone,
		"clusters[berlin].windows[1].timeZone: " + zone,
		"clusters[berlin].windows[1].rrule: BYHOUR: 25",
		"clusters[paris].windows[0].timeZone: " + zone,
		"clusters[paris].windows[0].rrule: BYHOUR: 25",
	}
	_, err := rules.For(planOf(t, nil))
	for name, err := range map[string]error{"Validate": rules.Validate(), "For": err} {
		got := problems(t, err)
		if len(got) != len(want) {
			t.Fatalf("%s: %d problems instead of %d:\n%s", name, len(got), len(want), strings.Join(got, "\n"))
		}
		for i := range got {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%s: %q does not begin with %q", name, got[i], want[i])
			}
		}
	}
	l := rules.Clusters["paris"]
	if got := l.Problems(field.NewPath("clusters").Index(3)); len(got) != 2 || got[0].Field != "clusters[3].windows[0].timeZone" {
		t.Errorf("the problems of a level elsewhere: %v", got)
	}
}

func TestUnusedNamesAreListed(t *testing.T) {
	plan := planOf(t, map[string]string{"a1": "a", "r1": ""})
	some := map[string]calendar.Level{}
	for _, name := range []string{"canary", "rest", "a", "canary/b", "rest/a", "a1", "r1", "x", ""} {
		some[name] = calendar.Level{}
	}
	rules := calendar.Rules{Stages: some, Groups: some, Clusters: some}
	want := []string{
		"clusters[]", "clusters[a]", "clusters[canary/b]", "clusters[canary]", "clusters[rest/a]", "clusters[rest]", "clusters[x]",
		"groups[]", "groups[a1]", "groups[canary]", "groups[r1]", "groups[rest/a]", "groups[rest]", "groups[x]",
		"stages[]", "stages[a1]", "stages[a]", "stages[canary/b]", "stages[r1]", "stages[rest/a]", "stages[x]",
	}
	if diff := cmp.Diff(want, rules.Unused(plan)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRulesAreReadFromJSON(t *testing.T) {
	const text = `{"timeZone":"Europe/Berlin","run":{"freezes":[{"name":"black-friday","from":"2026-11-27T00:00","until":"2026-11-30T00:00"},` +
		`{"name":"evening","reason":"calls","rrule":"FREQ=DAILY;BYHOUR=18","duration":"1h30m0s"}]},` +
		`"groups":{"canary/a":{"windows":[{"rrule":"FREQ=DAILY;BYHOUR=2","start":"2026-01-05T00:00","duration":"2h0m0s","timeZone":"UTC"}]}}}`
	var rules calendar.Rules
	if err := json.Unmarshal([]byte(text), &rules); err != nil {
		t.Fatal(err)
	}
	if err := rules.Validate(); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(rules)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, string(again)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
