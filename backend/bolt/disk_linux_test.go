package bolt_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// replaceFile replaces the file behind the descriptor of an open store, so that the store's later
// system calls use the other file.
func replaceFile(t *testing.T, path, other string) {
	t.Helper()
	f, err := os.OpenFile(other, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Dup3(int(f.Fd()), descriptor(t, path), syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
}

// descriptor returns the descriptor with which this process has the file open.
func descriptor(t *testing.T, path string) int {
	t.Helper()
	all := descriptorsOf(t, path)
	if len(all) != 1 {
		t.Fatalf("%s is open %d times", path, len(all))
	}
	return all[0]
}

// descriptors returns the number of descriptors with which this process has the file open.
func descriptors(t *testing.T, path string) int {
	t.Helper()
	return len(descriptorsOf(t, path))
}

func descriptorsOf(t *testing.T, path string) (all []int) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if name, err := os.Readlink(link); err == nil && name == path {
			fd, err := strconv.Atoi(filepath.Base(link))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fd)
		}
	}
	return all
}

// On a full disk every write fails with ENOSPC: /dev/full is one.
func TestFullDiskFailsWritesAndLosesNoData(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	rev := put(t, s, "a", "one")
	want := contents(t, s)
	for range 3 {
		replaceFile(t, path, "/dev/full")
		_, err := s.Put(t.Context(), "a", []byte("two"), rev)
		if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, backend.ErrPermanent) {
			t.Fatalf("a write to a full disk: %v, want a transient ENOSPC", err)
		}
		if got := contents(t, s); got != want {
			t.Fatalf("after it the store holds %q, want %q", got, want)
		}
	}
	if _, err := s.Put(t.Context(), "a", []byte("three"), rev); err != nil {
		t.Fatalf("a write once there is space again: %v", err)
	}
	if _, err := bolt.Open(path, bolt.Options{}); !errors.Is(err, bolt.ErrInUse) {
		t.Errorf("the file is no longer locked: %v", err)
	}
}

// A disk with a failed sync may have lost writes: /dev/null loses them and cannot be synced.
func TestFailedSyncDisablesTheStoreUntilReopened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s := openAt(t, path)
	rev := put(t, s, "a", "one")
	want := contents(t, s)
	replaceFile(t, path, "/dev/null")
	_, put := s.Put(t.Context(), "a", []byte("two"), rev)
	_, get := s.Get(t.Context(), "a")
	_, backup := s.Backup(t.Context(), new(bytes.Buffer))
	for what, err := range map[string]error{
		"put": put, "get": get, "backup": backup,
		"delete": s.Delete(t.Context(), "a", rev), "compact": s.Compact(t.Context()),
	} {
		if !errors.Is(err, bolt.ErrBroken) {
			t.Errorf("%s: %v, want ErrBroken", what, err)
		}
	}
	for _, err := range s.List(t.Context(), "") {
		if !errors.Is(err, bolt.ErrBroken) {
			t.Errorf("list: %v, want ErrBroken", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got := contents(t, openAt(t, path)); got != want {
		t.Errorf("opened again it holds %q, want what was acknowledged, %q", got, want)
	}
}

// Another client empties the file of a store that has it open.
func TestTruncationOfAnOpenFileIsAnError(t *testing.T) {
	for name, use := range map[string]func(s *bolt.Store) error{
		"get": func(s *bolt.Store) error { _, err := s.Get(t.Context(), "key-000"); return err },
		"put": func(s *bolt.Store) error { _, err := s.Put(t.Context(), "new", nil, ""); return err },
		"list": func(s *bolt.Store) error {
			for _, err := range s.List(t.Context(), "") {
				return err
			}
			return nil
		},
		"backup":  func(s *bolt.Store) error { _, err := s.Backup(t.Context(), new(bytes.Buffer)); return err },
		"compact": func(s *bolt.Store) error { return s.Compact(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			s, err := bolt.Open(path, bolt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 200 {
				put(t, s, fmt.Sprintf("key-%03d", i), "value")
			}
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := use(s); !errors.Is(err, bolt.ErrBroken) || !errors.Is(err, bolt.ErrDamaged) {
					t.Errorf("got %v, want that the store is broken by damage", err)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A slow commit delays no reader, and no writer beyond its context; its writes are not visible
// before its end.
func TestSlowDiskDelaysOnlyWriters(t *testing.T) {
	s := open(t)
	begun, go_ := make(chan struct{}), make(chan struct{})
	slow := false
	s.Slow(func() {
		if slow {
			begun <- struct{}{}
			<-go_
		}
	})
	for i := range 100 {
		put(t, s, fmt.Sprintf("key-%03d", 2*i), "old")
	}
	want := contents(t, s)
	slow = true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.WriteAll(ctx, []backend.Write{
			{Key: "key-000", Value: []byte("new"), Prev: "1"},
			{Key: "key-001", Value: []byte("new")},
			{Key: "key-004", Delete: true, Prev: "3"},
			{Key: "key-199", Value: []byte("new")},
			{Key: "key-001", Prev: "102", Delete: true},
		})
		done <- err
	}()
	<-begun
	if got := contents(t, s); got != want {
		t.Errorf("during a commit the store holds\n%s\nwant\n%s", got, want)
	}
	if rec, err := s.Get(t.Context(), "key-000"); err != nil || string(rec.Value) != "old" {
		t.Errorf("during a commit a record is %q: %v", rec.Value, err)
	}
	if _, err := s.Get(t.Context(), "key-001"); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("during a commit a record that it creates: %v", err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("a writer whose context ended: %v", err)
	}
	go_ <- struct{}{}
	<-begun // it is written, and not known yet to be synced
	if got := contents(t, s); got != want {
		t.Errorf("before it is known to be synced the store holds\n%s\nwant\n%s", got, want)
	}
	close(go_)
	<-written(t, s, begun)
	if rec, err := s.Get(t.Context(), "key-000"); err != nil || string(rec.Value) != "new" {
		t.Errorf("after the commit a record is %q: %v", rec.Value, err)
	}
}

// written writes once more; the write is committed after the current commit.
func written(t *testing.T, s *bolt.Store, begun chan struct{}) <-chan struct{} {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := s.Put(context.Background(), "last", nil, ""); err != nil {
			t.Error(err)
		}
	}()
	<-begun
	<-begun
	return done
}
