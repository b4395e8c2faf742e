package member

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/guard"
	"github.com/slipway-dev/slipway/fleet/internal/once"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/versioned"
)

const (
	// LedgerNamespace is where a member keeps its ledgers, one ConfigMap for
	// each placement, by its name.
	LedgerNamespace = "slipway-system"
	// ledgerKey is the key of a ledger in the data of its ConfigMap.
	ledgerKey = "ledger"
	// ledgerFormat is the version that is written, and the newest that is read.
	ledgerFormat = 1
	// ledgerMost bounds the JSON of a ledger: what a ConfigMap can hold.
	ledgerMost = 1<<20 - 8<<10
	// doubtfulMost bounds how many objects are kept in doubt; the newest stay.
	doubtfulMost = 1000
	// endedMost bounds how many versions are kept that succeeded; the newest stay.
	endedMost = 500
	// tagLength is the length of the tag of a version.
	tagLength = 32
)

// ledgerPhase says how far the work that a ledger records has come.
type ledgerPhase string

const (
	// ledgerApplying is an open intent: objects may be anything between what
	// they were and Target.
	ledgerApplying ledgerPhase = "Applying"
	// ledgerApplied proves Revision.
	ledgerApplied ledgerPhase = "Applied"
	// ledgerRemoved proves that nothing is placed any more.
	ledgerRemoved ledgerPhase = "Removed"
)

