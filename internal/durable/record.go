package durable

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/backend"
)

// record is a value in a store that one owner writes.
type record struct {
	store    backend.Store
	key      string
	value    []byte
	revision backend.Revision
	// unsure is set after a write that failed: it may have happened, or may yet.
	unsure bool
}

// load reads the record, or returns ErrNotFound. After a failed write it writes the record
// unchanged, so that a write that is still in transit finds a newer revision and fails.
func (r *record) load(ctx context.Context) error {
	for {
		got, err := r.store.Get(ctx, r.key)
		if err != nil {
			return err
		}
		if r.unsure {
			got.Revision, err = r.store.Put(ctx, r.key, got.Value, got.Revision)
		}
		if errors.Is(err, backend.ErrConflict) {
			continue
		}
		if err == nil {
			r.value, r.revision, r.unsure = got.Value, got.Revision, false
		}
		return err
	}
}

// format is the version of the records.
const format = 1

// decode decodes the value, with whole numbers as int64, and refuses a value of another format.
func (r *record) decode(into any, version func() int) error {
	err := utiljson.Unmarshal(r.value, into)
	if err == nil && version() != format {
		err = fmt.Errorf("it has format %d, this version reads %d", version(), format)
	}
	if err != nil {
		return &backend.Error{Op: "load", Object: r.key, Err: fmt.Errorf("%w: %w", backend.ErrPermanent, err)}
	}
	return nil
}

// save replaces the record that was loaded or saved last.
func (r *record) save(ctx context.Context, value []byte) error {
	if r.revision != "" && bytes.Equal(value, r.value) {
		return nil
	}
	revision, err := r.store.Put(ctx, r.key, value, r.revision)
	if err != nil {
		r.unsure = true
		return err
	}
	r.value, r.revision = value, revision
	return nil
}
