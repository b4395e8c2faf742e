package access

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/internal/backoff"
)

// Interval is the time between two readings of the file of [File.Follow].
const Interval = 2 * time.Second

// File is the policy of a file. It may be used concurrently; [Open] makes one.
type File struct {
	path   string
	policy atomic.Pointer[Policy]
	// text is the last content that was read, valid or not. Only Open and Follow use it.
	text []byte
}

// Open reads the policy of a file.
func Open(path string) (*File, error) {
	f := &File{path: path}
	text, err := f.read()
	if err == nil {
		err = f.take(text)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// largest is the maximum size of a policy file, in bytes.
const largest = 1 << 20

// read reads the file. It refuses a file that others may write, because they could give themselves
// every right.
func (f *File) read() ([]byte, error) {
	info, err := os.Stat(f.path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: it is not a regular file", f.path)
	case info.Size() > largest:
		return nil, fmt.Errorf("%s: it has %d bytes, at most %d are read", f.path, info.Size(), largest)
	case info.Mode().Perm()&0o022 != 0 && runtime.GOOS != "windows":
		return nil, fmt.Errorf("%s: its mode is %04o, so other users can change it: use chmod go-w", f.path, info.Mode().Perm())
	}
	return os.ReadFile(f.path)
}

// take makes a content the policy, or returns its problems and leaves the policy unchanged.
func (f *File) take(text []byte) error {
	f.text = text
	policy, err := Read(text)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.policy.Store(policy)
	return nil
}

// Authorize is a function for [httpapi.Options].Authorize. It decides by the last valid content of
// the file.
func (f *File) Authorize(ctx context.Context, by approval.Identity, verb httpapi.Verb, placement string) error {
	return f.policy.Load().Authorize(ctx, by, verb, placement)
}

// Follow reads the file every [Interval] until ctx ends, so that a change takes effect without a
// restart. A new content is taken once two readings in a row are equal, because a file that is
// being written may look valid. If the content has problems or the file cannot be read, the log has
// one error, and the policy stays as it was. Call it once for a File.
func (f *File) Follow(ctx context.Context, log *slog.Logger) {
	var failed string
	var last []byte
	for backoff.Sleep(ctx, Interval) {
		text, err := f.read()
		written := !bytes.Equal(text, last)
		last = text
		if err == nil && (written || bytes.Equal(text, f.text)) {
			failed = ""
			continue
		}
		if err == nil {
			if err = f.take(text); err == nil {
				failed = ""
				log.Info("the policy was read again", "file", f.path)
				continue
			}
		}
		if err.Error() != failed {
			failed = err.Error()
			log.Error("the policy is not read again, the last valid one stays", "error", err)
		}
	}
}
