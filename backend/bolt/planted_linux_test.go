package bolt_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
)

// closed makes a store with one record and returns its path.
func closed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	s, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// modeOf returns the permissions of the file at path, without following a link.
func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// refused opens path for writing and for reading, and checks that both fail with an error that
// matches want and contains all of the words.
func refused(t *testing.T, path string, want error, words ...string) {
	t.Helper()
	for _, o := range []bolt.Options{{}, {ReadOnly: true}} {
		s, err := bolt.Open(path, o)
		if err == nil {
			err = s.Close()
			t.Errorf("open with %+v succeeds (%v), want it refused", o, err)
			continue
		}
		if !errors.Is(err, want) || !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("open with %+v: %v, want %v, permanent", o, err, want)
		}
		for _, word := range append(words, path) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("open with %+v: %v, want that it says %q", o, err, word)
			}
		}
	}
}

// Another user of the directory guesses the name of the file that a store is
// made in, and puts something there before.
func TestCreationIgnoresPlantedFiles(t *testing.T) {
	for name, plant := range map[string]func(planted, victim string) error{
		"symlink":     func(planted, victim string) error { return os.Symlink(victim, planted) },
		"empty":       func(planted, _ string) error { return os.WriteFile(planted, nil, 0o666) },
		"directory":   func(planted, _ string) error { return os.Mkdir(planted, 0o777) },
		"fifo":        func(planted, _ string) error { return syscall.Mkfifo(planted, 0o666) },
		"to nothing":  func(planted, victim string) error { return os.Symlink(victim+".none", planted) },
		"hard linked": func(planted, victim string) error { return os.Link(victim, planted) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, victim := filepath.Join(dir, "state.db"), filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			for _, suffix := range []string{".new", ".compact"} {
				if err := plant(path+suffix, victim); err != nil {
					t.Fatal(err)
				}
			}
			s := openAt(t, path)
			put(t, s, "a", "one")
			if err := s.Compact(t.Context()); err != nil {
				t.Error(err)
			}
			if mode := modeOf(t, path); mode != 0o600 {
				t.Errorf("the store has mode %v, want a file of 0600", mode)
			}
			if b, err := os.ReadFile(victim); err != nil || len(b) > 0 || modeOf(t, victim) != 0o644 {
				t.Errorf("the victim was written to: %d bytes, %v: %v", len(b), modeOf(t, victim), err)
			}
			if _, err := os.Lstat(victim + ".none"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("what the link names was made: %v", err)
			}
		})
	}
}

func TestTheModeOfANewStoreDoesNotDependOnTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077, 0o277, 0o777} {
		t.Run(fmt.Sprintf("%04o", mask), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			before := syscall.Umask(mask)
			defer syscall.Umask(before)
			s := openAt(t, path)
			put(t, s, "a", "one")
			if mode := modeOf(t, path); mode != 0o600 {
				t.Errorf("the store has mode %v", mode)
			}
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			if mode := modeOf(t, path); mode != 0o600 {
				t.Errorf("compacted it has mode %v", mode)
			}
		})
	}
}

func TestASymbolicLinkIsNotFollowedToAStore(t *testing.T) {
	path := closed(t)
	link := path + ".link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	refused(t, link, bolt.ErrUnsafe, "symbolic link")
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the file that the link names was changed")
	}
	none := path + ".none"
	if err := errors.Join(os.Remove(link), os.Symlink(none, link)); err != nil {
		t.Fatal(err)
	}
	refused(t, link, bolt.ErrUnsafe, "symbolic link")
	if _, err := os.Lstat(none); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the link names was made: %v", err)
	}
}

func TestADirectoryMayBeASymbolicLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := errors.Join(os.Mkdir(real, 0o700), os.Symlink(real, link)); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, filepath.Join(link, "state.db"))
	put(t, s, "a", "one")
	if err := s.Compact(t.Context()); err != nil {
		t.Error(err)
	}
	if mode := modeOf(t, filepath.Join(real, "state.db")); mode != 0o600 {
		t.Errorf("the store has mode %v", mode)
	}
}

