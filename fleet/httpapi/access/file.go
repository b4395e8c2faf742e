package access

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
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
	text, err := os.ReadFile(path)
	if err == nil {
		err = f.take(text)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
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
// restart. A content with problems, or a file that cannot be read, is an error in the log, once,
// and the policy stays as it was. Call it once for a File.
func (f *File) Follow(ctx context.Context, log *slog.Logger) {
	var failed string
	for backoff.Sleep(ctx, Interval) {
		text, err := os.ReadFile(f.path)
		if err == nil && bytes.Equal(text, f.text) {
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
