//go:build unix

package bolt

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// openFlags prevent that opening follows a link at the end of the path or waits for the other end
// of a FIFO, if either has replaced the file.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// Permission bits of users other than the owner.
const (
	othersWrite = 0o022
	othersAll   = 0o077
)

// private refuses a file that another user may have written to.
func private(info fs.FileInfo) error {
	if of, ok := info.Sys().(*syscall.Stat_t); ok && int(of.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: it belongs to user %d and this process to user %d; run as the user that it belongs to", ErrUnsafe, of.Uid, os.Geteuid())
	}
	if perm := info.Mode().Perm(); perm&othersWrite != 0 {
		return fmt.Errorf("%w: others may write to it by its permissions %04o; if none did, chmod 0600 makes it usable", ErrUnsafe, perm)
	}
	return nil
}

// makePrivate removes a file's permissions from all users but its owner.
func makePrivate(f *os.File) error {
	info, err := f.Stat()
	if err != nil || info.Mode().Perm()&othersAll == 0 {
		return err
	}
	return f.Chmod(info.Mode().Perm() &^ othersAll)
}
