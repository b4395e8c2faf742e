package calendar_test

import (
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// times are recurring times as the oracle knows them: by a function of the
// minute that clocks show.
type times struct {
	rule  string
	start string
	d     time.Duration
	zone  string
	on    func(wall time.Time) bool
}

func (o times) window() calendar.Window {
	return calendar.Window{RRule: o.rule, Start: o.start, Duration: metav1.Duration{Duration: o.d}, TimeZone: o.zone}
}

func (o times) freeze() calendar.Freeze {
	return calendar.Freeze{RRule: o.rule, Start: o.start, Duration: metav1.Duration{Duration: o.d}, TimeZone: o.zone}
}

// minutes returns for each minute from one time to another whether it is in one
// of the times: it reads a clock, minute by minute.
func (o times) minutes(t *testing.T, zone string, from, to time.Time) []bool {
	t.Helper()
	if o.zone != "" {
		zone = o.zone
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	show := func(at time.Time) time.Time {
		at = at.In(loc)
		y, m, d := at.Date()
		hour, minute, _ := at.Clock()
		return time.Date(y, m, d, hour, minute, 0, 0, time.UTC)
	}
	var in []bool
	begin := from.Add(-o.d - 72*time.Hour)
	shown, until := show(begin), begin
	for at := begin; at.Before(to); at = at.Add(time.Minute) {
		for now := show(at); shown.Before(now); {
			if shown = shown.Add(time.Minute); o.on(shown) {
				until = at.Add(o.d)
			}
		}
		if !at.Before(from) {
			in = append(in, at.Before(until))
		}
	}
	return in
}

// oracleCase is a cluster with its rules.
type oracleCase struct {
	// run and own are the windows of two levels, off the freezes.
	run, own, off []times
}

func (c oracleCase) level(list []times) (l calendar.Level) {
	for _, o := range list {
		l.Windows = append(l.Windows, o.window())
	}
	return l
}

func (c oracleCase) rules(zone string) calendar.Rules {
	r := calendar.Rules{TimeZone: zone, Run: c.level(c.run), Clusters: map[string]calendar.Level{"paris": c.level(c.own)}}
	for _, o := range c.off {
		r.Run.Freezes = append(r.Run.Freezes, o.freeze())
	}
	return r
}

func (c oracleCase) open(t *testing.T, zone string, from, to time.Time) []bool {
	t.Helper()
	union := func(list []times, none bool) []bool {
		in := make([]bool, int(to.Sub(from)/time.Minute))
		for i := range in {
			in[i] = none && len(list) == 0
		}
		for _, o := range list {
			for i, yes := range o.minutes(t, zone, from, to) {
				in[i] = in[i] || yes
			}
		}
		return in
	}
	run, own, off := union(c.run, true), union(c.own, true), union(c.off, false)
	for i := range run {
		run[i] = run[i] && own[i] && !off[i]
	}
	return run
}

func hm(hour, minute int) func(time.Time) bool {
	return func(w time.Time) bool { return w.Hour() == hour && w.Minute() == minute }
}

// oracleCases have results that differ in the hours of clock changes.
func oracleCases() map[string]oracleCase {
	const h = time.Hour
	half := times{rule: "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", d: h, on: hm(2, 30)}
	night := times{rule: "FREQ=WEEKLY;BYDAY=SA,SU;BYHOUR=22", d: 8 * h, on: func(w time.Time) bool {
		return hm(22, 0)(w) && (w.Weekday() == time.Saturday || w.Weekday() == time.Sunday)
	}}
	three := times{rule: "FREQ=DAILY;BYHOUR=3;BYMINUTE=15", d: h / 2, on: hm(3, 15)}
	berlin := times{rule: "FREQ=DAILY;BYHOUR=1,2,3;BYMINUTE=0,30", d: 10 * time.Minute, zone: "Europe/Berlin", on: func(w time.Time) bool {
		return w.Hour() >= 1 && w.Hour() <= 3 && w.Minute()%30 == 0
	}}
	return map[string]oracleCase{
		"a time that is skipped or repeated": {own: []times{half}},
		"around the change":                  {own: []times{{rule: "FREQ=DAILY;BYHOUR=1", d: 3 * h, on: hm(1, 0)}}},
		"all day":                            {own: []times{{rule: "FREQ=DAILY", d: 24 * h, on: hm(0, 0)}}},
		"by the hour":                        {own: []times{{rule: "FREQ=HOURLY", d: h / 3, on: func(w time.Time) bool { return w.Minute() == 0 }}}},
		"by the minute": {own: []times{{rule: "FREQ=MINUTELY;INTERVAL=45", d: h / 4, on: func(w time.Time) bool {
			return (w.Hour()*60+w.Minute())%45 == 0
		}}}},
		"nights of weekends": {own: []times{night}},
		"every third day": {own: []times{{rule: "FREQ=DAILY;INTERVAL=3", start: "2025-12-30T02:10", d: h, on: func(w time.Time) bool {
			return hm(2, 10)(w) && int(w.Sub(time.Date(2025, 12, 30, 2, 10, 0, 0, time.UTC))/(24*h))%3 == 0
		}}}},
		"every other week": {own: []times{{rule: "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,WE;WKST=SU;BYHOUR=2", start: "2026-01-07T00:00", d: 5 * h, on: func(w time.Time) bool {
			return hm(2, 0)(w) && (w.Weekday() == time.Sunday || w.Weekday() == time.Wednesday) &&
				!w.Before(time.Date(2026, 1, 7, 0, 0, 0, 0, time.UTC)) && int(w.Sub(time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC))/(7*24*h))%2 == 0
		}}}},
		"the last Sunday of the month": {own: []times{{rule: "FREQ=MONTHLY;BYDAY=-1SU;BYHOUR=2;BYMINUTE=30", d: h, on: func(w time.Time) bool {
			return hm(2, 30)(w) && w.Weekday() == time.Sunday && w.AddDate(0, 0, 7).Month() != w.Month()
		}}}},
		"two windows":   {own: []times{half, three}},
		"two levels":    {run: []times{{rule: "FREQ=DAILY;BYHOUR=1", d: 3 * h, on: hm(1, 0)}}, own: []times{half, three}},
		"a freeze":      {run: []times{night}, off: []times{berlin, three}},
		"freezes alone": {off: []times{half, berlin}},
		"never at once": {run: []times{{rule: "FREQ=DAILY;BYHOUR=2", d: h / 2, on: hm(2, 0)}}, own: []times{half}},
	}
}

// around are the times that are compared: some days before and after all
// changes of the clocks in 2026, or with SLIPWAY_SOAK three years.
func around(t *testing.T, zone string) [][2]time.Time {
	t.Helper()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if os.Getenv("SLIPWAY_SOAK") != "" {
		return [][2]time.Time{{begin, begin.AddDate(3, 0, 0)}}
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	spans := [][2]time.Time{{begin, begin.AddDate(0, 0, 2)}}
	for at := begin; ; {
		_, at = at.In(loc).ZoneBounds()
		if at.IsZero() || at.Year() > 2026 {
			return spans
		}
		spans = append(spans, [2]time.Time{at.UTC().Add(-2 * 24 * time.Hour), at.UTC().Add(7 * 24 * time.Hour)})
	}
}

// zones set their clocks in different ways: by an hour or half an hour, in
// different months, or not at all.
func zones() []string {
	some := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}
	if os.Getenv("SLIPWAY_SOAK") != "" {
		some = append(some, "Africa/Casablanca", "America/St_Johns", "America/Santiago", "UTC")
	}
	return some
}

func TestWindowsAgreeWithTheMinuteOracle(t *testing.T) {
	plan := planOf(t, map[string]string{"paris": ""})
	for _, zone := range zones() {
		for name, c := range oracleCases() {
			t.Run(zone+"/"+name, func(t *testing.T) {
				of := ask(t, plan, c.rules(zone))
				for _, span := range around(t, zone) {
					compare(t, c.open(t, zone, span[0], span[1]), span[0], func(at time.Time) stages.Window { return of("paris", at) })
				}
			})
		}
	}
}

// compare compares the answers with the open minutes after from.
func compare(t *testing.T, open []bool, from time.Time, of func(time.Time) stages.Window) {
	t.Helper()
	changes := make([]time.Time, len(open)) // zero when after the last minute
	for i := len(open) - 2; i >= 0; i-- {
		changes[i] = changes[i+1]
		if open[i] != open[i+1] {
			changes[i] = from.Add(time.Duration(i+1) * time.Minute)
		}
	}
	end := from.Add(time.Duration(len(open)) * time.Minute)
	for i, want := range open {
		at := from.Add(time.Duration(i) * time.Minute)
		got := of(at)
		if got.Open != want {
			t.Fatalf("at %v: open is %t, want %t", at, got.Open, want)
		}
		if got.Until != changes[i] && (!changes[i].IsZero() || got.Until.Before(end)) {
			t.Fatalf("at %v: until %v, want %v", at, got.Until, changes[i])
		}
	}
}