// Opening a FIFO waits for its other end, and some devices act on being opened.
func TestOpenRefusesNonRegularFiles(t *testing.T) {
	dir := t.TempDir()
	fifo, directory := filepath.Join(dir, "fifo"), filepath.Join(dir, "directory")
	if err := errors.Join(syscall.Mkfifo(fifo, 0o600), os.Mkdir(directory, 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, "/dev/null", "/dev/zero"} {
		refused(t, path, bolt.ErrUnsafe, "regular file")
	}
	refused(t, directory, bolt.ErrUnsafe, "it is a directory")
}

func TestAStoreOfAnotherUserIsRefused(t *testing.T) {
	path := "/etc/passwd" // root's
	if os.Geteuid() == 0 {
		path = closed(t)
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, path, bolt.ErrUnsafe, "user")
}

func TestAStoreThatOthersMayWriteIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o620, 0o602, 0o660, 0o666, 0o777} {
		t.Run(fmt.Sprintf("%04o", mode), func(t *testing.T) {
			path := closed(t)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			refused(t, path, bolt.ErrUnsafe, fmt.Sprintf("%04o", mode), "chmod 0600")
			if got := modeOf(t, path); got != mode {
				t.Errorf("the mode became %v", got)
			}
		})
	}
}

func TestOpenForWritingRestrictsTheMode(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o604, 0o644, 0o755} {
		t.Run(fmt.Sprintf("%04o", mode), func(t *testing.T) {
			path := closed(t)
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
			s, err := bolt.Open(path, bolt.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := modeOf(t, path); got != mode {
				t.Errorf("reading changed the mode to %v", got)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got := contents(t, openAt(t, path)); got != "a=one@1\n" {
				t.Errorf("it holds %q", got)
			}
			if got := modeOf(t, path); got != mode&0o700 {
				t.Errorf("the mode is %v, want %v", got, mode&0o700)
			}
		})
	}
}

// A hard link to another file of the same user is another name of this file: a file that is no
// store keeps its content and its mode.
func TestAHardLinkToAnotherFileIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path, victim := filepath.Join(dir, "state.db"), filepath.Join(dir, "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o644), os.Link(victim, path)); err != nil {
		t.Fatal(err)
	}
	refused(t, path, bolt.ErrDamaged)
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" || modeOf(t, victim) != 0o644 {
		t.Errorf("the victim is %q, %v: %v", b, modeOf(t, victim), err)
	}
}

// A store is never empty and never without its head. Such files result from a truncation, and a
// new store would lose all acknowledged writes.
func TestTruncatedFileIsNotTreatedAsNew(t *testing.T) {
	whole, err := os.ReadFile(closed(t))
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	sizes := []int{0, 1, 512, page - 1}
	for size := page; size < len(whole); size += page {
		sizes = append(sizes, size)
	}
	dir := t.TempDir()
	for _, size := range sizes {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", size))
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := bolt.Open(path, bolt.Options{})
		if err == nil { // the end of the file, without pages in use
			if got := contents(t, s); got != "a=one@1\n" {
				t.Errorf("cut to %d of %d bytes it holds %q", size, len(whole), got)
			}
			_ = s.Close()
			continue
		}
		if !errors.Is(err, bolt.ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", size, err)
		}
		if after, _ := os.ReadFile(path); !bytes.Equal(after, whole[:size]) {
			t.Errorf("cut to %d bytes the file was changed", size)
		}
	}
	refused(t, filepath.Join(dir, "0.db"), bolt.ErrDamaged, "empty", "backup", "remove it")
}

// The remains of a killed creation: a file beside the store with its name and 26 random
// characters.
const left = ".ABCDEFGHIJKLMNOPQRSTUVWXYZ.tmp"

