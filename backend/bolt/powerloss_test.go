package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// trials returns the number of trials of a test: n, n/10 under the race detector, and 100 times n
// in a soak.
func trials(n int) int {
	switch {
	case os.Getenv("SLIPWAY_SOAK") != "":
		return 100 * n
	case raceDetector:
		return n / 10
	}
	return n
}

// moment is a file between two commits, with the content of the store.
type moment struct {
	file     []byte
	contents string
}

// history makes commits of every kind and returns the moments between them.
func history(t *testing.T, rng *rand.Rand, commits int) []moment {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	moments := []moment{look(t, s, path)}
	revs := map[string]backend.Revision{}
	for range commits {
		var writes []backend.Write
		for range 1 + rng.IntN(6) {
			key := fmt.Sprintf("run/%02d", rng.IntN(40))
			remove := revs[key] != "" && rng.IntN(3) == 0
			if strings.Contains(fmt.Sprint(writes), key) {
				continue
			}
			writes = append(writes, backend.Write{Key: key, Value: value(rng), Prev: revs[key], Delete: remove})
		}
		made, err := s.WriteAll(t.Context(), writes)
		if err != nil {
			t.Fatal(err)
		}
		for i, w := range writes {
			revs[w.Key] = made[i]
		}
		moments = append(moments, look(t, s, path))
	}
	return moments
}

// value is mostly small, and sometimes larger than a page or several.
func value(rng *rand.Rand) []byte {
	size := rng.IntN(300)
	if rng.IntN(10) == 0 {
		size = rng.IntN(20_000)
	}
	return bytes.Repeat([]byte{byte('a' + rng.IntN(26))}, size)
}

func look(t *testing.T, s *bolt.Store, path string) moment {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return moment{b, contents(t, s)}
}

// sector is the unit that a disk writes completely or not at all. pageSize is the page size of
// bbolt, whose first two pages commit a transaction.
const sector = 512

var metaBytes = 2 * os.Getpagesize()

// differences returns the offsets of the differing sectors of two files, of the first two pages
// and of the others.
func differences(a, b []byte) (metas, pages []int) {
	for at := 0; at < len(b); at += sector {
		if at < len(a) && bytes.Equal(a[at:at+sector], b[at:at+sector]) {
			continue
		}
		if at < metaBytes {
			metas = append(metas, at)
		} else {
			pages = append(pages, at)
		}
	}
	return metas, pages
}

// lose returns a possible content of a disk that loses power during the commit between two
// moments, and whether the commit may be visible. Before the first sync any of the written pages
// may be present, complete or torn; before the second sync all of them are, with any part of the
// page that commits them.
func lose(rng *rand.Rand, before, after moment) (image []byte, mayCount bool) {
	metas, pages := differences(before.file, after.file)
	image = bytes.Clone(before.file)
	if len(after.file) > len(image) && rng.IntN(4) > 0 {
		image = append(image, make([]byte, len(after.file)-len(image))...)
	}
	mayCount = rng.IntN(2) == 0
	if mayCount {
		image = bytes.Clone(after.file)
		for _, at := range metas {
			copy(image[at:at+sector], before.file[at:at+sector])
		}
		pages = metas
	}
	keep := rng.Float64()
	for _, at := range pages {
		if at+sector > len(image) || rng.Float64() > keep {
			continue
		}
		torn := sector
		if rng.IntN(3) == 0 {
			torn = rng.IntN(sector)
		}
		copy(image[at:at+torn], after.file[at:at+torn])
	}
	return image, mayCount
}

