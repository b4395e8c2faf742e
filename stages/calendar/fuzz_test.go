package calendar_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/calendar"
)

// FuzzRules: any rules are either refused or answer quickly. Until is the next change. Earlier
// questions do not change an answer.
func FuzzRules(f *testing.F) {
	const now = 1774742400 // 2026-03-29
	f.Add("FREQ=DAILY;BYHOUR=2", "", int64(3600), "Europe/Berlin", "FREQ=HOURLY", int64(600), int64(now))
	f.Add("FREQ=MINUTELY;INTERVAL=2", "", int64(60), "UTC", "FREQ=MINUTELY;INTERVAL=20", int64(900), int64(now))
	f.Add("FREQ=MONTHLY;BYDAY=-1SU,5MO", "2026-01-31T01:00", int64(86400), "America/New_York", "FREQ=DAILY", int64(86400), int64(now))
	f.Add("FREQ=YEARLY;BYWEEKNO=53,1;BYDAY=SU;WKST=WE", "", int64(1), "Australia/Lord_Howe", "", int64(0), int64(now))
	f.Add("FREQ=YEARLY;BYYEARDAY=-366,366;BYSETPOS=-1", "1970-01-01T00:00", int64(1), "Asia/Kolkata", "", int64(0), int64(1<<40))
	f.Add("FREQ=MINUTELY;INTERVAL=7;BYHOUR=3;BYMINUTE=0;BYMONTH=2;BYMONTHDAY=29", "2026-01-01T00:00", int64(1), "", "", int64(0), int64(-1<<40))
	f.Add("FREQ=HOURLY;INTERVAL=84;BYDAY=TU", "2026-01-05T00:00", int64(366*86400), "Pacific/Apia", "", int64(0), int64(1<<62))
	f.Add("FREQ=MONTHLY;INTERVAL=12;BYMONTHDAY=29;BYMONTH=2", "2027-02-01T00:00", int64(1), "", "FREQ=WEEKLY;BYDAY=MO;UNTIL=20270101", int64(60), int64(0))
	plan := planOf(f, map[string]string{"paris": ""})
	f.Fuzz(func(t *testing.T, rule, start string, seconds int64, zone, freeze string, frozen, unix int64) {
		l := level(zone, window(rule, time.Duration(seconds)*time.Second))
		l.Windows[0].Start = start
		if freeze != "" {
			l.Freezes = []calendar.Freeze{{RRule: freeze, Start: start, Duration: metav1.Duration{Duration: time.Duration(frozen) * time.Second}}}
		}
		rules := calendar.Rules{Run: l}
		c, err := rules.For(plan)
		if err != nil {
			return
		}
		checkAnswer(t, c, time.Unix(unix, 0), func() stages.Calendar {
			again, _ := rules.For(plan)
			return again
		})
	})
}

func checkAnswer(t *testing.T, c stages.Calendar, at time.Time, fresh func() stages.Calendar) {
	t.Helper()
	begin := time.Now()
	w := c.Window(0, at)
	if took := time.Since(begin); took > 20*time.Second {
		t.Fatalf("at %v: took %v", at, took)
	}
	if w.Open == (w.Reason != "") || !w.Limited {
		t.Fatalf("at %v: %+v", at, w)
	}
	if w.Until.IsZero() {
		return
	}
	if !w.Until.After(at) {
		t.Fatalf("at %v: until %v", at, w.Until)
	}
	for i := range time.Duration(8) {
		between := at.Add(w.Until.Sub(at) / 8 * i)
		if got := c.Window(0, between); got.Open != w.Open || got.Until != w.Until {
			t.Fatalf("at %v: %+v, but at %v: %+v", at, w, between, got)
		}
	}
	if got := c.Window(0, w.Until.Add(-1)); got.Open != w.Open {
		t.Fatalf("at %v: %+v, but just before: %+v", at, w, got)
	}
	if got := c.Window(0, w.Until); got.Open == w.Open {
		t.Fatalf("at %v: %+v, but then: %+v", at, w, got)
	}
	if got, want := c.Window(0, w.Until), fresh().Window(0, w.Until); got != want {
		t.Fatalf("at %v: %+v, but again: %+v", w.Until, got, want)
	}
}