func TestOpenRemovesTheTemporaryFileOfACrash(t *testing.T) {
	path := closed(t)
	if err := os.WriteFile(path+left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, openAt(t, path)); got != "a=one@1\n" {
		t.Errorf("it holds %q", got)
	}
	if _, err := os.Lstat(path + left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// The store itself may have the other name yet, if the crash came right after it
// got its own.
func TestOpenRemovesASecondNameLeftByACrash(t *testing.T) {
	path := closed(t)
	if err := os.Link(path, path+left); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, openAt(t, path)); got != "a=one@1\n" {
		t.Errorf("it holds %q", got)
	}
	if names, _ := filepath.Glob(path + "*"); len(names) != 1 {
		t.Errorf("there are %q", names)
	}
}

func TestOpenKeepsForeignTemporaryFiles(t *testing.T) {
	for name, plant := range map[string]func(path string) error{
		"other name": func(path string) error { return os.WriteFile(path+".notes.tmp", []byte("mine"), 0o600) },
		"symlink":    func(path string) error { return os.Symlink("/etc/passwd", path+left) },
		"directory":  func(path string) error { return os.Mkdir(path+left, 0o700) },
		"fifo":       func(path string) error { return syscall.Mkfifo(path+left, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := closed(t)
			if err := plant(path); err != nil {
				t.Fatal(err)
			}
			put(t, openAt(t, path), "b", "two")
			if names, _ := filepath.Glob(path + "*"); len(names) != 2 {
				t.Errorf("there are %q", names)
			}
		})
	}
}

// A file of this name in use belongs to another process that is creating its store.
func TestTemporaryFileInUseIsKept(t *testing.T) {
	path := closed(t)
	f, err := os.OpenFile(path+left, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	put(t, openAt(t, path), "b", "two")
	if _, err := os.Lstat(path + left); err != nil {
		t.Error(err)
	}
}

// On a file system without hard links, a store gets its name by a rename, and the first file
// stays.
func TestConcurrentCreationWithoutHardLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				if err := bolt.CreateWithoutLinks(path); err != nil {
					t.Error(err)
				}
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
		s := openAt(t, path)
		if n := s.Stats().Records; n != 16 {
			t.Errorf("the file has %d records of 16 that were acknowledged", n)
		}
		if err := bolt.CreateWithoutLinks(path); err != nil {
			t.Error(err)
		}
		if _, err := bolt.Open(path, bolt.Options{ReadOnly: true}); !errors.Is(err, bolt.ErrInUse) {
			t.Errorf("the store that is open has lost its name: %v", err)
		}
		if names, _ := filepath.Glob(path + "*"); len(names) != 1 {
			t.Errorf("there are %q", names)
		}
	})
}

// Between the answer that there is no file and the rename that makes one, another
// creator may have made a store and written to it.
func TestACreatorWithoutHardLinksWaitsForTheLockOfTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		made := make(chan error, 1)
		go func() { made <- bolt.CreateWithoutLinks(path) }()
		synctest.Wait() // until it waits
		if len(made) > 0 {
			t.Fatalf("it did not wait: %v", <-made)
		}
		put(t, openAt(t, path), "a", "one")
		if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		if err := <-made; err != nil {
			t.Error(err)
		}
		if _, err := bolt.Open(path, bolt.Options{ReadOnly: true}); !errors.Is(err, bolt.ErrInUse) {
			t.Errorf("the store that is open has lost its name: %v", err)
		}
	})
}

// The file behind the name may change between the check and the opening. Opening follows no link,
// does not wait, and does not treat an existing file as new.
func TestOpenIsSafeAgainstAReplacedFile(t *testing.T) {
	dir := t.TempDir()
	victim, link, fifo := filepath.Join(dir, "victim"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.Symlink(victim, link), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	if f, err := os.OpenFile(link, os.O_RDWR|bolt.OpenFlags, 0); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link is opened: %v, %v", f, err)
	}
	f, err := os.OpenFile(fifo, os.O_RDONLY|bolt.OpenFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	for _, name := range []string{victim, link, fifo} {
		if err := bolt.OpenNew(name); !errors.Is(err, os.ErrExist) {
			t.Errorf("%s is taken for new: %v", name, err)
		}
	}
}
