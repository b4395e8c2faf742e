package member

import (
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/snapshot"
)

// A member may fail a call about one object with an error that does not name the cause, such as a
// 500 because of the content of the object, or because a webhook for its kind does not answer. Such
// an object does not hold back the others. The update continues with the other objects of its
// phase; later phases wait for the object. If it failed in triesMost updates of the attempt while
// others succeeded, it counts as refused: it becomes a named problem of the cluster, and nothing
// waits for it any longer.
//
// The error itself does not show whether it concerns one object. The rest of the update shows it:
// right after the error the ledger can be read, and another object is as desired. If nothing
// succeeds, the member fails, and the update is retried like after any other error.

// triesMost is the number of updates in a row that must fail for an object before it counts as
// refused. At the pace of a run's retries this is about half a minute, enough time for the
// replacement of a webhook.
const triesMost = 10

// triesKept bounds the counted objects of all clusters. Beyond it, the counts of the clusters that
// failed longest ago restart at zero, so that updates wait longer for their objects.
const triesKept = 10_000

// failureCounts counts the failed updates of each object, for each cluster of a placement. It is no
// cache: the counts exist nowhere else, and start at zero after a restart. It is safe for
// concurrent use; if two updates of a cluster end at the same time, one may not be counted.
type failureCounts struct {
	at *lru.Cache[triesOf, triedObjects]
}

func newFailureCounts() failureCounts {
	return failureCounts{lru.New[triesOf](triesKept, func(t triedObjects) int { return len(t.objects) })}
}

type triesOf struct{ placement, cluster string }

// triedObjects are the objects that fail in an attempt. Another attempt counts from zero.
type triedObjects struct {
	uid, runUID string
	attempt     int
	objects     map[snapshot.ID]tried
}

// tried counts the failures of a version of an object; digest is empty for an undesired object.
type tried struct {
	digest string
	n      int
}

func (t triedObjects) isOf(a *Assignment) bool {
	return t.uid == a.Cluster.UID && t.runUID == a.RunUID && t.attempt == a.Attempt
}

// of returns in how many updates an object has failed.
func (c *failureCounts) of(a *Assignment, t *target) int {
	known, _ := c.at.Get(triesOf{a.Placement, a.Cluster.Name})
	if before := known.objects[objectKey(t.id)]; known.isOf(a) && before.digest == t.digest() {
		return before.n
	}
	return 0
}

// note counts an update that failed for exactly these objects.
func (c *failureCounts) note(a *Assignment, failed []*target) {
	key := triesOf{a.Placement, a.Cluster.Name}
	known, _ := c.at.Take(key)
	if len(failed) == 0 {
		return
	}
	now := triedObjects{uid: a.Cluster.UID, runUID: a.RunUID, attempt: a.Attempt, objects: map[snapshot.ID]tried{}}
	for _, t := range failed {
		next := tried{digest: t.digest(), n: 1}
		if before := known.objects[objectKey(t.id)]; known.isOf(a) && before.digest == next.digest {
			next.n = min(before.n+1, triesMost)
		}
		now.objects[objectKey(t.id)] = next
	}
	c.at.Add(key, now)
}

// outcome is the result of an update for its objects.
type outcome struct {
	of    *Assignment
	tries *failureCounts
	// stumbled are the objects that failed, see session.ofOne; served reports that another object did
	// not fail.
	stumbled []*target
	served   bool
	// problems are the errors of single objects; waiting says what the cluster must finish first.
	problems []error
	waiting  string
}

// failed records a failed call of an object in this update.
func (o *outcome) failed(t *target, call failedCall) {
	t.failed = call
	o.stumbled = append(o.stumbled, t)
}

// hopeless reports whether an object that failed in this update counts as refused.
func (o *outcome) hopeless(t *target) bool { return o.tries.of(o.of, t) >= triesMost }

// stumble treats an object that failed as refused if it is hopeless, and otherwise lets the update
// wait for it.
func (o *outcome) stumble(t *target) {
	if o.hopeless(t) {
		o.refused(t, t.exhausted())
		return
	}
	o.await(t, fmt.Sprintf("%s: %v", t.id, t.failed.err))
}

// reckon counts the failed objects at the end of an update, if other objects succeeded. If none
// succeeded it returns the first error, because then the member fails, not the object.
func (o *outcome) reckon() error {
	switch {
	case len(o.stumbled) > 0 && !o.served:
		return o.stumbled[0].failed.err
	default:
		o.tries.note(o.of, o.stumbled)
		return nil
	}
}

// notRestored returns why a repair of drift has not ended, as an error: no run waits for the rest,
// so that the repair must be retried.
func (o *outcome) notRestored() error {
	switch {
	case !o.of.keeps:
		return nil
	case len(o.stumbled) > 0:
		return o.stumbled[0].failed.err
	case o.waiting != "":
		return errors.New(o.waiting)
	}
	return nil
}

// MissingNamespaceError reports that the namespace of an object is missing. It is permanent, but
// another placement may create the namespace at any moment.
type MissingNamespaceError struct{ error }

// Unwrap returns the wrapped error.
func (e *MissingNamespaceError) Unwrap() error { return e.error }

// refused records why an object could not be applied.
func (o *outcome) refused(t *target, err error) {
	t.suffer(fateRefused{err})
	o.problems = append(o.problems, err)
}

// await records what an object waits for before it can be applied.
func (o *outcome) await(t *target, what string) {
	t.suffer(fateWaits{errors.New(what)})
	o.waiting = what
}

// exhausted returns the error of an object that failed too often.
func (t *target) exhausted() error {
	return fmt.Errorf("%s: it failed in %d updates while other objects succeeded: %v: %w", t.id, triesMost, t.failed.err, backend.ErrPermanent)
}
