package backendtest_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/backendtest"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
)

// The test of a store of one's own has one line, but for how the store is made.
func ExampleTestStore() {
	// func TestStore(t *testing.T)
	test := func(t *testing.T) {
		backendtest.TestStore(t, func(t *testing.T) backend.Store {
			s, err := bolt.Open(filepath.Join(t.TempDir(), "slipway.db"), bolt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		})
	}
	_ = test // go test runs it
}

// A host checks an installation without the testing package.
func ExampleCheckStore() {
	open := func() (backend.Store, error) { return memory.NewStore(), nil }
	fmt.Println(backendtest.CheckStore(context.Background(), open))
	// Output: <nil>
}
