package drift

import (
	"testing"
	"time"
)

func moment(minutes int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(minutes) * time.Minute)
}

func fought(f *Fight, every, times int) (score float64, fighting bool) {
	for i := range times {
		f.Restored()
		score, fighting = f.Drifted(moment(i*every + 1))
	}
	return score, fighting
}

func TestFightIsARecurringDifference(t *testing.T) {
	for _, c := range []struct {
		every, times int
		fighting     bool
	}{
		{1, 3, false},
		{1, 5, true},
		{15, 4, false},
		{15, 7, true},
		{120, 50, false},
	} {
		var f Fight
		if score, fighting := fought(&f, c.every, c.times); fighting != c.fighting {
			t.Errorf("%d times every %d minutes: the score is %v, %v", c.times, c.every, score, fighting)
		}
	}
}

func TestAFightCountsHalfAfterItsHalfLife(t *testing.T) {
	var f Fight
	before, _ := fought(&f, 1, 5)
	at := moment(5)
	after, fighting := f.Drifted(at.Add(FightHalfLife))
	if fighting || after < before/2-0.001 || after > before/2+0.001 {
		t.Errorf("%v became %v", before, after)
	}
	if back, _ := f.Drifted(at); back != after {
		t.Errorf("a clock that goes back makes %v of %v", back, after)
	}
}

func TestADifferenceThatWasNeverRestoredIsNoFight(t *testing.T) {
	var f Fight
	for i := range 100 {
		if score, fighting := f.Drifted(moment(i)); score != 0 || fighting {
			t.Fatalf("got %v, %v", score, fighting)
		}
	}
	f.Restored()
	f.Drifted(moment(101))
	if score, _ := f.Drifted(moment(101)); score != 1 {
		t.Errorf("one return counts %v", score)
	}
}
