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
	// LedgerNamespace is the namespace of a member's ledgers. Each placement has one ConfigMap there,
	// with its name.
	LedgerNamespace = "slipway-system"
	// ledgerKey is the key of a ledger in the data of its ConfigMap.
	ledgerKey = "ledger"
	// ledgerFormat is the version that is written, and the newest version that is read.
	ledgerFormat = 1
	// ledgerMost bounds the JSON of a ledger, in bytes, so that it fits into a ConfigMap.
	ledgerMost = 1<<20 - 8<<10
	// suspectsMost bounds the suspect objects in a ledger; the newest are kept.
	suspectsMost = 1000
	// endedMost bounds the ended versions in a ledger; the newest are kept.
	endedMost = 500
	// tagLength is the length of the tag of a version.
	tagLength = 32
)

// ledgerPhase is the phase of the work that a ledger records.
type ledgerPhase string

const (
	// ledgerApplying is an open intent: each object may be in any state between its old state and
	// Target.
	ledgerApplying ledgerPhase = "Applying"
	// ledgerApplied proves Revision.
	ledgerApplied ledgerPhase = "Applied"
	// ledgerRemoved proves that nothing is placed on the cluster.
	ledgerRemoved ledgerPhase = "Removed"
)

// ledger is a member's record of one placement. It is written before and after the objects change,
// each time by compare-and-swap. It refuses leaders with an older epoch, proves the revision of the
// cluster, and records whether the placement created or adopted each object. Its invariants are in
// check, and hold whenever a ledger is read or written.
type ledger struct {
	Format    int    `json:"format"`
	Placement string `json:"placement"`
	// Run, RunUID and Attempt identify the run that last changed something on this member.
	Run     string `json:"run,omitempty"`
	RunUID  string `json:"runUID,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Epoch is the newest epoch that wrote the ledger.
	Epoch int64       `json:"epoch"`
	Phase ledgerPhase `json:"phase"`
	// Revision is the proven revision, in phase Applied only. Target is the revision being applied, in
	// phase Applying only, and empty for a removal. On the member both are sealed, see sealRevision; a
	// value sealed under another key reads as unknownRevision.
	Revision string `json:"revision,omitempty"`
	Target   string `json:"target,omitempty"`
	// Generation is the number of the last takeover: see mark. It only rises.
	Generation int64 `json:"touch,omitempty"`
	// Objects are the objects that may be on the cluster because of the placement, in the order of
	// application.
	Objects []ledgerObject `json:"objects,omitempty"`
	// Suspects are objects that may be on the cluster although they should not: objects that were
	// deleted and are not gone yet, and objects that an older leader may be about to create. The
	// latter succeeds on a member without fences, see backend.Fence, or on a member that learns of a
	// newer ledger late: a paused leader's create (precondition: absent) can succeed after a newer
	// leader deleted the object, or never wanted it. Therefore a leader that takes over an open intent
	// lists missing objects as suspect, whatever the member says of itself, and every later update
	// reads them, too.
	Suspects []ledgerObject `json:"doubtful,omitempty"`
	// Ended are earlier versions of objects that succeeded, the oldest first; Objects has the latest.
	Ended []endedVersion `json:"ended,omitempty"`
	// Keeping reports that the open intent only restores the proven revision. No run is needed to
	// close such an intent.
	Keeping bool `json:"keeping,omitempty"`
}

// unknownRevision stands for a revision in the ledger that the engine cannot read, because the
// placement's key has changed since it was written. It is no digest, so that the next update brings
// the cluster to its desired revision.
const unknownRevision = "unknown"

// sealRevision seals the digest of a revision for storage on a member. The digest covers the whole
// revision. With the unsealed digest and the rest of the revision, a reader of the ledger could
// test guesses of the content of a Secret. For the same reason a ledger has no digests of single
// objects; each object carries its own.
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
	// Adopted reports that the object existed before the placement. It is released, unless the delete
	// policy also deletes adopted objects, see placement.DeleteAll.
	Adopted bool `json:"adopted,omitempty"`
	// UID is the object's uid if it was known. A suspect object with a UID was deleted and is not
	// gone yet; a suspect object without a UID may still be created by an older leader.
	UID string `json:"uid,omitempty"`
	// Once is the tag of the version that the object with this UID has, if it does its work once, see
	// [endedVersion]. Expires reports that a controller deletes the object afterwards. End is how the
	// object ended, if that was seen.
	Once    string   `json:"once,omitempty"`
	Expires bool     `json:"expires,omitempty"`
	End     once.End `json:"end,omitempty"`
}

// endedVersion is a version of an object, such as a Job, that succeeded and must not be applied
// again. It is named by the tag of its digest under the placement's key, because a ledger has no
// digests of single objects.
type endedVersion struct {
	snapshot.ID
	Tag string `json:"tag"`
}

// rememberEnds returns the ended versions of the ledger, and the succeeded versions of targets that
// next no longer has.
func (l *ledger) rememberEnds(targets []*target, next []ledgerObject) []endedVersion {
	now := map[snapshot.ID]string{}
	for _, o := range next {
		now[objectKey(o.ID)] = o.Once
	}
	out := slices.Clone(l.Ended)
	for _, t := range targets {
		if !t.listed() || t.entry.Once == "" || now[objectKey(t.id)] == t.entry.Once {
			continue
		}
		if v := (endedVersion{t.id, t.entry.Once}); t.entry.endIn(t.live) == once.Succeeded && !l.hasEnded(t.id, v.Tag) {
			out = append(out, v)
		}
	}
	return out[max(0, len(out)-endedMost):]
}

// hasEnded reports whether Ended has a version of an object.
func (l *ledger) hasEnded(id snapshot.ID, tag string) bool {
	return slices.ContainsFunc(l.Ended, func(v endedVersion) bool { return v.Tag == tag && objectKey(v.ID) == objectKey(id) })
}

// endIn returns how an object that does its work once ended, given its live state, or nil if it is
// gone. An object that expires and is gone counts as succeeded unless it was seen to fail, because
// nothing else is known of it, and its work must not be done twice.
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
	if t.live == nil || !t.listed() || t.entry.Once != tag || t.entry.UID != uidOf(t.live) {
		return false
	}
	end := once.EndOf(t.live)
	return end != "" && end != t.entry.End
}

// endOf returns how a desired object ended that is gone; "" if it exists, or must be applied.
func (l *ledger) endOf(t *target, tag string) once.End {
	switch {
	case t.want == nil || t.live != nil || once.ClassOf(t.want.obj) == once.Lasting:
		return ""
	case l.hasEnded(t.id, tag):
		return once.Succeeded
	case !t.listed() || t.entry.Once != tag:
		return ""
	}
	if end := t.entry.endIn(nil); end == once.Succeeded || t.entry.Expires {
		return end
	}
	return "" // a client deleted a failed object so that it is applied again
}

// encode returns the ledger in its stored form, under the placement's key.
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

// fits returns an error if an intent is too large to be written now, or to be closed later. In the
// closed ledger every object has a uid, and each of the given number of endings has its fields.
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

// decodeLedger decodes a ledger with the placement's key. The text comes from a member and is not
// trusted. A newer format is refused before anything else is read.
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

// check returns an error if this package would never write such a ledger. The error quotes nothing
// from the ledger.
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
	case l.Generation < 0 || l.Generation > 1<<53 || l.Attempt < 0:
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
	if err := checkLedgerObjects("doubtful", l.Suspects); err != nil {
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

// placeable reports whether an object may be in a revision, and therefore in a ledger, by its ID.
// Objects that [snapshot.Propagates] refuses are in no ledger that this package wrote. A host's own
// rules do not count here, because they may be younger than the ledger: see session.adopts.
func placeable(id snapshot.ID) bool { return snapshot.Rules{}.Allows(id) }

func pathSafe(name string) bool { return len(content.IsPathSegmentName(name)) == 0 }

// open reports whether the ledger has an open intent.
func (l *ledger) open() bool { return l.Phase == ledgerApplying }

// keeps reports whether the ledger proves a revision, or an intent to restore it is open.
func (l *ledger) keeps(revision string) bool {
	return l.Phase == ledgerApplied && l.Revision == revision || l.Keeping && l.Target == revision
}

// clone returns a shallow copy; callers must replace its lists, not change them.
func (l *ledger) clone() *ledger {
	c := *l
	return &c
}

// objectKey returns the identity of an object: its ID without the version.
func objectKey(id snapshot.ID) snapshot.ID {
	id.Version = ""
	return id
}

func ledgerID(placement string) snapshot.ID {
	return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: LedgerNamespace, Name: placement}
}