// ledger is what a member records of one placement. It is written before and
// after objects are, each time by compare-and-swap: it refuses a leader with an
// older epoch, proves which revision the cluster has, and says what has to be
// removed and what only released.
type ledger struct {
	Format    int    `json:"format"`
	Placement string `json:"placement"`
	// Run, RunUID and Attempt are the run that last changed something here.
	Run     string `json:"run,omitempty"`
	RunUID  string `json:"runUID,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Epoch is the newest that was here.
	Epoch int64       `json:"epoch"`
	Phase ledgerPhase `json:"phase"`
	// Revision is what is proven, in Applied only; Target what is being
	// applied, in Applying only, empty for a removal. On the member they are sealed,
	// see sealRevision; what was sealed under another key is unknownRevision here.
	Revision string `json:"revision,omitempty"`
	Target   string `json:"target,omitempty"`
	// Touch is the number of the last takeover: see mark. It only rises.
	Touch int64 `json:"touch,omitempty"`
	// Objects are those that may be there because of the placement, in the
	// order of application.
	Objects []ledgerObject `json:"objects,omitempty"`
	// Doubtful are those that may be there although they should not: deleted
	// and not gone yet, or about to be created by an older leader. The latter
	// is what a member accepts that knows no fences, see backend.Fence, or learns
	// of a newer ledger late: a paused leader's create (precondition: absent) can
	// succeed after a newer leader deleted the object, or never wanted it. A leader
	// that takes over an open intent therefore keeps in doubt what it finds missing,
	// whatever the member says of itself, and every later update reads it, too.
	Doubtful []ledgerObject `json:"doubtful,omitempty"`
	// Ended are versions of objects that succeeded before the one in Objects, the oldest first.
	Ended []endedVersion `json:"ended,omitempty"`
	// Keeping reports of an open intent that it puts back what was proven before. No
	// run is needed to close it.
	Keeping bool `json:"keeping,omitempty"`
}

// unknownRevision stands for a revision that the ledger names and the engine cannot
// tell: the placement's key is another one than when it was written. It is no digest, so
// that the cluster is brought to whatever it is to have.
const unknownRevision = "unknown"

// sealRevision returns the digest of a revision as it stands on a member. It is a digest
// of all that the revision has, so that a reader of the ledger that knows the rest could
// test guesses of what is in a Secret. Digests of single objects are not in a ledger at
// all, for the same reason; each object carries its own.
func sealRevision(key []byte, placement, revision string) string {
	if revision == "" {
		return ""
	}
	return keyed.Seal(key, "revision of "+placement, revision)
}

func openRevision(key []byte, placement, sealed string) string {
	if sealed == "" {
		return ""
	}
	if revision, ok := keyed.Open(key, "revision of "+placement, sealed); ok {
		return revision
	}
	return unknownRevision
}

// ledgerObject is an object in a ledger.
type ledgerObject struct {
	snapshot.ID
	// Adopted reports that the object existed before: it is released, never
	// deleted.
	Adopted bool `json:"adopted,omitempty"`
	// UID is the object's where it was known. An object in doubt with a UID is
	// one that was deleted and is not gone yet; without, one that an older
	// leader may still create.
	UID string `json:"uid,omitempty"`
	// Once is the tag of the version that the object with this UID has, if it does its work
	// once, see [endedVersion]. Expires reports that a controller deletes it afterwards, End how
	// it ended, if that was seen.
	Once    string   `json:"once,omitempty"`
	Expires bool     `json:"expires,omitempty"`
	End     once.End `json:"end,omitempty"`
}

// endedVersion is a version of an object that succeeded, such as a Job, and is not applied
// again. It is named by the tag of its digest under the placement's key, because a ledger
// has no digests of single objects.
type endedVersion struct {
	snapshot.ID
	Tag string `json:"tag"`
}

// rememberEnds adds the versions of objects that succeeded to those that are known, if next does not have them any more.
func (l *ledger) rememberEnds(targets []*target, next []ledgerObject) []endedVersion {
	now := map[snapshot.ID]string{}
	for _, o := range next {
		now[objectKey(o.ID)] = o.Once
	}
	out := slices.Clone(l.Ended)
	for _, t := range targets {
		if !t.listed || t.entry.Once == "" || now[objectKey(t.id)] == t.entry.Once {
			continue
		}
		if v := (endedVersion{t.id, t.entry.Once}); t.entry.endIn(t.live) == once.Succeeded && !l.hasEnded(t.id, v.Tag) {
			out = append(out, v)
		}
	}
	return out[max(0, len(out)-endedMost):]
}

// hasEnded reports whether an earlier version of an object succeeded.
func (l *ledger) hasEnded(id snapshot.ID, tag string) bool {
	return slices.ContainsFunc(l.Ended, func(v endedVersion) bool { return v.Tag == tag && objectKey(v.ID) == objectKey(id) })
}

// endIn returns how an object that does its work once ended, and is now as live or, if that is nil, gone. An object that
// was going to expire and is gone has succeeded unless it was seen to fail: nothing else is known of it, and its work
// must not be done twice.
func (o *ledgerObject) endIn(live *unstructured.Unstructured) once.End {
	switch {
	case o.Once == "" || o.UID == "" && o.End == "":
		return ""
	case live != nil && uidOf(live) == o.UID:
		return once.EndOf(live)
	case o.End != once.Failed && o.Expires:
		return once.Succeeded
	}
	return o.End
}

// endsNow reports whether a version of an object has ended since the ledger was written.
func (l *ledger) endsNow(t *target, tag string) bool {
	if t.live == nil || !t.listed || t.entry.Once != tag || t.entry.UID != uidOf(t.live) {
		return false
	}
	end := once.EndOf(t.live)
	return end != "" && end != t.entry.End
}

// endOf returns how an object ended that must be on the member and is gone; empty if it is there, or must be applied.
func (l *ledger) endOf(t *target, tag string) once.End {
	switch {
	case t.want == nil || t.live != nil || once.ClassOf(t.want.obj) == once.Lasting:
		return ""
	case l.hasEnded(t.id, tag):
		return once.Succeeded
	case !t.listed || t.entry.Once != tag:
		return ""
	}
	if end := t.entry.endIn(nil); end == once.Succeeded || t.entry.Expires {
		return end
	}
	return "" // a client deleted an object that failed, to have it applied again
}

// encode returns the ledger as it is stored, under the placement's key.
func (l *ledger) encode(key []byte) (string, error) {
	written := *l
	written.Revision, written.Target = sealRevision(key, l.Placement, l.Revision), sealRevision(key, l.Placement, l.Target)
	written.Format = ledgerFormat
	b, err := json.Marshal(&written)
	if err != nil {
		return "", guard.Permanent(err)
	}
	return string(b), l.limit(len(b))
}

// fits reports whether an intent can be written, and closed afterwards: then
// every object has a uid, and so many of them are known to end.
func (l *ledger) fits(key []byte, endings int) error {
	const (
		uid   = len(`,"uid":"00000000-0000-0000-0000-000000000000"`)
		ended = len(`,"once":"","expires":true,"end":"Succeeded"`) + tagLength
	)
	text, err := l.encode(key)
	if err != nil {
		return err
	}
	return l.limit(len(text) + uid*len(l.Objects) + ended*endings)
}

func (l *ledger) limit(n int) error {
	if n <= ledgerMost {
		return nil
	}
	return fmt.Errorf("placement %s: its ledger for %d objects takes %d bytes, at most %d fit into a ConfigMap: divide the placement: %w",
		l.Placement, len(l.Objects), n, ledgerMost, backend.ErrPermanent)
}

// decodeLedger reads a ledger, with the placement's key. It comes from a member and is not trusted. A
// newer format is refused before anything else is read.
func decodeLedger(placement, text string, key []byte) (*ledger, error) {
	if len(text) > 1<<20 {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), 1<<20)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return nil, errors.New("it is not the JSON of a ledger")
	}
	if head.Format > ledgerFormat {
		return nil, &versioned.FormatError{Record: "ledger of placement " + placement, Have: head.Format, Want: ledgerFormat}
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	var l ledger
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("it is not a ledger of format %d", ledgerFormat)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the ledger")
	}
	if err := l.check(placement); err != nil {
		return nil, err
	}
	l.Revision, l.Target = openRevision(key, placement, l.Revision), openRevision(key, placement, l.Target)
	slices.SortFunc(l.Objects, func(a, b ledgerObject) int { return a.ID.Compare(b.ID) })
	return &l, nil
}

// check says what no ledger of this package has. It quotes nothing.
func (l *ledger) check(placement string) error {
	switch {
	case l.Format < 1:
		return errors.New("format is missing")
	case l.Keeping && l.Phase != ledgerApplying:
		return errors.New("keeping goes with phase Applying only")
	case l.Placement != placement:
		return errors.New("placement is another one")
	case l.Epoch < 1:
		return errors.New("epoch must be at least 1")
	case l.Touch < 0 || l.Touch > 1<<53 || l.Attempt < 0:
		return errors.New("touch must be 0 to 2^53, and attempt not negative")
	case l.Phase != ledgerApplying && l.Phase != ledgerApplied && l.Phase != ledgerRemoved:
		return errors.New("phase must be Applying, Applied or Removed")
	case (l.Phase == ledgerApplied) != (l.Revision != ""):
		return errors.New("revision must be there in phase Applied, and in no other")
	case l.Phase != ledgerApplying && l.Target != "":
		return errors.New("target must be empty in any phase but Applying")
	case l.Phase == ledgerRemoved && len(l.Objects) > 0:
		return errors.New("objects must be empty in phase Removed")
	}
	if err := checkLedgerObjects("objects", l.Objects); err != nil {
		return err
	}
	if err := checkLedgerObjects("doubtful", l.Doubtful); err != nil {
		return err
	}
	for i, v := range l.Ended {
		if err := checkLedgerObjects(fmt.Sprintf("ended[%d]", i), []ledgerObject{{ID: v.ID}}); err != nil || len(v.Tag) != tagLength {
			return cmp.Or(err, fmt.Errorf("ended[%d] must have a tag", i))
		}
	}
	return nil
}

func checkLedgerObjects(field string, objects []ledgerObject) error {
	seen := make(map[snapshot.ID]bool, len(objects))
	for i, o := range objects {
		switch k := objectKey(o.ID); {
		case o.Version == "" || o.Kind == "" || o.Name == "":
			return fmt.Errorf("%s[%d] must have version, kind and name", field, i)
		case !pathSafe(o.Name) || o.Namespace != "" && !pathSafe(o.Namespace):
			return fmt.Errorf("%s[%d] must have a name that is one part of a path", field, i)
		case !placeable(o.ID):
			return fmt.Errorf("%s[%d] is of a kind or in a namespace that is never placed", field, i)
		case o.Once != "" && len(o.Once) != tagLength || o.Once == "" && (o.Expires || o.End != ""):
			return fmt.Errorf("%s[%d] must have a tag in once, or neither expires nor end", field, i)
		case o.End != "" && o.End != once.Succeeded && o.End != once.Failed:
			return fmt.Errorf("%s[%d] must have an end of Succeeded or Failed", field, i)
		case seen[k]:
			return fmt.Errorf("%s[%d] is there twice", field, i)
		default:
			seen[k] = true
		}
	}
	return nil
}

// placeable reports whether an object may be in a revision, and so in a ledger, by
// its name: what [snapshot.Propagates] never lets pass is in none that this package
// wrote. A host's own rules do not count here, because they may be younger than the
// ledger: see session.adopts.
func placeable(id snapshot.ID) bool { return snapshot.Rules{}.Allows(id) }

func pathSafe(name string) bool { return len(content.IsPathSegmentName(name)) == 0 }

// open reports whether the ledger has an intent that was not closed.
func (l *ledger) open() bool { return l.Phase == ledgerApplying }

// keeps reports whether the ledger proves a revision, or is being brought back to it.
func (l *ledger) keeps(revision string) bool {
	return l.Phase == ledgerApplied && l.Revision == revision || l.Keeping && l.Target == revision
}

// clone returns a copy whose lists may be replaced.
func (l *ledger) clone() *ledger {
	c := *l
	return &c
}

// objectKey identifies an object: an ID without its version.
func objectKey(id snapshot.ID) snapshot.ID {
	id.Version = ""
	return id
}

func ledgerID(placement string) snapshot.ID {
	return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: LedgerNamespace, Name: placement}
}
