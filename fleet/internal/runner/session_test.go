package runner

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/record"
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
				now := time.Now()
				e := &engine{cfg: Options{Lease: lease}}
				if c.session != nil {
					from := func(offset time.Time) time.Time { return now.Add(time.Duration(offset.Unix()) * time.Second) }
					s := sessionUntil{until: from(c.session.until)}
					if !c.session.since.IsZero() {
						s.since = from(c.session.since)
					}
					e.session = s
				}
				d := newDriver(e, new(record.Run), "own", nil)
				d.leased = now.Add(-time.Minute)
				if c.told != "" {
					d.told.Store(c.told)
				}
				d.renewLease()
				if d.renew != c.saves {
					t.Errorf("the driver saves its lease: %t", d.renew)
				}
				if due := d.renewed.Add(lease / 3).Sub(now); !c.saves && due != c.after {
					t.Errorf("the driver looks again after %v, not %v", due, c.after)
				}
			})
		})
	}
}
