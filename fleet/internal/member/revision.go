package member

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages/check"
)

// Revision is a set of objects that is ready to be applied. All clusters share it, and it never
// changes.
type Revision struct {
	Digest string
	items  []revisionItem // in the order of application
	// checks are the check objects, which are not applied with the other objects: see
	// [check.Annotation].
	checks []revisionItem
	// unplaced are the objects in envelopes that no cluster gets.
	unplaced []snapshot.Unplaced
}

// revisionItem is an object, marked for its placement unless it is a check object.
type revisionItem struct {
	snapshot.Item
	obj *unstructured.Unstructured
}

// NewRevision decodes a verified set and marks its objects.
func NewRevision(placement string, set snapshot.Set) (*Revision, error) {
	rev := &Revision{Digest: set.Digest, items: make([]revisionItem, 0, len(set.Items)), unplaced: set.Unplaced}
	for i, item := range set.Items {
		obj, err := snapshot.Decode(set.Bodies[i])
		if err == nil && snapshot.IDOf(obj) != item.ID {
			err = fmt.Errorf("the body is that of %s", snapshot.IDOf(obj))
		}
		if err == nil && !placeable(item.ID) {
			err = ErrNeverPlaced
		}
		if err != nil {
			return nil, InRevision(placement, set.Digest, item.ID.String(), guard.Permanent(err))
		}
		if annotation(obj, check.Annotation) != "" {
			rev.checks = append(rev.checks, revisionItem{item, obj})
			continue
		}
		rev.items = append(rev.items, revisionItem{item, marked(obj, placement, item.Digest)})
	}
	return rev, nil
}

// unplacedProblems returns a problem for each unplaced object of a revision, which may be nil.
func (r *Revision) unplacedProblems() (problems []error) {
	if r == nil {
		return nil
	}
	for i := range r.unplaced {
		u := &r.unplaced[i]
		problems = append(problems, fmt.Errorf("%s: %s: %w", u, u.Problem(), backend.ErrPermanent))
	}
	return problems
}

// ErrNeverPlaced reports that a revision has an object that no placement may bring to a cluster.
var ErrNeverPlaced = errors.New("an object that is never placed, see snapshot.Propagates and Config.Rules")

// ErrRevisionGone reports that a revision is no longer stored.
var ErrRevisionGone = errors.New("it is not kept")

// InRevision adds the revision and the affected part of it to an error.
func InRevision(placement, set, part string, err error) error {
	return fmt.Errorf("placement %s, revision %s, %s: %w", placement, set, part, err)
}

// Loader returns a revision of a placement, ready to be applied, or [ErrRevisionGone] if it is no
// longer stored. It may be called concurrently, and its results are shared. Every error is
// ErrPermanent, except transient errors of the store.
type Loader func(ctx context.Context, placement, digest string) (*Revision, error)

// Checks returns the names of the check objects of a revision, in the order of the objects: see
// [check.Annotation].
func (r *Revision) Checks() (names []string) {
	for i := range r.checks {
		names = append(names, annotation(r.checks[i].obj, check.Annotation))
	}
	return names
}

// CheckObject returns a revision of the placement of a check. Its only object is the check object
// with the given check name. The object's own name is extended by suffix, so that an object that
// existed before cannot be mistaken for it.
func (r *Revision) CheckObject(name, placement, suffix string) (*Revision, error) {
	for i := range r.checks {
		item := &r.checks[i]
		if annotation(item.obj, check.Annotation) != name {
			continue
		}
		obj, meta := editMetadata(item.obj)
		id := item.ID
		id.Name = checkName(id.Name, suffix)
		meta["name"] = id.Name
		digest := snapshot.Digest([]byte(item.Digest + "/" + suffix))
		renamed := item.Item
		renamed.ID, renamed.Digest = id, digest
		return &Revision{Digest: digest, items: []revisionItem{{renamed, marked(obj, placement, digest)}}}, nil
	}
	return nil, fmt.Errorf("the snapshot has no object with the annotation %s: %s", check.Annotation, name)
}

// checkName returns a name of at most 63 bytes, because the name of a Job also becomes the value of
// a label.
func checkName(name, suffix string) string {
	const most = 63
	if more := len(name) + 1 + len(suffix) - most; more > 0 {
		name = strings.TrimRight(name[:len(name)-more], "-.")
	}
	return name + "-" + suffix
}
