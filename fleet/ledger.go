package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

const (
	// ledgerNamespace is where a member keeps its ledgers, one ConfigMap for
	// each placement, by its name.
	ledgerNamespace = "slipway-system"
	// ledgerKey is the key of a ledger in the data of its ConfigMap.
	ledgerKey = "ledger"
	// ledgerFormat is the version that is written, keepingFormat that of an intent
	// to put something back, and the newest that is read.
	ledgerFormat  = 1
	keepingFormat = 2
	// ledgerMost bounds the JSON of a ledger: what a ConfigMap can hold.
	ledgerMost = 1<<20 - 8<<10
	// doubtfulMost bounds how many objects are kept in doubt; the newest stay.
	doubtfulMost = 1000
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
	// Run, RunUID and Attempt are who last changed something here.
	Run     string `json:"run,omitempty"`
	RunUID  string `json:"runUID,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	// Epoch is the newest that was here.
	Epoch int64       `json:"epoch"`
	Phase ledgerPhase `json:"phase"`
	// Revision is what is proven, in Applied only; Target what is being
	// applied, in Applying only, empty for a removal.
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
	// of a newer ledger late: a leader that is paused right before it creates an
	// object has the demand that it does not exist, and so that comes true again
	// once a newer leader removed the object or never wanted it. Whoever takes over
	// an open intent therefore keeps in doubt what it finds missing, whatever the
	// member says of itself, and every later look looks for it, too.
	Doubtful []ledgerObject `json:"doubtful,omitempty"`
	// Keeping tells of an open intent that it puts back what was proven before;
	// then the format is 2. No run is needed to close it.
	Keeping bool `json:"keeping,omitempty"`
}

// ledgerObject is an object in a ledger.
type ledgerObject struct {
	snapshot.ID
	// Digest is that of the object as it is, or is being, applied.
	Digest string `json:"digest,omitempty"`
	// Adopted tells that the object existed before: it is released, never
	// deleted.
	Adopted bool `json:"adopted,omitempty"`
	// UID is the object's where it was known. An object in doubt with a UID is
	// one that was deleted and is not gone yet; without, one that an older
	// leader may still create.
	UID string `json:"uid,omitempty"`
}

// encode returns the ledger as it is stored.
func (l *ledger) encode() (string, error) {
	written := *l
	written.Format = ledgerFormat
	if l.Keeping {
		written.Format = keepingFormat
	}
	b, err := json.Marshal(&written)
	if err != nil {
		return "", permanent(err)
	}
	return string(b), l.limit(len(b))
}

// fits tells whether an intent can be written, and closed afterwards: then
// every object has a uid.
func (l *ledger) fits() error {
	const uid = len(`,"uid":"00000000-0000-0000-0000-000000000000"`)
	text, err := l.encode()
	if err != nil {
		return err
	}
	return l.limit(len(text) + uid*len(l.Objects))
}

func (l *ledger) limit(n int) error {
	if n <= ledgerMost {
		return nil
	}
	return fmt.Errorf("placement %s: its ledger for %d objects takes %d bytes, at most %d fit into a ConfigMap: divide the placement: %w",
		l.Placement, len(l.Objects), n, ledgerMost, backend.ErrPermanent)
}

// decodeLedger reads a ledger. It comes from a member and is not trusted. A
// newer format is refused before anything else is looked at.
func decodeLedger(placement, text string) (*ledger, error) {
	if len(text) > 1<<20 {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), 1<<20)
	}
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		return nil, errors.New("it is not the JSON of a ledger")
	}
	if head.Format > keepingFormat {
		return nil, &stages.FormatError{Record: "ledger of placement " + placement, Have: head.Format, Want: keepingFormat}
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
	slices.SortFunc(l.Objects, func(a, b ledgerObject) int { return a.ID.Compare(b.ID) })
	return &l, nil
}

// check says what no ledger of this package has. It quotes nothing.
func (l *ledger) check(placement string) error {
	switch {
	case l.Format < 1:
		return errors.New("format is missing")
	case l.Keeping != (l.Format == keepingFormat) || l.Keeping && l.Phase != ledgerApplying:
		return errors.New("keeping goes with format 2 and phase Applying only")
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
	return checkLedgerObjects("doubtful", l.Doubtful)
}

func checkLedgerObjects(field string, objects []ledgerObject) error {
	seen := make(map[snapshot.ID]bool, len(objects))
	for i, o := range objects {
		switch k := objectKey(o.ID); {
		case o.Version == "" || o.Kind == "" || o.Name == "":
			return fmt.Errorf("%s[%d] must have version, kind and name", field, i)
		case reserved(o.ID):
			return fmt.Errorf("%s[%d] must not be in namespace %s", field, i, ledgerNamespace)
		case seen[k]:
			return fmt.Errorf("%s[%d] is there twice", field, i)
		default:
			seen[k] = true
		}
	}
	return nil
}

// open tells that the ledger has an intent that was not closed.
func (l *ledger) open() bool { return l.Phase == ledgerApplying }

// keeps tells that the ledger proves a revision, or is being brought back to it.
func (l *ledger) keeps(revision string) bool {
	return l.Phase == ledgerApplied && l.Revision == revision || l.Keeping && l.Target == revision
}

// clone returns a copy whose lists may be replaced.
func (l *ledger) clone() *ledger {
	c := *l
	return &c
}
