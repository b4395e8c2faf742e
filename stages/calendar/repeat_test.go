package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// numbers is a list of up to n numbers.
func numbers(rng *rand.Rand, low, high, n int) string {
	list := make([]string, 1+rng.IntN(n))
	for i := range list {
		list[i] = fmt.Sprint(low + rng.IntN(high-low+1))
	}
	return strings.Join(list, ",")
}

// oneOf is any of some values.
func oneOf[T any](rng *rand.Rand, values ...T) T { return values[rng.IntN(len(values))] }

// randomWindow returns a window with mostly minute or hour rules; it may be invalid.
func randomWindow(rng *rand.Rand) calendar.Window {
	freq := oneOf(rng, "MINUTELY", "MINUTELY", "MINUTELY", "HOURLY", "HOURLY", "DAILY", "WEEKLY", "MONTHLY")
	w := calendar.Window{RRule: "FREQ=" + freq, TimeZone: oneOf(rng, "", "", "", "America/New_York", "Australia/Lord_Howe")}
	part := func(odds int, text string) {
		if rng.IntN(odds) == 0 {
			w.RRule += ";" + text
		}
	}
	switch rng.IntN(3) {
	case 0:
		w.Start = oneOf(rng, "2026-01-01T00:00", "2026-03-20T01:01", "2027-02-01T00:03")
		part(1, fmt.Sprintf("INTERVAL=%d", oneOf(rng, 1, 2, 3, 7, 45, 60, 1440, 9973)))
		part(8, fmt.Sprintf("COUNT=%d", 1+rng.IntN(1000)))
	case 1:
		part(1, fmt.Sprintf("INTERVAL=%d", oneOf(rng, 1, 2, 3, 4, 6, 12)))
	}
	part(4, "BYMONTH="+numbers(rng, 1, 12, 6))
	if freq == "WEEKLY" || rng.IntN(3) == 0 {
		part(1, "BYDAY="+oneOf(rng, "SU", "MO,TU,WE,TH,FR", "SA,SU", "MO,WE,FR"))
	}
	if freq == "MONTHLY" || freq != "WEEKLY" && rng.IntN(4) == 0 {
		part(1, "BYMONTHDAY="+oneOf(rng, "29,30,31", "-1,-2", numbers(rng, 1, 31, 15)))
	}
	if freq == "MINUTELY" || freq == "HOURLY" {
		part(8, "BYYEARDAY="+oneOf(rng, "366,-1", "-366,60,61,62", numbers(rng, 80, 130, 20)))
	}
	part(3, "BYHOUR="+numbers(rng, 0, 23, 12))
	part(4, "BYMINUTE="+numbers(rng, 0, 59, 20))
	part(10, oneOf(rng, "UNTIL=20260401", "UNTIL=20260330T013000", "UNTIL=20270101T000000Z"))
	w.Duration = metav1.Duration{Duration: oneOf(rng, 30*time.Second, time.Minute, 90*time.Second, 10*time.Minute, time.Hour, 5*time.Hour, 24*time.Hour)}
	return w
}

// randomRules are windows of up to two levels, and freezes.
func randomRules(rng *rand.Rand) calendar.Rules {
	windows := func(n int) (l calendar.Level) {
		for range rng.IntN(n) {
			l.Windows = append(l.Windows, randomWindow(rng))
		}
		return l
	}
	r := calendar.Rules{TimeZone: oneOf(rng, "UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"), Run: windows(3)}
	r.Clusters = map[string]calendar.Level{"paris": windows(4)}
	for range rng.IntN(3) {
		f := calendar.Freeze{From: oneOf(rng, "", "2026-03-28T00:00", "2026-06-01T12:00"), Until: "2026-10-30T00:00"}
		if w := randomWindow(rng); rng.IntN(2) == 0 {
			f = calendar.Freeze{RRule: w.RRule, Start: w.Start, Duration: w.Duration, TimeZone: w.TimeZone}
		}
		r.Run.Freezes = append(r.Run.Freezes, f)
	}
	return r
}

