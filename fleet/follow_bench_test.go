package fleet_test

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
)

// BenchmarkFollow reads on when there is nothing new. It measures the cost of each event for a
// follower of all placements, in a store with the records of many runs.
func BenchmarkFollow(b *testing.B) {
	golden, err := os.ReadFile("internal/record/testdata/golden/run.json")
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("runs=%d", n), func(b *testing.B) {
			store, members := memory.NewStore(), memory.NewFleet()
			for i := range n {
				name := fmt.Sprintf("run-%d", i)
				text := bytes.ReplaceAll(golden, []byte(`"run-1"`), []byte(`"`+name+`"`))
				text = bytes.ReplaceAll(text, []byte(`"uid-1"`), []byte(`"uid-`+name+`"`))
				if _, err := store.Put(b.Context(), "run/"+name, text, ""); err != nil {
					b.Fatal(err)
				}
			}
			e, err := fleet.New(fleet.Config{Store: store, Inventory: members, Dialer: members})
			if err != nil {
				b.Fatal(err)
			}
			f, err := e.Follow("")
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for _, err := range f.Past(b.Context()) {
					_ = err // the journals of the runs are missing, which is reported once
				}
			}
		})
	}
}
