package member

import (
	"errors"
	"fmt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/snapshot"
)

// A member may fail a call about one object with an error that says nothing of what is
// wrong: a 500 because of what is in the object, or because a webhook for its kind does
// not answer. Such an object does not hold back the others. Objects of its phase go on,
// later phases wait for it as for something that the member has to finish, and once it
// has failed in triesMost updates of the attempt while others succeeded, it counts as
// refused: then it is a problem of the cluster by its name, and nothing waits for it
// any more.
//
// Whether an error concerns one object shows in what else happens in the same update, and not in
// the error: right after it the ledger can be read, and another object is as it is to
// be. Where nothing succeeds, it is the member that fails, and the update is tried again
// as it always was.

// triesMost is how many updates in a row an object fails in before that counts as a
// refusal. At the pace at which a run tries a cluster again it is about half a minute,
// which a webhook needs that is being replaced.
const triesMost = 10

// triesKept bounds the objects that are counted of all clusters. Beyond that those of the
// clusters that failed longest ago are counted from zero: they are waited for longer.
const triesKept = 10_000

// failureCounts counts, for each cluster of a placement, in how many updates objects failed. It
// is no cache: the counts are nowhere else, and after a restart they begin at zero. It is safe for
// concurrent use; of two updates of a cluster that end at once one may not count.
type failureCounts struct {
	at *lru.Cache[triesOf, triedObjects]
}

func newFailureCounts() failureCounts {
	return failureCounts{lru.New[triesOf](triesKept, func(t triedObjects) int { return len(t.objects) })}
}

type triesOf struct{ placement, cluster string }

// triedObjects are those that fail in an attempt; in another one they are counted from zero.
type triedObjects struct {
	uid, runUID string
	attempt     int
	objects     map[snapshot.ID]tried
}

// tried is how often a version of an object failed; the digest is empty for one that is
// to go.
type tried struct {
	digest string
	n      int
}

func (t triedObjects) isOf(a *Assignment) bool {
	return t.uid == a.Cluster.UID && t.runUID == a.RunUID && t.attempt == a.Attempt
}

// of returns in how many updates an object failed so far.
func (c *failureCounts) of(a *Assignment, t *target) int {
	known, _ := c.at.Get(triesOf{a.Placement, a.Cluster.Name})
	if before := known.objects[objectKey(t.id)]; known.isOf(a) && before.digest == t.digest() {
		return before.n
	}
	return 0
}

// note counts an update in which these objects failed, and no others did.
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

// outcome is what came of the objects of an update.
type outcome struct {
	of    *Assignment
	tries *failureCounts
	// stumbled are the objects that failed, see session.ofOne, served that another one did
	// not.
	stumbled []*target
	served   bool
	// problems are what is wrong with single objects; waiting what the
	// cluster has to finish first.
	problems []error
	waiting  string
}

// failed takes down that an object failed in this update, for the first time.
func (o *outcome) failed(t *target, err error) {
	t.failed = err
	o.stumbled = append(o.stumbled, t)
}

// hopeless reports whether an object that failed in this update counts as refused.
func (o *outcome) hopeless(t *target) bool { return o.tries.of(o.of, t) >= triesMost }

// stumble decides what becomes of the update after an object failed.
func (o *outcome) stumble(t *target) {
	if o.hopeless(t) {
		o.refused(t, t.exhausted())
		return
	}
	o.await(t, fmt.Sprintf("%s: %v", t.id, t.failed))
}

// reckon counts the objects that failed at the end of an update, where others
// succeeded. Where none did it returns the first error: the member fails, not the
// object.
func (o *outcome) reckon() error {
	switch {
	case len(o.stumbled) > 0 && !o.served:
		return o.stumbled[0].failed
	default:
		o.tries.note(o.of, o.stumbled)
		return nil
	}
}

// notPutBack returns why an update that puts back what drifted has not ended: no run
// waits for the rest, so that it is tried again as after any error.
func (o *outcome) notPutBack() error {
	switch {
	case !o.of.keeps:
		return nil
	case len(o.stumbled) > 0:
		return o.stumbled[0].failed
	case o.waiting != "":
		return errors.New(o.waiting)
	}
	return nil
}

// MissingNamespaceError says that the namespace of an object is not there. It is permanent, and another placement may bring
// the namespace at any moment.
type MissingNamespaceError struct{ error }

// Unwrap returns what it says.
func (e *MissingNamespaceError) Unwrap() error { return e.error }

// refused takes down why an object could not be applied.
func (o *outcome) refused(t *target, err error) {
	t.problem = err
	o.problems = append(o.problems, err)
}

// await says what has to be waited for before an object can be applied.
func (o *outcome) await(t *target, what string) {
	t.problem = errors.New(what)
	o.waiting = what
}

// exhausted is the error of an object that failed too often.
func (t *target) exhausted() error {
	return fmt.Errorf("%s: it failed in %d updates while other objects succeeded: %v: %w", t.id, triesMost, t.failed, backend.ErrPermanent)
}
