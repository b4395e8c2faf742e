package member

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/snapshot"
)

// errLedgerMoved reports that another writer replaced the ledger. Everything that was read since
// the last read of the ledger must be read again.
var errLedgerMoved = fmt.Errorf("another client changed the ledger: %w", backend.ErrConflict)

// ledgerAt is the ledger on a member, with the preconditions of its next write.
type ledgerAt struct {
	*ledger
	// uid and version are empty if there is no ledger yet; ledger then has epoch 0 and no objects.
	uid, version string
	// text is the ledger's text on the member, key the placement's key.
	text string
	key  []byte
	// baseline is the text of the baselines beside the ledger, see baselineKey; known is its decoded
	// form, nil until it is decoded.
	baseline string
	known    *baselines
}

// baselines returns the decoded baselines, or nil if there are none.
func (l *ledgerAt) baselines() *baselines {
	if l.known == nil && l.baseline != "" {
		l.known = decodeBaselines(l.baseline, l.key)
	}
	return l.known
}

func (l *ledgerAt) setBaseline(text string) { l.baseline, l.known = text, nil }

func (l *ledgerAt) exists() bool { return l.uid != "" }

// readLedger reads the ledger of a placement and decodes it with the placement's key.
func readLedger(ctx context.Context, m *memberConn, placement string, key []byte) (*ledgerAt, error) {
	obj, err := m.get(ctx, ledgerID(placement))
	if err != nil {
		return nil, err
	}
	return ledgerOf(obj, m, placement, key)
}

// ledgerOf decodes the ConfigMap of a ledger; obj is nil if there is none.
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

// write replaces the ledger by next if no other writer replaced it. After an error the ledger may
// or may not have been replaced. A ledger that no engine could read is not written: the one on the
// member stays, with its intent.
func (l *ledgerAt) write(ctx context.Context, m *memberConn, next *ledger) error {
	if err := next.check(next.Placement); err != nil {
		return fmt.Errorf("cluster %s: the next ledger of placement %s contradicts itself, and the current one stays: %w: %w", m.name, next.Placement, err, backend.ErrPermanent)
	}
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

// ledgerObjectOf returns the ConfigMap of a ledger. It omits the baseline if both together are too
// large, because the baseline only helps.
func ledgerObjectOf(placement, text, baseline string) *unstructured.Unstructured {
	obj := onlyName(ledgerID(placement))
	data := map[string]any{ledgerKey: text}
	if baseline != "" && len(text)+len(baseline) <= ledgerMost {
		data[baselineKey] = baseline
	}
	obj.Object["data"] = data
	return obj
}

// makeLedgerNamespace creates the namespace of the ledgers. It succeeds if another engine has just
// created it.
func makeLedgerNamespace(ctx context.Context, m *memberConn) error {
	ns := onlyName(snapshot.ID{Version: "v1", Kind: "Namespace", Name: LedgerNamespace})
	_, err := m.apply(ctx, ns, backend.ApplyOptions{Manager: "slipway", Precondition: backend.Precondition{Absent: true}})
	if errors.Is(err, backend.ErrConflict) {
		return nil
	}
	return err
}

// confirm returns nil if the ledger on the member is still l. Every decision taken while an intent
// is open precedes a confirm: a later leader finds the intent and changes the objects that the
// decision read.
func (l *ledgerAt) confirm(ctx context.Context, m *memberConn, epoch int64) error {
	obj, err := m.get(ctx, ledgerID(l.Placement))
	if err != nil {
		return err
	}
	now := l
	moved := obj == nil && l.exists() || obj != nil && (string(obj.GetUID()) != l.uid || obj.GetResourceVersion() != l.version)
	if moved { // decoded to see who replaced it
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

// Limits of the ledgers cached per connection: their number, and the bytes of each.
// BenchmarkClusterUpdate in docs/performance.md needs them for its x-cpu, because an update does
// not read a cached ledger.
const (
	ledgersKept    = 8
	ledgerKeptMost = 16 << 10
)

// ledgerCache holds closed ledgers of a cluster as this process last read or wrote them, by
// placement, so that an update need not read its ledger. A stale ledger is safe: the first write of
// an update is a write of the ledger, conditional on its uid and resourceVersion, and an update
// that finds nothing to do confirms the ledger. In both cases the ledger is older than the objects,
// which are read later.
//
// A ledger is cached as the text from the member, which takes a third of the memory of the decoded
// ledger.
type ledgerCache struct{ kept *lru.Cache[string, ledgerAt] }

func newLedgerCache() ledgerCache { return ledgerCache{lru.New[string, ledgerAt](ledgersKept, nil)} }

// take removes the ledger of a placement from the cache and returns it.
func (k *ledgerCache) take(placement string) (*ledgerAt, bool) {
	l, ok := k.kept.Take(placement)
	if !ok {
		return nil, false
	}
	var err error
	l.ledger, err = decodeLedger(placement, l.text, l.key)
	return &l, err == nil
}

// keep caches a ledger if it exists, is closed and is small enough.
func (k *ledgerCache) keep(l *ledgerAt) {
	if !l.exists() || l.open() || len(l.baseline)+len(l.text) > ledgerKeptMost {
		return
	}
	kept := *l
	kept.ledger, kept.known = nil, nil // they are decoded again
	k.kept.Add(l.Placement, kept)
}

// close empties the cache for good.
func (k *ledgerCache) close() { k.kept.Resize(0) }
