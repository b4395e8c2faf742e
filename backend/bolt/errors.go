package bolt

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"syscall"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/slipway-dev/slipway/backend"
)

// The errors of a file or a store, for [errors.Is].
var (
	// ErrInUse: another process, or another store of this process, has the file open. Trying again
	// later may help.
	ErrInUse = errors.New("the file is in use")
	// ErrDamaged: the file does not have the content that was written, or is not a store at all. It
	// is also ErrPermanent.
	ErrDamaged = fmt.Errorf("the file is damaged: %w", backend.ErrPermanent)
	// ErrUnsafe: the path may be under the control of another user, or is no regular file. Nothing
	// was read from it. It is also ErrPermanent.
	ErrUnsafe = fmt.Errorf("the file is not safe to use: %w", backend.ErrPermanent)
	// ErrNewer: a newer version of this package wrote the file. It is also
	// ErrPermanent.
	ErrNewer = fmt.Errorf("a newer version wrote the file: %w", backend.ErrPermanent)
	// ErrBroken: the state of the disk is unknown, because a sync failed or the file was changed by
	// another process while it was open. Every call fails until the store is closed and opened
	// again.
	ErrBroken = errors.New("it is not known what is on the disk, the store has to be closed and opened again")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("the store is closed")
	// ErrReadOnly: the store was opened read-only. It is also ErrPermanent.
	ErrReadOnly = fmt.Errorf("the store is open for reading only: %w", backend.ErrPermanent)
)

// failed wraps err with the operation and its object.
func failed(op, object string, err error) error {
	return &backend.Error{Op: op, Object: object, Err: err}
}

// errBoltPanicked reports that bbolt panicked, or met a fault in the mapped file, for example
// because another process truncated it. bbolt may still hold its own locks then.
var errBoltPanicked = fmt.Errorf("%w: bbolt gave up", ErrDamaged)

// guarded calls f and turns a panic into an error, including a panic by a fault in the mapped
// file.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %.200s", errBoltPanicked, fmt.Sprint(p))
		}
	}()
	return f()
}

// notWritten reports whether a commit failed because the disk is full, before bbolt could have
// made the commit count. After any other failure the content of the disk is unknown.
func notWritten(err error) bool {
	var path *fs.PathError
	return errors.As(err, &path) && path.Op == "write" &&
		(errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG))
}

// asInUse returns ErrInUse for bbolt's error about a locked file.
func asInUse(path string, err error) error {
	if errors.Is(err, berrors.ErrTimeout) {
		return fmt.Errorf("%w: another process has %s open", ErrInUse, path)
	}
	return err
}
