package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/bbolt"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// put writes a new key.
func put(t testing.TB, s backend.Store, key, value string) backend.Revision {
	t.Helper()
	rev, err := s.Put(t.Context(), key, []byte(value), "")
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// contents returns all records as text.
func contents(t testing.TB, s backend.Store) string {
	t.Helper()
	var b strings.Builder
	for rec, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s=%s@%s\n", rec.Key, rec.Value, rec.Revision)
	}
	return b.String()
}

func TestReopenedStoreKeepsItsDataAndRepeatsNoRevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	rev := put(t, s, "a", "one")
	put(t, s, "b", "two")
	gone := put(t, s, "c", "three")
	if err := s.Delete(t.Context(), "c", gone); err != nil {
		t.Fatal(err)
	}
	want := contents(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	if got := contents(t, s); got != want {
		t.Errorf("it holds\n%s\nwant\n%s", got, want)
	}
	again, err := s.Put(t.Context(), "a", []byte("four"), rev)
	if err != nil || again == rev {
		t.Errorf("put at the old revision: %q, %v", again, err)
	}
	if c := put(t, s, "c", "five"); c == gone {
		t.Errorf("revision %s of a deleted record was used again", c)
	}
	if n := s.Stats().Records; n != 3 {
		t.Errorf("it counts %d records, want 3", n)
	}
}

func TestAFileIsInUseByOneStoreAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	for _, o := range []bolt.Options{{}, {ReadOnly: true}} {
		if _, err := bolt.Open(path, o); !errors.Is(err, bolt.ErrInUse) || !strings.Contains(err.Error(), path) {
			t.Errorf("open with %+v: %v, want that %s is in use", o, err, path)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var readers [2]*bolt.Store
	for i := range readers {
		var err error
		if readers[i], err = bolt.Open(path, bolt.Options{ReadOnly: true}); err != nil {
			t.Fatal(err)
		}
		defer readers[i].Close()
	}
	if _, err := bolt.Open(path, bolt.Options{}); !errors.Is(err, bolt.ErrInUse) {
		t.Errorf("open for writing beside readers: %v", err)
	}
	_, err := readers[0].Put(t.Context(), "a", nil, "")
	if !errors.Is(err, bolt.ErrReadOnly) || !errors.Is(err, backend.ErrPermanent) {
		t.Errorf("a write to a store that is read-only: %v", err)
	}
	if err := readers[0].Compact(t.Context()); !errors.Is(err, bolt.ErrReadOnly) {
		t.Errorf("a compaction of a store that is read-only: %v", err)
	}
}

// A caller that may wait for a file in use waits for the given time.
func TestOpenHonorsItsWaitTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		openAt(t, path)
		const wait, retry = time.Minute, time.Second
		began := time.Now()
		if _, err := bolt.Open(path, bolt.Options{Wait: wait}); !errors.Is(err, bolt.ErrInUse) {
			t.Errorf("%v, want that it is in use", err)
		}
		if took := time.Since(began); took < wait || took > wait+retry {
			t.Errorf("it waited for %v, want %v", took, wait)
		}
	})
}

func TestOpenWaitsForAFileInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		s := openAt(t, path)
		put(t, s, "a", "one")
		opened := make(chan error, 1)
		go func() {
			next, err := bolt.Open(path, bolt.Options{Wait: time.Minute})
			if err == nil {
				err = next.Close()
			}
			opened <- err
		}()
		synctest.Wait() // until it waits
		if len(opened) > 0 {
			t.Fatalf("it did not wait: %v", <-opened)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-opened; err != nil {
			t.Error(err)
		}
	})
}

// If many callers create the same file at the same time, one of them gets it, and none of the
// others truncates it.
func TestConcurrentCreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				s, err := bolt.Open(path, bolt.Options{Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				_, err = s.Put(t.Context(), fmt.Sprintf("key-%02d", i), nil, "")
				if err := errors.Join(err, s.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := openAt(t, path).Stats().Records; n != 16 {
			t.Errorf("the file has %d records of 16 that were acknowledged", n)
		}
		if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestAFileThatIsNotAStoreIsRefusedAndLeftAlone(t *testing.T) {
	foreign := func(path string) {
		db, err := bbolt.Open(path, 0o600, nil)
		if err == nil {
			err = db.Update(func(tx *bbolt.Tx) error {
				_, err := tx.CreateBucket([]byte("other"))
				return err
			})
		}
		if err = errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	text := func(content string) func(path string) {
		return func(path string) {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, make := range map[string]func(path string){
		"text":           text("runs: []\n"),
		"zeros":          text(strings.Repeat("\x00", 1<<16)),
		"another's file": foreign,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			make(path)
			before, _ := os.ReadFile(path)
			for _, o := range []bolt.Options{{}, {ReadOnly: true}} {
				_, err := bolt.Open(path, o)
				if !errors.Is(err, bolt.ErrDamaged) || !errors.Is(err, backend.ErrPermanent) {
					t.Errorf("open: %v, want that it is damaged", err)
				}
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestOpenErrorsHaveTheReason(t *testing.T) {
	dir := t.TempDir()
	if _, err := bolt.Open(filepath.Join(dir, "none"), bolt.Options{ReadOnly: true}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist, for reading: %v", err)
	}
	if _, err := bolt.Open(filepath.Join(dir, "none", "state.db"), bolt.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that does not exist: %v", err)
	}
	if _, err := bolt.Open(dir, bolt.Options{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: %v", err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	s := open(t)
	rev := put(t, s, "a", "one")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, get := s.Get(t.Context(), "a")
	_, written := s.Put(t.Context(), "a", nil, rev)
	for _, err := range []error{get, written, s.Delete(t.Context(), "a", rev), s.Compact(t.Context())} {
		if !errors.Is(err, bolt.ErrClosed) {
			t.Errorf("got %v, want that it is closed", err)
		}
	}
	for _, err := range s.List(t.Context(), "") {
		if !errors.Is(err, bolt.ErrClosed) {
			t.Errorf("list: %v", err)
		}
	}
}

// Writers that Close interrupts learn that their write was made, or that it may not have been
// made; acknowledged writes are in the file.
func TestCloseLosesNothingThatWasAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	var mu sync.Mutex
	var made []string
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := 0; ; n++ {
				key := fmt.Sprintf("key-%d-%d", i, n)
				if _, err := s.Put(t.Context(), key, nil, ""); err != nil {
					if !errors.Is(err, bolt.ErrClosed) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				made = append(made, key)
				if len(made) == 100 {
					go s.Close()
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	for _, key := range made {
		if _, err := s.Get(t.Context(), key); err != nil {
			t.Errorf("an acknowledged write is lost: %v", err)
		}
	}
}