// agrees compares the answers of rules with a search through all starts. It reports whether there
// are any.
func agrees(t *testing.T, plan *stages.Plan, r calendar.Rules, times ...time.Time) bool {
	t.Helper()
	leaping, err := r.For(plan)
	if err != nil {
		return false
	}
	plain, err := r.For(plan)
	if err != nil {
		t.Fatal(err)
	}
	calendar.Plain(plain)
	for _, at := range times {
		if got, want := leaping.Window(0, at), plain.Window(0, at); got != want {
			t.Errorf("at %v: %+v, and through all starts %+v, with %+v", at, got, want, r)
		}
	}
	return true
}

// Times around events that break a repetition: the ends of days and months, changes of clocks, a
// leap day.
func hardTimes(rng *rand.Rand) (list []time.Time) {
	for _, day := range []time.Time{
		time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 4, 12, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC), time.Date(2028, 2, 28, 0, 0, 0, 0, time.UTC), time.Date(2026, 12, 31, 0, 0, 0, 0, time.UTC),
	} {
		list = append(list, day.Add(time.Duration(rng.IntN(3*24*3600))*time.Second-24*time.Hour))
	}
	return list
}

// worst returns rules for which a search through all starts checks hundreds of thousands of
// starts.
func worst() map[string]calendar.Rules {
	of := func(run, own []calendar.Window) calendar.Rules {
		return calendar.Rules{TimeZone: "Europe/Berlin", Run: calendar.Level{Windows: run}, Clusters: map[string]calendar.Level{"paris": {Windows: own}}}
	}
	from := func(start string, w calendar.Window) calendar.Window {
		w.Start = start
		return w
	}
	one := func(rule string, d time.Duration) []calendar.Window { return []calendar.Window{window(rule, d)} }
	const minute, odd, weekdays = time.Minute, "2026-01-01T00:01", "MO,TU,WE,TH,FR"
	return map[string]calendar.Rules{
		"always":               of(nil, one("FREQ=MINUTELY", minute)),
		"always, a day each":   of(nil, one("FREQ=MINUTELY;BYHOUR=0,6,12,18", 24*time.Hour)),
		"always by two":        of(nil, append(one("FREQ=MINUTELY;INTERVAL=2", minute), from(odd, window("FREQ=MINUTELY;INTERVAL=2", minute)))),
		"always by the hour":   of(nil, one("FREQ=HOURLY;BYMINUTE=0,5,10,15,20,25,30,35,40,45,50,55", 5*minute)),
		"always by the day":    of(nil, one("FREQ=DAILY;BYHOUR=0,6,12,18;BYMINUTE=0,15,30,45", 24*time.Hour)),
		"never at once":        of(one("FREQ=MINUTELY;INTERVAL=2", minute), []calendar.Window{from(odd, window("FREQ=MINUTELY;INTERVAL=2", minute))}),
		"never on one day":     of(one("FREQ=MINUTELY;BYDAY=SA,SU", minute/2), one("FREQ=MINUTELY;BYDAY="+weekdays, minute/2)),
		"never in one hour":    of(one("FREQ=MINUTELY;BYHOUR=0,2,4,6,8,10,12,14,16,18,20,22", minute/2), one("FREQ=MINUTELY;BYHOUR=1,3,5,7,9,11,13,15,17,19,21,23", minute/2)),
		"a leap day":           of(nil, one("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=29", minute/2)),
		"a leap day by sevens": of(nil, []calendar.Window{from(odd, window("FREQ=MINUTELY;INTERVAL=7;BYHOUR=3;BYMINUTE=0;BYMONTH=2;BYMONTHDAY=29", minute))}),
		"in one month":         of(one("FREQ=MINUTELY;BYMONTH=2", minute), one("FREQ=MINUTELY;INTERVAL=3", minute)),
		"sevens and elevens": of([]calendar.Window{from("2026-01-01T00:00", window("FREQ=MINUTELY;INTERVAL=7;BYHOUR=1", minute))},
			[]calendar.Window{from(odd, window("FREQ=MINUTELY;INTERVAL=7;BYHOUR=1", minute))}),
	}
}

