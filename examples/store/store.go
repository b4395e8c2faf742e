// Package store is an example of your own store: a directory with a file for each record. It has
// the four methods that an engine needs; its test is one call of package backendtest. A store
// with watches or transactions may also be a backend.Watcher and a backend.Batcher, like
// backend/postgres.
//
//	go test ./examples/store
package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/backend"
)

// Directory is a backend.Store that keeps each record in its own file, and all records in memory.
// Only one process may use a directory at a time.
type Directory struct {
	path    string
	mu      sync.RWMutex
	records map[string]backend.Record
	// broken is the error of a write with an unknown result. After it every call fails, because
	// memory and disk may differ.
	broken error
	flush  func(path string) error // waits until a file or a directory is on the disk
}

// Open reads a directory, and creates it if it does not exist.
func Open(path string) (*Directory, error) {
	d := &Directory{path: path, records: map[string]backend.Record{}, flush: flush}
	files, err := filepath.Glob(filepath.Join(path, "*.json"))
	err = errors.Join(err, os.MkdirAll(path, 0o700))
	for _, file := range files {
		text, cannot := os.ReadFile(file)
		var r backend.Record
		if err = errors.Join(err, cannot, json.Unmarshal(text, &r)); d.file(r.Key) != file {
			err = errors.Join(err, fmt.Errorf("%s does not have the record whose file it is", file))
		}
		d.records[r.Key] = r
	}
	return d, err
}

// file returns the file of a key. A key may be longer than a file name.
func (d *Directory) file(key string) string {
	return filepath.Join(d.path, fmt.Sprintf("%x.json", sha256.Sum256([]byte(key))))
}

// Get returns a record. See [backend.Store].
func (d *Directory) Get(ctx context.Context, key string) (backend.Record, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := cmp.Or(ctx.Err(), d.broken, backend.ValidateKey(key)); err != nil {
		return backend.Record{}, err
	}
	r, there := d.records[key]
	if !there {
		return r, fmt.Errorf("%s: %w", key, backend.ErrNotFound)
	}
	return backend.Record{Key: key, Value: slices.Clone(r.Value), Revision: r.Revision}, nil
}

// Put writes a record if it is at a revision. See [backend.Store].
func (d *Directory) Put(ctx context.Context, key string, value []byte, prev backend.Revision) (backend.Revision, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := cmp.Or(ctx.Err(), d.broken, backend.ValidateKey(key), backend.ValidateValue(value)); err != nil {
		return "", err
	}
	if d.records[key].Revision != prev { // none has the zero revision
		return "", fmt.Errorf("%s: %w", key, backend.ErrConflict)
	}
	r := backend.Record{Key: key, Value: slices.Clone(value), Revision: backend.Revision(rand.Text())}
	if d.broken = d.write(r); d.broken == nil {
		d.records[key] = r
	}
	return r.Revision, d.broken
}

// Delete removes a record if it is at a revision. See [backend.Store].
func (d *Directory) Delete(ctx context.Context, key string, prev backend.Revision) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := cmp.Or(ctx.Err(), d.broken, backend.ValidateKey(key)); err != nil {
		return err
	}
	if r, there := d.records[key]; !there {
		return fmt.Errorf("%s: %w", key, backend.ErrNotFound)
	} else if r.Revision != prev {
		return fmt.Errorf("%s: %w", key, backend.ErrConflict)
	}
	if d.broken = errors.Join(os.Remove(d.file(key)), d.flush(d.path)); d.broken == nil {
		delete(d.records, key)
	}
	return d.broken
}

// List yields the records under a prefix. See [backend.Store].
func (d *Directory) List(ctx context.Context, prefix string) iter.Seq2[backend.Record, error] {
	return func(yield func(backend.Record, error) bool) {
		d.mu.RLock()
		keys := slices.Sorted(maps.Keys(d.records))
		d.mu.RUnlock()
		for _, key := range keys { // no lock is held while a record is yielded
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			r, err := d.Get(ctx, key)
			if !errors.Is(err, backend.ErrNotFound) && (!yield(r, err) || err != nil) {
				return
			}
		}
	}
}

// write writes a record beside its file and renames that, so that a crash leaves the old record
// or the new one.
func (d *Directory) write(r backend.Record) error {
	next := d.file(r.Key) + ".next"
	text, _ := json.Marshal(r) // text and bytes always are JSON
	err := os.WriteFile(next, text, 0o600)
	if err == nil {
		err = d.flush(next)
	}
	if err == nil {
		err = os.Rename(next, d.file(r.Key))
	}
	if err == nil {
		err = d.flush(d.path)
	}
	return err
}

func flush(path string) error {
	f, err := os.Open(path)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	return err
}
