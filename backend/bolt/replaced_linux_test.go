package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// A caller that waits for a file during its compaction gets the new file, and not the old one,
// which has lost its name.
func TestOpenAfterACompactionGetsTheNewFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		a := openAt(t, path)
		put(t, a, "a", "one")
		type outcome struct {
			s   *bolt.Store
			err error
		}
		opened := make(chan outcome)
		go func() {
			s, err := bolt.Open(path, bolt.Options{Wait: time.Minute})
			opened <- outcome{s, err}
		}()
		synctest.Wait() // until it waits
		if n := descriptors(t, path); n != 2 {
			t.Fatalf("the file is open %d times, want that one waits for it", n)
		}
		if err := a.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		put(t, a, "b", "two")
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		b := <-opened
		if b.err != nil {
			t.Fatal(b.err)
		}
		defer b.s.Close()
		if got := contents(t, b.s); got != "a=one@1\nb=two@2\n" {
			t.Errorf("it holds %q", got)
		}
	})
}

// The remains of a crash during a creation may be the same store under another name.
func TestRemainsOfACrashedCreationAreNotModified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	put(t, s, "a", "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	kept := path + ".kept"
	if err := errors.Join(os.Link(path, path+left), os.Rename(path, kept)); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, openAt(t, path)); got != "" {
		t.Errorf("a new store holds %q", got)
	}
	if got := contents(t, openAt(t, kept)); got != "a=one@1\n" {
		t.Errorf("the one that was kept holds %q", got)
	}
}

func TestAWatchEndsWithItsStore(t *testing.T) {
	s := open(t)
	put(t, s, "a", "one")
	n := 0
	for _, err := range s.Watch(t.Context(), "") {
		if n++; n == 1 {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if !errors.Is(err, bolt.ErrClosed) {
			t.Errorf("the watch yields %v, want that the store is closed", err)
		}
	}
	for _, err := range s.Watch(t.Context(), "") {
		if !errors.Is(err, bolt.ErrClosed) {
			t.Errorf("a watch of a closed store yields %v", err)
		}
	}
}

// If the writer of a backup panics, the panic reaches the caller, and the store continues.
func TestStoreSurvivesAPanickingBackupWriter(t *testing.T) {
	s := open(t)
	put(t, s, "a", "one")
	func() {
		defer func() {
			if v := recover(); v != "mine" {
				t.Errorf("it panicked with %v", v)
			}
		}()
		_, _ = s.Backup(t.Context(), writer(func([]byte) (int, error) { panic("mine") }))
	}()
	put(t, s, "b", "two")
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// While a backup waits for its writer the store continues, and a closed store ends the backup
// immediately.
func TestASlowBackupHoldsUpNothing(t *testing.T) {
	s := open(t)
	put(t, s, "a", "one")
	begun, goOn := make(chan struct{}), make(chan struct{})
	backup := make(chan error, 1)
	go func() {
		var b bytes.Buffer
		first := true
		_, err := s.Backup(context.Background(), writer(func(p []byte) (int, error) {
			if first {
				first = false
				close(begun)
				<-goOn
			}
			return b.Write(p)
		}))
		backup <- err
	}()
	<-begun
	put(t, s, "b", "two")
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	for {
		if _, err := s.Get(t.Context(), "a"); errors.Is(err, bolt.ErrClosed) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	close(goOn)
	if err := errors.Join(<-backup, <-closed); err != nil {
		t.Error(err)
	}
}
