package calendar_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

func TestStartsOnDaysOfClockChanges(t *testing.T) {
	for _, c := range []struct{ name, zone, start, at, opens, closes string }{
		{"skipped hour", "Europe/Berlin", "02:30", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"repeated hour, the first", "Europe/Berlin", "02:30", "2026-10-24T22:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"repeated hour, once", "Europe/Berlin", "02:30", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z", "2026-10-26T02:30:00Z"},
		{"end of the skipped hour", "Europe/Berlin", "03:00", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		{"end of the repeated hour", "Europe/Berlin", "03:00", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z"},
		{"skipped hour", "America/New_York", "02:00", "2026-03-08T00:00:00Z", "2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z"},
		{"repeated hour", "America/New_York", "01:15", "2026-11-01T00:00:00Z", "2026-11-01T05:15:00Z", "2026-11-01T06:15:00Z"},
		{"skipped half an hour", "Australia/Lord_Howe", "02:15", "2026-10-03T00:00:00Z", "2026-10-03T15:30:00Z", "2026-10-03T16:30:00Z"},
		{"repeated half an hour", "Australia/Lord_Howe", "01:45", "2026-04-04T12:00:00Z", "2026-04-04T14:45:00Z", "2026-04-04T15:45:00Z"},
		{"clocks that are not set", "Asia/Kolkata", "02:30", "2026-03-29T00:00:00Z", "2026-03-29T21:00:00Z", "2026-03-29T22:00:00Z"},
		{"last day of a leap year", "Europe/Berlin", "12:00", "2040-12-31T00:00:00Z", "2040-12-31T11:00:00Z", "2040-12-31T12:00:00Z"},
		{"first day after a leap year", "Europe/Berlin", "12:00", "2041-01-01T00:00:00Z", "2041-01-01T11:00:00Z", "2041-01-01T12:00:00Z"},
		{"night after a leap year", "Europe/Berlin", "00:30", "2040-12-31T12:00:00Z", "2040-12-31T23:30:00Z", "2041-01-01T00:30:00Z"},
		{"last day of a leap year", "America/New_York", "22:00", "2028-12-31T12:00:00Z", "2029-01-01T03:00:00Z", "2029-01-01T04:00:00Z"},
		{"a day that there was not", "Pacific/Apia", "12:00", "2011-12-30T00:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T11:00:00Z"},
	} {
		t.Run(c.zone+"/"+c.name, func(t *testing.T) {
			rule := "FREQ=DAILY;BYHOUR=" + c.start[:2] + ";BYMINUTE=" + c.start[3:]
			of := askOne(t, level(c.zone, window(rule, time.Hour)))
			opens, closes := utc(t, c.opens), utc(t, c.closes)
			shut := stages.Window{Limited: true, Until: opens, Reason: "outside its maintenance window"}
			open := stages.Window{Limited: true, Open: true, Until: closes}
			for at, want := range map[time.Time]stages.Window{
				utc(t, c.at): shut, opens.Add(-1): shut, opens: open, closes.Add(-1): open,
			} {
				if diff := cmp.Diff(want, of(at)); diff != "" {
					t.Errorf("at %v (-want +got):\n%s", at, diff)
				}
			}
			if of(closes).Open {
				t.Error("it is open when it has closed")
			}
		})
	}
}

// TestRulesOccur has for each rule the first three starts after a time.
func TestRulesOccur(t *testing.T) {
	for _, c := range []struct {
		rule, start, at string
		want            [3]string
	}{
		{"FREQ=DAILY;BYHOUR=2", "", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T02:00:00Z", "2026-01-07T02:00:00Z", "2026-01-08T02:00:00Z"}},
		{"freq=daily;byhour=2;byminute=30", "", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T02:30:00Z", "2026-01-07T02:30:00Z", "2026-01-08T02:30:00Z"}},
		{"RRULE:FREQ=DAILY", "", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T00:00:00Z", "2026-01-07T00:00:00Z", "2026-01-08T00:00:00Z"}},
		{"FREQ=DAILY", "2026-01-01T02:30:15", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T02:30:15Z", "2026-01-07T02:30:15Z", "2026-01-08T02:30:15Z"}},
		{"FREQ=DAILY;BYHOUR=4", "2026-01-01T02:30:15", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T04:00:00Z", "2026-01-07T04:00:00Z", "2026-01-08T04:00:00Z"}},
		{"FREQ=DAILY;BYMINUTE=5", "2026-01-01T02:30:15", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T02:05:00Z", "2026-01-07T02:05:00Z", "2026-01-08T02:05:00Z"}},
		{"FREQ=DAILY;INTERVAL=10", "2026-01-01T02:00", "2026-01-05T10:00:00Z", [3]string{"2026-01-11T02:00:00Z", "2026-01-21T02:00:00Z", "2026-01-31T02:00:00Z"}},
		{"FREQ=DAILY;COUNT=3", "2026-01-05T02:00", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T02:00:00Z", "2026-01-07T02:00:00Z"}},
		{"FREQ=DAILY;UNTIL=20260106", "2026-01-05T02:00", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T02:00:00Z"}},
		{"FREQ=DAILY;UNTIL=20260106T020000Z", "2026-01-05T02:00", "2026-01-05T10:00:00Z", [3]string{"2026-01-06T02:00:00Z"}},
		{"FREQ=DAILY;UNTIL=20260106T015959", "2026-01-05T02:00", "2026-01-05T01:00:00Z", [3]string{"2026-01-05T02:00:00Z"}},
		{"FREQ=DAILY", "2026-03-01T02:00", "2026-01-05T10:00:00Z", [3]string{"2026-03-01T02:00:00Z", "2026-03-02T02:00:00Z", "2026-03-03T02:00:00Z"}},
		{"FREQ=HOURLY;INTERVAL=6", "", "2026-01-05T10:00:00Z", [3]string{"2026-01-05T12:00:00Z", "2026-01-05T18:00:00Z", "2026-01-06T00:00:00Z"}},
		{"FREQ=HOURLY;INTERVAL=36;BYMINUTE=10", "2026-01-01T03:20", "2026-01-05T10:00:00Z", [3]string{"2026-01-05T15:10:00Z", "2026-01-07T03:10:00Z", "2026-01-08T15:10:00Z"}},
		{"FREQ=MINUTELY;INTERVAL=20;BYHOUR=2", "", "2026-01-05T02:05:00Z", [3]string{"2026-01-05T02:20:00Z", "2026-01-05T02:40:00Z", "2026-01-06T02:00:00Z"}},
		{"FREQ=WEEKLY;BYDAY=SA;BYHOUR=22", "", "2026-01-05T10:00:00Z", [3]string{"2026-01-10T22:00:00Z", "2026-01-17T22:00:00Z", "2026-01-24T22:00:00Z"}},
		{"FREQ=WEEKLY", "2026-01-07T03:00", "2026-01-07T03:00:00Z", [3]string{"2026-01-14T03:00:00Z", "2026-01-21T03:00:00Z", "2026-01-28T03:00:00Z"}},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=MO", "1997-08-05T09:00", "1997-08-01T00:00:00Z", [3]string{"1997-08-05T09:00:00Z", "1997-08-10T09:00:00Z", "1997-08-19T09:00:00Z"}},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", "1997-08-05T09:00", "1997-08-01T00:00:00Z", [3]string{"1997-08-05T09:00:00Z", "1997-08-17T09:00:00Z", "1997-08-19T09:00:00Z"}},
		{"FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", "1997-08-03T09:00", "1997-08-01T00:00:00Z", [3]string{"1997-08-03T09:00:00Z", "1997-08-05T09:00:00Z", "1997-08-17T09:00:00Z"}},
		{"FREQ=MONTHLY;BYMONTHDAY=31;BYHOUR=1", "", "2026-01-31T10:00:00Z", [3]string{"2026-03-31T01:00:00Z", "2026-05-31T01:00:00Z", "2026-07-31T01:00:00Z"}},
		{"FREQ=MONTHLY;BYDAY=1SA", "", "2026-01-05T10:00:00Z", [3]string{"2026-02-07T00:00:00Z", "2026-03-07T00:00:00Z", "2026-04-04T00:00:00Z"}},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "", "2026-01-05T10:00:00Z", [3]string{"2026-01-30T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-31T00:00:00Z"}},
		{"FREQ=MONTHLY;INTERVAL=18", "1997-09-10T09:00", "2026-01-05T10:00:00Z", [3]string{"2026-03-10T09:00:00Z", "2027-09-10T09:00:00Z", "2029-03-10T09:00:00Z"}},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", "", "2026-01-05T10:00:00Z", [3]string{"2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z", "2036-02-29T00:00:00Z"}},
		{"FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10", "", "2026-01-05T10:00:00Z", [3]string{"2026-10-25T00:00:00Z", "2027-10-31T00:00:00Z", "2028-10-29T00:00:00Z"}},
		{"FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "", "1997-05-01T00:00:00Z", [3]string{"1997-05-12T00:00:00Z", "1998-05-11T00:00:00Z", "1999-05-17T00:00:00Z"}},
		{"FREQ=YEARLY;INTERVAL=3;BYYEARDAY=1,100,200", "1997-01-01T09:00", "1997-05-01T00:00:00Z", [3]string{"1997-07-19T09:00:00Z", "2000-01-01T09:00:00Z", "2000-04-09T09:00:00Z"}},
		{"FREQ=YEARLY", "2026-01-04T09:00", "2026-01-05T00:00:00Z", [3]string{"2027-01-04T09:00:00Z", "2028-01-04T09:00:00Z", "2029-01-04T09:00:00Z"}},
		{"FREQ=YEARLY;INTERVAL=5", "2026-01-04T09:00", "2026-01-05T00:00:00Z", [3]string{"2031-01-04T09:00:00Z", "2036-01-04T09:00:00Z", "2041-01-04T09:00:00Z"}},
	} {
		w := window(c.rule, time.Minute)
		w.Start = c.start
		of, at := askOne(t, level("", w)), utc(t, c.at)
		if now := of(at); now.Open {
			at = now.Until
		}
		for _, want := range c.want {
			next := of(at).Until
			if want == "" {
				if !next.IsZero() {
					t.Errorf("%s: opens at %v, want never again", c.rule, next)
				}
				break
			}
			if !next.Equal(utc(t, want)) {
				t.Errorf("%s from %s: after %v opens at %v, want %s", c.rule, c.start, at, next, want)
				break
			}
			at = next.Add(time.Minute)
		}
	}
}

func TestWindowsOfALevelAreAlternativesAndLevelsMustAgree(t *testing.T) {
	const h = time.Hour
	plan := planOf(t, map[string]string{"a1": "a", "a2": "a", "b1": "b", "r1": ""})
	rules := calendar.Rules{
		Run:      level("", window("FREQ=DAILY;BYHOUR=0", 12*h)),
		Stages:   map[string]calendar.Level{"rest": level("", window("FREQ=DAILY;BYHOUR=11", 3*h))},
		Groups:   map[string]calendar.Level{"a": level("", window("FREQ=DAILY;BYHOUR=2", 2*h), window("FREQ=DAILY;BYHOUR=4", 2*h)), "canary/b": level("", window("FREQ=DAILY;BYHOUR=7", h))},
		Clusters: map[string]calendar.Level{"a2": level("", window("FREQ=DAILY;BYHOUR=5", 9*h))},
	}
	of := ask(t, plan, rules)
	day := utc(t, "2026-01-05T00:00:00Z")
	for cluster, hours := range map[string][2]int{"a1": {2, 6}, "a2": {5, 6}, "b1": {7, 8}, "r1": {11, 12}} {
		first, last := day.Add(time.Duration(hours[0])*h), day.Add(time.Duration(hours[1])*h)
		if w := of(cluster, day); w.Open || w.Until != first {
			t.Errorf("%s at midnight: %+v, want closed until %v", cluster, w, first)
		}
		if w := of(cluster, first); !w.Open || w.Until != last {
			t.Errorf("%s at %v: %+v, want open until %v", cluster, first, w, last)
		}
		if w := of(cluster, last); w.Open {
			t.Errorf("%s is open at %v", cluster, last)
		}
	}
}

func TestAFreezeOfAnyLevelWins(t *testing.T) {
	plan := planOf(t, map[string]string{"a1": "a", "b1": "b", "r1": ""})
	freeze := func(name, from, until string) calendar.Level {
		return calendar.Level{TimeZone: "Europe/Berlin", Freezes: []calendar.Freeze{{Name: name, From: from, Until: until}}}
	}
	rules := calendar.Rules{
		Run:      freeze("black-friday", "2026-11-27T00:00", "2026-11-30T00:00"),
		Stages:   map[string]calendar.Level{"canary": freeze("audit", "", "2026-01-01T00:00:00Z")},
		Groups:   map[string]calendar.Level{"a": freeze("holiday", "2026-12-24T00:00:00+01:00", "2026-12-27T00:00:00+01:00")},
		Clusters: map[string]calendar.Level{"r1": {Freezes: []calendar.Freeze{{Name: "incident", Reason: "its disk is full", From: "2026-12-01T00:00"}}}},
	}
	of := ask(t, plan, rules)
	for _, c := range []struct{ cluster, at, reason, until string }{
		{"a1", "2025-12-31T00:00:00Z", "freeze audit", "2026-01-01T00:00:00Z"},
		{"a1", "2026-01-01T00:00:00Z", "", "2026-11-26T23:00:00Z"},
		{"a1", "2026-11-26T23:00:00Z", "freeze black-friday", "2026-11-29T23:00:00Z"},
		{"a1", "2026-12-24T00:00:00Z", "freeze holiday", "2026-12-26T23:00:00Z"},
		{"b1", "2026-12-24T00:00:00Z", "", ""},
		{"r1", "2025-12-31T00:00:00Z", "", "2026-11-26T23:00:00Z"},
		{"r1", "2026-12-01T00:00:00Z", "freeze incident: its disk is full", ""},
	} {
		want := stages.Window{Limited: c.reason != "", Open: c.reason == "", Reason: c.reason}
		if c.until != "" {
			want.Until = utc(t, c.until)
		}
		if diff := cmp.Diff(want, of(c.cluster, utc(t, c.at))); diff != "" {
			t.Errorf("%s at %s (-want +got):\n%s", c.cluster, c.at, diff)
		}
	}
}

func TestReasonOfAClosedWindow(t *testing.T) {
	const h = time.Hour
	l := level("", window("FREQ=DAILY;BYHOUR=2", h))
	l.Freezes = []calendar.Freeze{{Name: "later", From: "2026-01-05T01:00", Until: "2026-01-05T05:00"}, {RRule: "FREQ=DAILY;BYHOUR=0", Duration: metav1.Duration{Duration: 2 * h}}}
	plan := planOf(t, map[string]string{"a1": "a"})
	of := ask(t, plan, calendar.Rules{Run: l})
	day := utc(t, "2026-01-05T00:00:00Z")
	for hour, reason := range []string{"freeze", "freeze later", "freeze later", "freeze later", "freeze later", "outside the maintenance window of the run"} {
		w := of("a1", day.Add(time.Duration(hour)*h))
		if w.Open || w.Reason != reason || w.Until != day.Add(26*h) {
			t.Errorf("at %d: %+v, want %q", hour, w, reason)
		}
	}
}

func TestWithoutRulesEveryClusterMayStart(t *testing.T) {
	of := ask(t, planOf(t, map[string]string{"a1": "a"}), calendar.Rules{})
	if diff := cmp.Diff(stages.Window{Open: true}, of("a1", utc(t, "2026-01-05T00:00:00Z"))); diff != "" {
		t.Error(diff)
	}
	c, _ := calendar.Rules{}.For(planOf(t, nil))
	if w := c.Window(7, time.Time{}); w.Open || w.Reason == "" {
		t.Errorf("a position that the plan does not have: %+v", w)
	}
}

func TestAChangeTooFarAheadIsNotSeen(t *testing.T) {
	at := utc(t, "2026-01-05T00:00:00Z")
	for start, want := range map[string]string{"2035-12-01T00:00": "2035-12-01T00:00:00Z", "2036-02-01T00:00": "0001-01-01T00:00:00Z"} {
		w := window("FREQ=YEARLY", time.Hour)
		w.Start = start
		if got := askOne(t, level("", w))(at).Until; !got.Equal(utc(t, want)) {
			t.Errorf("%s: %v, want %s", start, got, want)
		}
		often := window("FREQ=MINUTELY;INTERVAL=2", time.Minute)
		often.Start = "2030-01-01T00:00"
		if got := askOne(t, level("", w, often))(at).Until; !got.IsZero() {
			t.Errorf("with many starts a day: %v", got)
		}
	}
}

// TestDistantChangeIsNotCached asks one calendar twice. The calendar must not cache
// the answer that there is no change.
func TestDistantChangeIsNotCached(t *testing.T) {
	w := window("FREQ=YEARLY", time.Hour)
	w.Start = "2036-02-01T00:00"
	of := askOne(t, level("", w))
	if got := of(utc(t, "2026-01-05T00:00:00Z")).Until; !got.IsZero() {
		t.Errorf("it is seen too early: %v", got)
	}
	if got := of(utc(t, "2026-02-15T00:00:00Z")).Until; !got.Equal(utc(t, "2036-02-01T00:00:00Z")) {
		t.Errorf("it is not seen later: %v", got)
	}
}

// TestTheAnswerDependsOnNothingButTheTime asks one calendar in any order and
// concurrently, and a new one for every answer.
func TestTheAnswerDependsOnNothingButTheTime(t *testing.T) {
	plan := planOf(t, map[string]string{"paris": ""})
	rules := oracleCases()["a freeze"].rules("Europe/Berlin")
	rules.Clusters = map[string]calendar.Level{"paris": level("", window("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", 48*time.Hour))}
	of := ask(t, plan, rules)
	begin := utc(t, "2017-02-20T00:00:00Z")
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			at := begin
			for range 12 {
				if at = at.Add(time.Duration(r.Int64N(int64(time.Hour)))); r.IntN(3) == 0 {
					at = begin.Add(time.Duration(r.Int64N(int64(12 * 365 * 24 * time.Hour))))
				}
				if diff := cmp.Diff(ask(t, plan, rules)("paris", at), of("paris", at)); diff != "" {
					t.Errorf("at %v (-new +used):\n%s", at, diff)
				}
			}
		})
	}
	all.Wait()
}
