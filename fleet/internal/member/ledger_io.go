package member

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
)

// errLedgerMoved is that another writer replaced the ledger: everything that was read
// since then has to be read again.
var errLedgerMoved = fmt.Errorf("the ledger was written by another client meanwhile: %w", backend.ErrConflict)

// ledgerAt is a ledger as it is on a member, and what its next write demands.
type ledgerAt struct {
	*ledger
	// uid and version are empty where there is no ledger yet; ledger is then
	// one of epoch 0 that has nothing.
	uid, version string
	// text is the ledger as the member has it, key the placement's.
	text string
	key  []byte
	// baseline is the text that stands beside the ledger, see baselineKey, known
	// what it says, once it was decoded.
	baseline string
	known    *baselines
}

// baselines are what the objects were right after they were applied.
func (l *ledgerAt) baselines() *baselines {
	if l.known == nil && l.baseline != "" {
		l.known = decodeBaselines(l.baseline, l.key)
	}
	return l.known
}

func (l *ledgerAt) setBaseline(text string) { l.baseline, l.known = text, nil }

func (l *ledgerAt) exists() bool { return l.uid != "" }

// readLedger reads the ledger of a placement, with its key.
func readLedger(ctx context.Context, m *memberConn, placement string, key []byte) (*ledgerAt, error) {
	obj, err := m.get(ctx, ledgerID(placement))
	if err != nil {
		return nil, err
	}
	return ledgerOf(obj, m, placement, key)
}

// ledgerOf decodes the ConfigMap of a ledger, which is nil where there is none.
func ledgerOf(obj *unstructured.Unstructured, m *memberConn, placement string, key []byte) (*ledgerAt, error) {
	if obj == nil {
		none := &ledger{Format: ledgerFormat, Placement: placement, Phase: ledgerRemoved}
		return &ledgerAt{ledger: none, key: key}, nil
	}
	data, _ := obj.Object["data"].(map[string]any)
	text, ok := data[ledgerKey].(string)
	if !ok {
		return nil, ledgerDamaged(m, placement, errors.New("data.ledger is missing"))
	}
	l, err := decodeLedger(placement, text, key)
	if err != nil {
		return nil, ledgerDamaged(m, placement, err)
	}
	baseline, _ := data[baselineKey].(string)
	return &ledgerAt{ledger: l, uid: string(obj.GetUID()), version: obj.GetResourceVersion(), text: text, key: key, baseline: baseline}, nil
}

func ledgerDamaged(m *memberConn, placement string, err error) error {
	return fmt.Errorf("cluster %s: ConfigMap %s/%s cannot be used as the ledger of the placement: %w: restore it from a backup, or delete it; objects that are there will then be adopted, and not deleted later: %w",
		m.name, LedgerNamespace, placement, err, backend.ErrPermanent)
}

// write replaces the ledger that l is by next, if it is still that one. After
// an error it may have been replaced.
func (l *ledgerAt) write(ctx context.Context, m *memberConn, next *ledger) error {
	text, err := next.encode(l.key)
	if err != nil {
		return err
	}
	obj := ledgerObjectOf(next.Placement, text, l.baseline)
	o := backend.ApplyOptions{
		Manager:      manager(next.Placement),
		Brief:        true,
		Precondition: backend.Precondition{Absent: !l.exists(), UID: l.uid, ResourceVersion: l.version},
	}
	got, err := m.apply(ctx, obj, o)
	if errors.Is(err, backend.ErrNotFound) && !l.exists() {
		if err := makeLedgerNamespace(ctx, m); err != nil {
			return err
		}
		got, err = m.apply(ctx, obj, o)
	}
	switch {
	case errors.Is(err, backend.ErrConflict), errors.Is(err, backend.ErrNotFound) && l.exists():
		return errLedgerMoved
	case errors.Is(err, backend.ErrNotFound):
		return fmt.Errorf("%v: %w", err, backend.ErrPermanent)
	case err != nil:
		return err
	}
	l.ledger, l.text, l.uid, l.version = next, text, string(got.GetUID()), got.GetResourceVersion()
	return nil
}

// ledgerObjectOf returns the ConfigMap of a ledger, without the baseline where
// both do not fit: that one is a help, and not needed.
func ledgerObjectOf(placement, text, baseline string) *unstructured.Unstructured {
	obj := onlyName(ledgerID(placement))
	data := map[string]any{ledgerKey: text}
	if baseline != "" && len(text)+len(baseline) <= ledgerMost {
		data[baselineKey] = baseline
	}
	obj.Object["data"] = data
	return obj
}

// makeLedgerNamespace makes the namespace of the ledgers. Another engine may
// have made it meanwhile.
func makeLedgerNamespace(ctx context.Context, m *memberConn) error {
	ns := onlyName(snapshot.ID{Version: "v1", Kind: "Namespace", Name: LedgerNamespace})
	_, err := m.apply(ctx, ns, backend.ApplyOptions{Manager: "slipway", Precondition: backend.Precondition{Absent: true}})
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}

// confirm makes sure that the ledger is still the one that l is. Every decision
// that is taken while an intent is open is taken before a confirm: a leader
// that comes later finds the intent and changes what was read.
func (l *ledgerAt) confirm(ctx context.Context, m *memberConn, epoch int64) error {
	obj, err := m.get(ctx, ledgerID(l.Placement))
	if err != nil {
		return err
	}
	now := l
	moved := obj == nil && l.exists() || obj != nil && (string(obj.GetUID()) != l.uid || obj.GetResourceVersion() != l.version)
	if moved { // it is decoded to see whose it is now
		if now, err = ledgerOf(obj, m, l.Placement, l.key); err != nil {
			return err
		}
	}
	switch {
	case now.Epoch > epoch:
		return fencedBy(m, l.Placement, now.Epoch, epoch)
	case moved:
		return errLedgerMoved
	}
	return nil
}

func fencedBy(m *memberConn, placement string, newer, epoch int64) error {
	return fmt.Errorf("cluster %s: placement %s is at epoch %d, this is epoch %d: %w", m.name, placement, newer, epoch, backend.ErrFenced)
}
