package member

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/versioned"
)

var updateLedgers = flag.Bool("update-ledger", false, "rewrite testdata/ledger.json")

var goldenKey = []byte("0123456789abcdef0123456789abcdef")

func goldenLedger() *ledger {
	digest := snapshot.Digest(nil)
	return &ledger{
		Format: 1, Placement: "web", Run: "r1", RunUID: "6q", Attempt: 2, Epoch: 7, Phase: ledgerApplied,
		Revision: digest, Generation: 7,
		Objects: []ledgerObject{
			{ID: snapshot.ID{Version: "v1", Kind: "Namespace", Name: "app"}, Adopted: true, UID: "u1"},
			{ID: snapshot.ID{Group: "apps", Version: "v1", Kind: "Deployment", Namespace: "app", Name: "web"}, UID: "u2"},
		},
		Suspects: []ledgerObject{{ID: configMapID("app", "late")}, {ID: configMapID("app", "held"), UID: "u3"}},
	}
}

// TestLedgerGolden checks that the stored form of a ledger does not change within a format.
func TestLedgerGolden(t *testing.T) {
	golden := filepath.Join("testdata", "ledger.json")
	text, err := goldenLedger().encode(goldenKey)
	if err != nil {
		t.Fatal(err)
	}
	if *updateLedgers {
		if err := os.WriteFile(golden, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != strings.TrimSpace(string(want)) {
		t.Errorf("the stored form changed:\n%s\nwant\n%s", text, want)
	}
	got, err := decodeLedger("web", text, goldenKey)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(goldenLedger(), got); d != "" {
		t.Errorf("decoded (-want +got):\n%s", d)
	}
}

func TestNewerLedgerIsRefused(t *testing.T) {
	_, err := decodeLedger("web", `{"format":2,"phases":["x"]}`, goldenKey)
	var fe *versioned.FormatError
	if !errors.As(err, &fe) || fe.Have != 2 || fe.Want != 1 {
		t.Error(err)
	}
}

// TestDamagedLedgerIsReported checks that a damaged ledger is reported, and never overwritten.
func TestDamagedLedgerIsReported(t *testing.T) {
	good, err := goldenLedger().encode(goldenKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":             ``,
		"no JSON":           `hello`,
		"no ledger":         `{}`,
		"a list":            `[]`,
		"deep":              strings.Repeat("[", 100000),
		"newer":             strings.Replace(good, `"format":1`, `"format":99`, 1),
		"unknown field":     strings.Replace(good, `"epoch":7`, `"epoch":7,"extra":1`, 1),
		"after it":          good + `{}`,
		"another placement": strings.Replace(good, `"placement":"web"`, `"placement":"shop"`, 1),
		"no epoch":          strings.Replace(good, `"epoch":7`, `"epoch":0`, 1),
		"negative touch":    strings.Replace(good, `"touch":7`, `"touch":-7`, 1),
		"phase":             strings.Replace(good, `"Applied"`, `"Done"`, 1),
		"removed with":      strings.Replace(good, `"Applied"`, `"Removed"`, 1),
		"no name":           strings.Replace(good, `"name":"late"`, `"name":""`, 1),
		"twice":             strings.Replace(good, `"late"`, `"held"`, 1),
		"ours":              strings.Replace(good, `"namespace":"app","name":"late"`, `"namespace":"slipway-system","name":"late"`, 1),
		"keeping":           strings.Replace(good, `"format":1`, `"format":1,"keeping":true`, 1),
		"huge":              good + strings.Repeat(" ", 1<<20),
	} {
		k := newKit(t)
		k.exists(namespaceObject(LedgerNamespace))
		k.exists(ledgerObjectOf(kitPlacement, text, ""))
		k.member.Record(true)
		for what, do := range map[string]func() (backend.Proof, error){
			"update":  func() (backend.Proof, error) { return k.leader(nil).Update(t.Context(), k.want("A", 9, "r1")) },
			"observe": func() (backend.Proof, error) { return k.leader(nil).Observe(t.Context(), k.want("A", 9, "r1")) },
		} {
			r, err := do()
			if !errors.Is(err, backend.ErrPermanent) || r.Sent {
				t.Errorf("%s of a cluster with a ledger that is %s: %+v, %v", what, name, r, err)
				continue
			}
			if !strings.Contains(err.Error(), "cluster c1") || !strings.Contains(err.Error(), "restore") || len(err.Error()) > 1000 {
				t.Errorf("%s, %s: the error must name the cluster and what to do, in few words: %v", what, name, err)
			}
		}
		if log := k.member.Log(); len(log) != 0 {
			t.Errorf("%s: wrote %v", name, log)
		}
	}
}

func FuzzLedger(f *testing.F) {
	good, err := goldenLedger().encode(goldenKey)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(`{"format":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := decodeLedger("web", text, goldenKey)
		if err != nil {
			return
		}
		again, err := l.encode(goldenKey)
		if err != nil {
			return
		}
		if l2, err := decodeLedger("web", again, goldenKey); err != nil || !cmp.Equal(l, l2) {
			t.Errorf("a ledger does not survive being stored: %v", err)
		}
	})
}

func TestTooManyObjectsForALedger(t *testing.T) {
	k := newKit(t)
	var objs []*unstructured.Unstructured
	for i := range 8000 {
		objs = append(objs, configMap("default", "object-"+strings.Repeat("0", 40)+strconv.Itoa(i), "1"))
	}
	k.revision("huge", objs...)
	k.member.Record(true)
	r, err := k.leader(nil).Update(t.Context(), k.want("huge", 1, "r1"))
	if !errors.Is(err, backend.ErrPermanent) || r.Sent || !strings.Contains(err.Error(), "divide the placement") {
		t.Errorf("%+v, %v", r, err)
	}
	if log := k.member.Log(); len(log) != 0 {
		t.Errorf("wrote %d times", len(log))
	}
}