func TestTheWorstRulesAreAnsweredWithinAFewThousandStarts(t *testing.T) {
	const most = 20_000
	plan := planOf(t, map[string]string{"paris": ""})
	for name, r := range worst() {
		t.Run(name, func(t *testing.T) {
			for _, at := range []time.Time{time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC), time.Date(2026, 7, 1, 12, 0, 30, 0, time.UTC)} {
				agrees(t, plan, r, at)
				c, err := r.For(plan)
				if err != nil {
					t.Fatal(err)
				}
				if n := calendar.Starts(c, at); n > most {
					t.Errorf("at %v: %d starts", at, n)
				}
			}
		})
	}
}

// A freeze ends when a window begins, before the windows of another freeze begin: the first
// freeze proves nothing about the time after its end.
func TestFreezeThatOpensBeforeTheNextFreeze(t *testing.T) {
	later := window("FREQ=MINUTELY;INTERVAL=7;BYMONTH=9,6", 10*time.Minute)
	r := calendar.Rules{TimeZone: "Australia/Lord_Howe", Run: calendar.Level{Freezes: []calendar.Freeze{
		{RRule: later.RRule, Start: "2027-02-01T00:03", Duration: later.Duration}, {From: "2026-06-01T12:00", Until: "2026-10-30T00:00"},
	}}, Clusters: map[string]calendar.Level{"paris": level("", window("FREQ=DAILY;BYMONTHDAY=29,30,31", time.Minute))}}
	of := ask(t, planOf(t, map[string]string{"paris": ""}), r)
	if got, want := of("paris", utc(t, "2026-10-25T13:20:41Z")).Until, utc(t, "2026-10-29T13:00:00Z"); got != want {
		t.Errorf("it is closed until %v, want %v", got, want)
	}
}

// The repeated hour of a clock change has no occurrences, but the rule continues after it.
func TestRulesContinueAfterTheRepeatedHour(t *testing.T) {
	r := calendar.Rules{TimeZone: "Europe/Berlin", Run: level("", window("FREQ=MINUTELY", time.Minute)), Clusters: map[string]calendar.Level{
		"paris": level("UTC", window("FREQ=MINUTELY;INTERVAL=2", time.Minute)),
	}}
	of := ask(t, planOf(t, map[string]string{"paris": ""}), r)
	if got, want := of("paris", utc(t, "2026-10-25T01:10:00Z")).Until, utc(t, "2026-10-25T02:00:00Z"); got != want {
		t.Errorf("it is closed until %v, want %v", got, want)
	}
}

// BenchmarkWorst makes the calendar of rules, and asks it once.
func BenchmarkWorst(b *testing.B) {
	plan := planOf(b, map[string]string{"paris": ""})
	for name, r := range worst() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			at := time.Date(2026, 3, 28, 23, 0, 0, 0, time.UTC)
			for b.Loop() {
				c, err := r.For(plan)
				if err != nil {
					b.Fatal(err)
				}
				c.Window(0, at)
			}
		})
	}
}

func TestLeapsAgreeWithAllStarts(t *testing.T) {
	plan := planOf(t, map[string]string{"paris": ""})
	rng := rand.New(rand.NewPCG(20, 11))
	for n := 0; n < 30; {
		if agrees(t, plan, randomRules(rng), hardTimes(rng)[:2]...) {
			n++
		}
	}
}

func FuzzLeaps(f *testing.F) {
	for i := range uint64(8) {
		f.Add(i, int64(1774742400))
	}
	plan := planOf(f, map[string]string{"paris": ""})
	f.Fuzz(func(t *testing.T, seed uint64, unix int64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		r := randomRules(rng)
		agrees(t, plan, r, time.Unix(unix%(1<<33), 0), oneOf(rng, hardTimes(rng)...))
	})
}
