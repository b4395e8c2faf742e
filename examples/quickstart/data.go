package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
)

// The files in the directory of -data.
const (
	engineFile  = "slipway.db"
	outsideFile = "clusters.db"
)

// data is what outlives the process with -data, and is in memory without.
type data struct {
	// engine is the store of the engine. A host with real clusters has nothing
	// else: what the hub and the members hold is theirs to keep.
	engine backend.Store
	// outside keeps what is outside the engine here: the hub's objects, those
	// of the members, and the bookmark of the program.
	outside backend.Store
	mark    bookmark
	at      backend.Revision // of the bookmark
	open    []*bolt.Store
}

// bookmark is all that the program has to remember. How far the tutorial has
// come is not in it: that is decided from what there is.
type bookmark struct {
	Format int `json:"format"`
	// Files are the digests of the YAML files that are played, by their names.
	Files map[string]string `json:"files"`
	// Cursor is behind the last event that was printed.
	Cursor string `json:"cursor,omitempty"`
}

const (
	bookmarkKey    = "quickstart/bookmark"
	bookmarkFormat = 1
)

// dying is how long a process that was killed may take to give its files free.
const dying = time.Second

// openData opens the directory, and makes it if it is missing; without one,
// everything is in memory. What it holds must have begun with the same files.
func openData(ctx context.Context, dir string, files map[string]string) (*data, error) {
	if dir == "" {
		d := &data{engine: memory.NewStore(), outside: memory.NewStore()}
		return d, d.turnTo(ctx, files)
	}
	d := &data{}
	err := makeDirectory(dir)
	if err == nil {
		d.engine, err = d.file(filepath.Join(dir, engineFile))
	}
	if err == nil {
		d.outside, err = d.file(filepath.Join(dir, outsideFile))
	}
	if err == nil {
		err = d.turnTo(ctx, files)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("-data %s: %w", dir, err), d.close())
	}
	return d, nil
}

// makeDirectory makes a directory whose name outlives a loss of power, for its
// owner only.
func makeDirectory(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) || runtime.GOOS == "windows" {
		return err
	}
	if err != nil {
		return nil //nolint:nilerr // it is there, or opening the files says what is
	}
	parent, err := os.Open(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

func (d *data) file(path string) (backend.Store, error) {
	s, err := bolt.Open(path, bolt.Options{Wait: dying})
	if err != nil {
		return nil, err
	}
	d.open = append(d.open, s)
	return s, nil
}

// turnTo finds the bookmark, or makes it.
func (d *data) turnTo(ctx context.Context, files map[string]string) error {
	rec, err := d.outside.Get(ctx, bookmarkKey)
	begun := err == nil
	if err != nil && !errors.Is(err, backend.ErrNotFound) {
		return err
	}
	if begun {
		d.at = rec.Revision
		err = d.mark.read(rec.Value)
	} else {
		d.mark = bookmark{Format: bookmarkFormat, Files: files}
		err = nil
	}
	if err == nil {
		err = d.belongTogether(ctx, begun)
	}
	if err != nil {
		return err
	}
	if !begun {
		return d.write(ctx)
	}
	if changed := differing(d.mark.Files, files); len(changed) > 0 {
		return fmt.Errorf("it was begun with other YAML files (%s): go on with those, or take a new directory", strings.Join(changed, ", "))
	}
	return nil
}

func (b *bookmark) read(value []byte) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(value, &head); err != nil {
		return fmt.Errorf("%s: %s: %w", outsideFile, bookmarkKey, err)
	}
	if head.Format != bookmarkFormat {
		return fmt.Errorf("%s: %s has format %d, this program knows %d: go on with the program that wrote it", outsideFile, bookmarkKey, head.Format, bookmarkFormat)
	}
	strict := json.NewDecoder(bytes.NewReader(value))
	strict.DisallowUnknownFields()
	if err := strict.Decode(b); err != nil {
		return fmt.Errorf("%s: %s: %w", outsideFile, bookmarkKey, err)
	}
	return nil
}

// belongTogether refuses one file without the other. The bookmark is written
// before the engine's first record, and a cursor after it.
func (d *data) belongTogether(ctx context.Context, begun bool) error {
	used := false
	for _, err := range d.engine.List(ctx, "") {
		if err != nil {
			return err
		}
		used = true
		break
	}
	const wrong = "%s is there without the %s that belongs to it: put that back, or take a new directory"
	switch {
	case used && !begun:
		return fmt.Errorf(wrong, engineFile, outsideFile)
	case !used && d.mark.Cursor != "":
		return fmt.Errorf(wrong, outsideFile, engineFile)
	}
	return nil
}

// differing returns the names under which two maps differ, ascending.
func differing(a, b map[string]string) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	maps.DeleteFunc(all, func(name, _ string) bool { return a[name] == b[name] })
	return slices.Sorted(maps.Keys(all))
}

// printed notes that the events before a cursor need not be printed again. It
// is called after they were, so that none is lost: a process that is killed in
// between prints the last one twice.
func (d *data) printed(ctx context.Context, cursor string) error {
	d.mark.Cursor = cursor
	return d.write(context.WithoutCancel(ctx))
}

func (d *data) write(ctx context.Context) error {
	value, err := json.Marshal(d.mark)
	if err == nil {
		d.at, err = d.outside.Put(ctx, bookmarkKey, value, d.at)
	}
	return err
}

// close gives the files free, once what was begun is written.
func (d *data) close() error {
	var errs []error
	for _, s := range slices.Backward(d.open) {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
