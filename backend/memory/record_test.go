package memory_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
)

func TestRecordsThatAreDamagedOrNewerAreRefused(t *testing.T) {
	whole := memory.NewStore()
	apply(t, mustKeep(t, whole), config("a", map[string]any{"k": "v"}))
	for r, err := range whole.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Value {
			checkDamage(t, whole, r, i)
		}
	}
}

// checkDamage flips a bit of a record in a copy of the store.
func checkDamage(t *testing.T, whole backend.Store, damaged backend.Record, i int) {
	t.Helper()
	store := memory.NewStore()
	for r := range whole.List(t.Context(), "") {
		if r.Key == damaged.Key {
			r.Value[i] ^= 1 << (i % 8)
		}
		if _, err := store.Put(t.Context(), r.Key, r.Value, ""); err != nil {
			t.Fatal(err)
		}
	}
	_, err := keepOne(t.Context(), store)
	if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), damaged.Key) {
		t.Errorf("%s with byte %d changed: %v", damaged.Key, i, err)
	}
}

// sealed returns a record as it is stored.
func sealed(rest string) string {
	return fmt.Sprintf(`{"sum":"%08x",%s`, crc32.ChecksumIEEE([]byte(rest)), rest)
}

func TestRecordsAreRefusedThatOnlyAnotherVersionUnderstands(t *testing.T) {
	const at = "member/a/head"
	for rest, want := range map[string]string{
		`"format":2}`:           "format 2",
		`"format":0}`:           "no format",
		`"format":1,"more":1}`:  "unknown field",
		`"format":1}{}`:         "damaged",
		`"format":1,"uids":-1}`: "damaged",
	} {
		store := memory.NewStore()
		if _, err := store.Put(t.Context(), at, []byte(sealed(rest)), ""); err != nil {
			t.Fatal(err)
		}
		_, err := keepOne(t.Context(), store)
		if !errors.Is(err, backend.ErrPermanent) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", rest, err)
		}
	}
}

// Records outlive the code that wrote them: whoever changes these raises the
// format and goes on reading them.
func TestTheRecordsOfFormat1StayWhatTheyAre(t *testing.T) {
	const hash = "c5504193b251ae106a66391ecbda6383074d2233b0df9598277e9f6f120b1d5b"
	want := map[string]string{
		"member/a/head": sealed(`"format":1,"uids":1027,"versions":1027}`),
		"member/a/0/" + hash: sealed(`"format":1,"live":{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}},` +
			`"status":{"ready":true},"owners":[{"manager":"slipway/app"},{"manager":"two","applied":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}}],` +
			`"uid":3,"version":5,"generation":1,"created":1000000000}`),
		"source/head":    sealed(`"format":1}`),
		"source/" + hash: sealed(`"format":1,"object":{"apiVersion":"v1","data":{"k":"first"},"kind":"ConfigMap","metadata":{"name":"a","namespace":"default"}}}`),
	}
	store := memory.NewStore()
	c := mustKeep(t, store)
	apply(t, c, config("a", map[string]any{"k": "v"}))
	if err := applying("two", object("ConfigMap", "default", "a", nil))(c); err != nil {
		t.Fatal(err)
	}
	if err := c.SetStatus(id("ConfigMap", "default", "a"), map[string]any{"ready": true}); err != nil {
		t.Fatal(err)
	}
	keepSource(t, store)
	got := map[string]string{}
	for r := range store.List(t.Context(), "") {
		got[r.Key] = string(r.Value)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
