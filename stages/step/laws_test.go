package step

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"
)

// FuzzLaws plays random runs of random plans, with failures, commands, churn,
// clocks that jump and crashes, and holds Step to the laws.
func FuzzLaws(f *testing.F) {
	for seed := range corpus() {
		f.Add(lawBytes(uint64(seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lawful(t, data)
	})
}

// lawSeeds is how many random runs TestLaws plays.
const lawSeeds = 1000

func TestLaws(t *testing.T) {
	n := uint64(few(lawSeeds, 100))
	switch {
	case os.Getenv("SLIPWAY_SOAK") != "":
		n = 20 * lawSeeds
	case testing.Short():
		n = lawSeeds / 20
	}
	// These seeds found problems that the others did not find: an attempt that began in the step in
	// which a deadline ended the run; a deadline that passed unnoticed during a stop; a cluster
	// that became healthy in the step in which it yielded too late; a cluster that was out of turn
	// because another group had retried a cluster of its domain; a request that was open while the
	// run was ending; a retry of a failed cluster that had left and was skipped afterwards; and a
	// group that was skipped, with its gates, while the run was stopped.
	seeds := []uint64{1001984, 1020904, 4190, 3966, 3987, 7680, 8876}
	for seed := range n {
		seeds = append(seeds, seed)
	}
	for _, seed := range seeds {
		lawful(t, lawBytes(seed))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func lawful(t *testing.T, data []byte) {
	t.Helper()
	for _, d := range []dice{{}, {timed: true}, {divided: true}, {timed: true, divided: true}} {
		d.data = data
		found, err := play(&d, Step)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range found {
			t.Errorf("law %s (timed: %t, divided: %t): %s", v.law, d.timed, d.divided, v.text)
		}
	}
}

// lawBytes returns the dice of a seed.
func lawBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 29410))
	b := make([]byte, 100+r.IntN(500))
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b
}
