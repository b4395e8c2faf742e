package member

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/placement"
)

// A ledger that contradicts itself is not written, because no engine could read it afterwards. The
// ledger on the member stays, and the next update continues from it.
func TestALedgerThatContradictsItselfIsNotWritten(t *testing.T) {
	fleet := memory.NewFleet(placement.Cluster{Name: "c"})
	conns := NewConns(fleet, time.Minute)
	defer conns.Close()
	m, err := conns.get(t.Context(), placement.Cluster{Name: "c"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := readLedger(t.Context(), m, "web", goldenKey)
	if err == nil {
		err = l.write(t.Context(), m, goldenLedger())
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*ledger){
		"applied without a revision": func(l *ledger) { l.Revision = "" },
		"a target without an intent": func(l *ledger) { l.Target = l.Revision },
		"removed with objects":       func(l *ledger) { l.Phase, l.Revision = ledgerRemoved, "" },
		"an object twice":            func(l *ledger) { l.Objects = append(l.Objects, l.Objects[0]) },
		"a suspect twice":            func(l *ledger) { l.Suspects = append(l.Suspects, l.Suspects[0]) },
		"keeping without an intent":  func(l *ledger) { l.Keeping = true },
		"an end of a lasting object": func(l *ledger) { l.Objects[0].End = "Succeeded" },
	} {
		next := goldenLedger()
		change(next)
		before := l.text
		if err := l.write(t.Context(), m, next); !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), "contradicts itself") {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := readLedger(t.Context(), m, "web", goldenKey); err != nil || now.text != before || l.text != before {
			t.Errorf("%s: the ledger has changed, or cannot be read: %v", name, err)
		}
	}
	if err := l.write(t.Context(), m, goldenLedger()); err != nil {
		t.Errorf("the next one: %v", err)
	}
}
