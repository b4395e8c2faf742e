package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/stages"
)

// The first cluster goes first and the others a minute later. A failed cluster is retried, and a
// killed loop continues at its last state.
func TestTheLoopContinuesWhereItWas(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.json")
	synctest.Test(t, func(t *testing.T) {
		begun, failed := time.Now(), false
		var updated []string
		ctx, kill := context.WithCancel(t.Context())
		update := func(cluster, version string) error {
			if version != "v2" {
				t.Errorf("%s gets %s", cluster, version)
			}
			updated = append(updated, cluster)
			if cluster == "eu-1" {
				kill() // while it waits for the minute
			}
			if cluster == "eu-3" && !failed {
				failed = true
				return errors.New("not now")
			}
			return nil
		}
		clusters := []string{"eu-1", "eu-2", "eu-3"}
		if state, err := carryOut(ctx, file, "v2", clusters, update); !errors.Is(err, context.Canceled) {
			t.Fatalf("%s, %v", state, err)
		}
		if want := []string{"eu-1"}; !slices.Equal(updated, want) {
			t.Fatalf("before the kill: %v, want %v", updated, want)
		}
		// Other arguments change nothing of a run that has begun.
		if state, err := carryOut(t.Context(), file, "v3", nil, update); err != nil || state != stages.Completed {
			t.Fatalf("%s, %v", state, err)
		}
		if want := []string{"eu-1", "eu-2", "eu-3", "eu-3"}; !slices.Equal(updated, want) || time.Since(begun) < time.Minute {
			t.Errorf("updated after %s: %v, want %v", time.Since(begun), updated, want)
		}
	})
}

// A cluster that fails as often as the strategy allows ends the run.
func TestAFailureEndsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		state, err := carryOut(t.Context(), filepath.Join(t.TempDir(), "run.json"), "v2", []string{"eu-1", "eu-2"}, func(string, string) error {
			tries++
			return errors.New("broken")
		})
		if err != nil || state != stages.Failed || tries != 3 {
			t.Errorf("%s after %d tries, %v", state, tries, err)
		}
	})
}
