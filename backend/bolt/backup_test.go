package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// write starts writers that count up one key each until stop is called. stop returns their
// acknowledged values.
func write(t *testing.T, s *bolt.Store) (stop func() map[string]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	acknowledged := map[string]int{}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			key := fmt.Sprintf("counter-%d", i)
			for n, rev := 0, put(t, s, key, "0"); ; n++ {
				mu.Lock()
				acknowledged[key] = n
				mu.Unlock()
				next, err := s.Put(ctx, key, fmt.Appendf(nil, "%d", n+1), rev)
				if err != nil {
					return
				}
				rev = next
			}
		})
	}
	return func() map[string]int {
		cancel()
		wg.Wait()
		return acknowledged
	}
}

func TestABackupOfARunningStoreIsAStoreOfOneMoment(t *testing.T) {
	s := open(t)
	put(t, s, "static", strings.Repeat("x", 100_000))
	stop := write(t, s)
	var wg sync.WaitGroup
	for range 3 { // backups at the same time
		wg.Go(func() {
			var b bytes.Buffer
			n, err := s.Backup(t.Context(), &b)
			if err != nil || n != int64(b.Len()) {
				t.Errorf("backup of %d bytes, %d written: %v", n, b.Len(), err)
			}
			path := filepath.Join(t.TempDir(), "backup.db")
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Error(err)
			}
			if got := openAt(t, path).Stats().Records; got < 1 || got > 5 {
				t.Errorf("the backup holds %d records", got)
			}
		})
	}
	wg.Wait()
	stop()
}

func TestABackupEndsWithItsContextOrItsWriter(t *testing.T) {
	s := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Backup(ctx, new(bytes.Buffer)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Backup(t.Context(), full{}); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
	put(t, s, "a", "one")
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestCompactGivesBackSpaceWhileTheStoreIsUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	var revs [32]backend.Revision
	for i := range revs {
		revs[i] = put(t, s, fmt.Sprintf("big-%d", i), strings.Repeat("x", 1<<20))
	}
	for i, rev := range revs {
		if err := s.Delete(t.Context(), fmt.Sprintf("big-%d", i), rev); err != nil {
			t.Fatal(err)
		}
	}
	rev := put(t, s, "kept", "one")
	before := s.Stats().FileBytes
	stop := write(t, s)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	put(t, s, "later", "two")
	acknowledged := stop()
	if after := s.Stats().FileBytes; after >= before {
		t.Errorf("the file has %d bytes after, %d before", after, before)
	}
	if _, err := s.Put(t.Context(), "kept", []byte("three"), rev); err != nil {
		t.Errorf("the revision of a record that was not written changed: %v", err)
	}
	if _, err := bolt.Open(path, bolt.Options{}); !errors.Is(err, bolt.ErrInUse) {
		t.Errorf("after a compaction the file is not locked: %v", err)
	}
	var b bytes.Buffer
	if _, err := s.Backup(t.Context(), &b); err != nil {
		t.Errorf("backup after a compaction: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	for key, n := range acknowledged {
		rec, err := s.Get(t.Context(), key)
		var got int
		if _, scan := fmt.Sscan(string(rec.Value), &got); err != nil || scan != nil || got < n {
			t.Errorf("%s is %q after the compaction, %d was acknowledged: %v", key, rec.Value, n, err)
		}
	}
}