// reopen returns the content of a store opened on an image, and sometimes writes to it and opens
// it again.
func reopen(t *testing.T, path string, image []byte, write bool) (string, error) {
	t.Helper()
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return "", err
	}
	got := contents(t, s)
	if !write {
		return got, s.Close()
	}
	for i := range 20 {
		rev := put(t, s, fmt.Sprintf("new/%d", i), strings.Repeat("n", 500))
		if i%2 == 0 {
			if err := s.Delete(t.Context(), fmt.Sprintf("new/%d", i), rev); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := contents(t, s)
	if err := s.Close(); err != nil {
		return got, err
	}
	if s, err = bolt.Open(path, bolt.Options{ReadOnly: true}); err != nil {
		return got, fmt.Errorf("after writing to it: %w", err)
	}
	if again := contents(t, s); again != want {
		return got, fmt.Errorf("after writing to it it holds %d bytes of records, want %d", len(again), len(want))
	}
	return got, s.Close()
}

func TestAcknowledgedWritesSurviveALossOfPower(t *testing.T) {
	images := trials(1_000)
	rng := rand.New(rand.NewPCG(1, 1))
	path := filepath.Join(t.TempDir(), "image.db")
	var moments []moment
	for i := range images {
		if i%2_000 == 0 {
			moments = history(t, rng, 60)
		}
		k := rng.IntN(len(moments) - 1)
		before, after := moments[k], moments[k+1]
		image, mayCount := lose(rng, before, after)
		got, err := reopen(t, path, image, i%20 == 0)
		if err != nil {
			t.Fatalf("image %d, of commit %d: %v", i, k+1, err)
		}
		if got != before.contents && (!mayCount || got != after.contents) {
			t.Fatalf("image %d, of commit %d, holds neither what was acknowledged before it nor after it", i, k+1)
		}
	}
}

// Without syncs, or with syncs in another order, the images differ from the acknowledged writes:
// this proves that the test above can fail.
func TestADiskThatDoesNotSyncIsCaught(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	moments := history(t, rng, 60)
	path := filepath.Join(t.TempDir(), "image.db")
	caught := 0
	for k := range len(moments) - 1 {
		metas, _ := differences(moments[k].file, moments[k+1].file)
		image := bytes.Clone(moments[k+1].file)
		copy(image[metaBytes:], moments[k].file[metaBytes:]) // lose the data pages, not the meta pages
		got, err := reopen(t, path, image, false)
		if err != nil && !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("commit %d: %v, want that it is damaged", k+1, err)
		}
		if len(metas) > 0 && (err != nil || got != moments[k+1].contents) {
			caught++
		}
	}
	if caught < len(moments)*9/10 {
		t.Errorf("%d of %d disks that do not sync were caught", caught, len(moments)-1)
	}
}

// The records of an empty store are in a bucket whose name only bbolt knows.
func TestAFlippedBitInAnEmptyStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	empty := look(t, openAt(t, path), path)
	for i := range 8 * len("records") {
		name := []byte("records")
		name[i/8] ^= 1 << (i % 8)
		image := bytes.ReplaceAll(empty.file, []byte("records"), name)
		if got, err := reopen(t, filepath.Join(t.TempDir(), "image.db"), image, true); err == nil && got != "" || err != nil && !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("bit %d: %q, %v", i, got, err)
		}
	}
}

// After a flip of one bit, the store returns an error, its content, or the content before its
// last commit.
func TestAFlippedBitIsAnErrorOrTheOldState(t *testing.T) {
	flips := trials(10_000)
	rng := rand.New(rand.NewPCG(3, 1))
	moments := history(t, rng, 25)
	old, now := moments[len(moments)-2], moments[len(moments)-1]
	path := filepath.Join(t.TempDir(), "image.db")
	if err := os.WriteFile(path, now.file, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, used := differences(make([]byte, len(now.file)), now.file)
	found := map[string]int{}
	for range flips {
		at, bit := used[rng.IntN(len(used))]+rng.IntN(sector), byte(1)<<rng.IntN(8)
		switch rng.IntN(10) {
		case 0: // the meta pages
			at = rng.IntN(2)*metaBytes/2 + rng.IntN(80)
		case 1: // anything
			at = rng.IntN(len(now.file))
		}
		writeByte(t, f, at, now.file[at]^bit)
		found[flipped(t, path, at, old, now)]++
		writeByte(t, f, at, now.file[at])
	}
	t.Log(found)
	if found["refused"] == 0 || found["now"] == 0 || found["old"] == 0 {
		t.Errorf("the flips did not meet all that there is to meet: %v", found)
	}
}

func writeByte(t *testing.T, f *os.File, at int, b byte) {
	t.Helper()
	if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
		t.Fatal(err)
	}
}

func flipped(t *testing.T, path string, at int, old, now moment) string {
	t.Helper()
	s, err := bolt.Open(path, bolt.Options{ReadOnly: true})
	if err != nil {
		if !errors.Is(err, bolt.ErrDamaged) && !errors.Is(err, bolt.ErrNewer) {
			t.Fatalf("byte %d: %v, want that it is damaged", at, err)
		}
		return "refused"
	}
	defer s.Close()
	switch contents(t, s) {
	case now.contents:
		return "now"
	case old.contents:
		return "old"
	}
	t.Fatalf("byte %d: the store holds something that it never held", at)
	return ""
}
