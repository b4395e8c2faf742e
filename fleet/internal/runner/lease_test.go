package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
)

// sessionUntil is a session that extends the leases that were saved at or after since.
type sessionUntil struct{ since, until time.Time }

func (s sessionUntil) CoversUntil(_ string, saved time.Time) time.Time {
	if saved.Before(s.since) {
		return time.Time{}
	}
	return s.until
}

// TestRenewLease: a driver saves its lease itself, unless the engine's session has extended it
// since the driver's last save and no watch reported a save by another engine.
func TestRenewLease(t *testing.T) {
	const lease = 15 * time.Second
	for name, c := range map[string]struct {
		session *sessionUntil
		told    backend.Revision
		saves   bool
		after   time.Duration
	}{
		"there is no session":            {saves: true},
		"the session lasts":              {session: &sessionUntil{until: time.Unix(10, 0)}, after: lease / 3},
		"the session lasts a second":     {session: &sessionUntil{until: time.Unix(1, 0)}, after: time.Second},
		"the session is over":            {session: &sessionUntil{until: time.Unix(-1, 0)}, saves: true},
		"the session was interrupted":    {session: &sessionUntil{since: time.Unix(-59, 0), until: time.Unix(10, 0)}, saves: true},
		"the last save was the driver's": {session: &sessionUntil{until: time.Unix(10, 0)}, told: "own", after: lease / 3},
		"another engine saved the run":   {session: &sessionUntil{until: time.Unix(10, 0)}, told: "other", saves: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLease("run/r", lease, nil, time.Now().Add(-time.Minute))
				time.Sleep(lease / 3)
				now := time.Now()
				if c.session != nil {
					from := func(offset time.Time) time.Time { return now.Add(time.Duration(offset.Unix()) * time.Second) }
					s := sessionUntil{until: from(c.session.until)}
					if !c.session.since.IsZero() {
						s.since = from(c.session.since)
					}
					l.session = s
				}
				var own ownWrites
				own.add(1, "own")
				if c.told != "" {
					own.reported(c.told)
				}
				l.check(own.last())
				if l.due != c.saves {
					t.Errorf("the driver saves its lease: %t", l.due)
				}
				if due := l.next().Sub(now); !c.saves && due != c.after {
					t.Errorf("the driver looks again after %v, not %v", due, c.after)
				}
			})
		})
	}
}

// A driver looks at its lease a third of its duration after the last renewal, and a save is a
// renewal.
func TestASaveIsARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 15 * time.Second
		l := newLease("run/r", lease, nil, time.Now())
		time.Sleep(lease/3 - 1)
		if l.check(true); l.due {
			t.Error("the lease is saved before a third of it has passed")
		}
		time.Sleep(time.Nanosecond)
		if l.check(true); !l.due {
			t.Error("the lease is not saved after a third of it has passed")
		}
		began := time.Now()
		time.Sleep(time.Second)
		l.saved(began)
		if l.due || !l.began.Equal(began) || !l.next().Equal(time.Now().Add(lease/3)) {
			t.Errorf("after a save that began at %v the lease began at %v and is looked at %v, due: %t", began, l.began, l.next(), l.due)
		}
	})
}

// A driver hangs if it has finished no turn for two thirds of its lease. The engine's session then
// no longer extends the lease.
func TestADriverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 15 * time.Second
		l := newLease("run/r", lease, nil, time.Now())
		for range 2 {
			time.Sleep(lease * 2 / 3)
			if l.hangs() {
				t.Error("it hangs after two thirds of the lease")
			}
			time.Sleep(time.Nanosecond)
			if !l.hangs() {
				t.Error("it does not hang after more than two thirds of the lease")
			}
			l.turned()
		}
	})
}
