package bolt_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// open opens a store in a directory of its own, and closes it with the test.
func open(t testing.TB) *bolt.Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "state.db"))
}

func openAt(t testing.TB, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	for _, c := range backendtest.StoreCases() {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if err := c.Run(t.Context(), open(t)); err != nil {
					t.Errorf("%v (%s)", err, c.Sentence)
				}
			})
		})
	}
}
