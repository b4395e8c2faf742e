package simulate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/simulate"
)

// begun returns an attempt that began after a second.
func begun(m simulate.Member) simulate.Attempt {
	return simulate.Attempt{Member: m, Number: 2, Revision: "r1"}.Reach(second)
}

func TestUpdateEndsAfterTake(t *testing.T) {
	healthy := stages.Observation{Attempt: 2, Sent: true, Applied: true, Revision: "r1", Current: true, Healthy: true}
	a := begun(simulate.Member{Take: 10 * second}).Reach(5 * second)
	for at, want := range map[time.Duration]time.Duration{second: 11 * second, 5 * second: 11 * second, 20 * second: 20 * second} {
		done, o := a.Update(at)
		if diff := cmp.Diff(healthy, o); done != want || diff != "" {
			t.Errorf("asked at %s it returns at %s, want %s (-want +got):\n%s", at, done, want, diff)
		}
	}
}

func TestFailedAttemptEndsAfterTake(t *testing.T) {
	for fail, fails := range map[int]bool{0: false, 1: false, 2: true, 3: true, simulate.Always: true} {
		done, o := begun(simulate.Member{Take: minute, Fail: fail}).Update(second)
		if done != 61*second || o.Failed != fails || o.Healthy == fails || !o.Sent {
			t.Errorf("where %d attempts fail, the second one returns at %s: %+v", fail, done, o)
		}
	}
}

func TestUnreachableMemberDoesNotBegin(t *testing.T) {
	m := simulate.Member{Take: 10 * second, Unreachable: []simulate.Interval{{From: 5 * second, To: 30 * second}}}
	a := simulate.Attempt{Member: m, Number: 1}.Reach(5 * second)
	if done, o := a.Update(5 * second); a.Begun || done != 5*second || !o.Unreachable || o.Sent {
		t.Errorf("before it began: begun=%v at %s, %+v", a.Begun, done, o)
	}
	if a = a.Reach(30 * second); !a.Begun || a.Began != 30*second {
		t.Errorf("at the end of the interval it began: %v, at %s", a.Begun, a.Began)
	}
}

func TestABegunAttemptContinuesWhileTheClusterIsUnreachable(t *testing.T) {
	a := begun(simulate.Member{Take: 10 * second, Unreachable: []simulate.Interval{{From: 5 * second, To: 30 * second}}})
	if done, o := a.Update(second); done != 11*second || !o.Unreachable || !o.Sent {
		t.Errorf("done meanwhile: at %s, %+v", done, o)
	}
	if done, o := a.Update(30 * second); done != 30*second || !o.Healthy {
		t.Errorf("asked afterwards: at %s, %+v", done, o)
	}
	if o := a.Observe(29 * second); !o.Unreachable {
		t.Errorf("a look meanwhile: %+v", o)
	}
}

func TestUnhealthyIntervals(t *testing.T) {
	a := begun(simulate.Member{Unhealthy: []simulate.Interval{{From: 5 * second, To: 9 * second}, {From: minute}}})
	for at, want := range map[time.Duration]bool{4 * second: true, 5 * second: false, 8 * second: false, 9 * second: true, minute: false, 24 * time.Hour: false} {
		if o := a.Observe(at); o.Healthy != want || !o.Applied || !o.Current || (o.Message == "") != want {
			t.Errorf("at %s: %+v", at, o)
		}
	}
}

func TestNextIsTheNextChange(t *testing.T) {
	a := begun(simulate.Member{
		Unreachable: []simulate.Interval{{From: 20 * second, To: 30 * second}},
		Unhealthy:   []simulate.Interval{{From: 5 * second, To: 25 * second}, {From: minute}},
	})
	var got []time.Duration
	for at, ok := a.Next(0); ok; at, ok = a.Next(at) {
		got = append(got, at)
	}
	if diff := cmp.Diff([]time.Duration{5 * second, 20 * second, 25 * second, 30 * second, minute}, got); diff != "" {
		t.Errorf("moments (-want +got):\n%s", diff)
	}
}

func TestAFailureIsSeenWhenTheClusterCanBeReached(t *testing.T) {
	a := begun(simulate.Member{Take: 10 * second, Fail: 2, Unreachable: []simulate.Interval{{From: 5 * second, To: 30 * second}}})
	if _, o := a.Update(second); !o.Unreachable || o.Failed {
		t.Errorf("when it fails, the call says %+v", o)
	}
	if done, o := a.Update(31 * second); done != 31*second || !o.Failed {
		t.Errorf("afterwards it says at %s: %+v", done, o)
	}
}
