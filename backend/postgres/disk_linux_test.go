package postgres_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/internal/pgenv"
)

// TestAFullDisk prevents the server's files from growing, and later permits it again. Limits of
// the size of files need no rights; a file system of its own that is really full needs the right
// to mount one.
func TestAFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("limit", func(t *testing.T) {
		server := newServer(t, pgenv.Options{Settings: []string{"autovacuum = off"}})
		full(t, server, func() { limitFiles(t, server, "20971520") }, func() { limitFiles(t, server, "unlimited") })
	})
	dir, err := os.MkdirTemp("", "slipway-disk-") //nolint:usetesting // the server's account may not enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Logf("a file system cannot be mounted (%v): the test is of a limit alone", err)
		return
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	t.Run("file system", func(t *testing.T) {
		data := filepath.Join(dir, "server")
		if err := os.Mkdir(data, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		server := newServer(t, pgenv.Options{Dir: data, Settings: []string{"min_wal_size = 32MB", "max_wal_size = 32MB"}})
		filler := filepath.Join(dir, "filler")
		full(t, server, func() { fill(t, dir, filler) }, func() {
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// fill leaves room for little.
func fill(t *testing.T, dir, name string) {
	t.Helper()
	var room syscall.Statfs_t
	if err := syscall.Statfs(dir, &room); err != nil {
		t.Fatal(err)
	}
	free := int64(room.Bavail) * room.Bsize
	if err := os.WriteFile(name, make([]byte, max(0, free-(4<<20))), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// limitFiles sets how large files of the server's processes may be, in the words of prlimit.
func limitFiles(t *testing.T, server *pgenv.Server, bytes string) {
	t.Helper()
	if err := server.LimitFiles(bytes); err != nil {
		t.Fatal(err)
	}
}

// full lets writers meet a full disk, and continue when there is space again.
func full(t *testing.T, server *pgenv.Server, exhaust, relieve func()) {
	t.Helper()
	s := open(t, server.DSN()+" pool_max_conns=4", postgres.Options{Schema: newSchema(t, server.DSN())})
	filler := make([]byte, 256<<10)
	if _, err := rand.Read(filler); err != nil {
		t.Fatal(err)
	}
	r := referees(t, s, 4, filler)
	r.await(t, 20)
	exhaust()
	eventually(t, "writes fail", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.errors) > 0
	})
	time.Sleep(300 * time.Millisecond)
	relieve()
	// A server without space for its log stops, and an operator starts it again.
	if _, err := s.Get(t.Context(), "writer/0"); err != nil {
		if err := errors.Join(server.Stop(), server.Start()); err != nil {
			t.Fatal(err)
		}
	}
	r.await(t, 20)
	r.finish(t)
	for text := range r.errors {
		t.Log(text)
	}
}
