package demo

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// tutorialFiles are the tutorial's own documents, and its members.
//
//go:embed tutorial/*.yaml
var tutorialFiles embed.FS

// readDocuments reads the YAML files of a directory, those that are built in if dir is "", and returns the digest of
// the files too. The runs come in the order of their names.
func readDocuments(dir string) (kubefleet.Documents, string, error) {
	root, err := fs.Sub(tutorialFiles, "tutorial")
	if dir != "" {
		root = os.DirFS(dir)
	}
	docs, failed := kubefleet.ReadFS(root)
	err = errors.Join(err, failed)
	names, _ := fs.Glob(root, "*.y*ml")
	digest := sha256.New()
	for _, name := range names {
		text, failed := fs.ReadFile(root, name)
		fmt.Fprintf(digest, "%s %d\n%s", name, len(text), text)
		err = errors.Join(err, failed)
	}
	if err != nil && dir != "" {
		err = fmt.Errorf("--dir %s: %w", dir, err)
	}
	slices.SortStableFunc(docs.Runs, func(a, b kubefleet.Run) int { return strings.Compare(a.Name, b.Name) })
	return docs, fmt.Sprintf("%x", digest.Sum(nil)), err
}

// The files in the directory of --data.
const (
	engineFile  = "slipway.db"
	outsideFile = "clusters.db"
)

// data is what outlives the process with --data, and is in memory without.
type data struct {
	// engine is the store of the engine, and store its file. A host with real clusters has nothing else: what the
	// hub and the members hold is theirs to keep.
	engine backend.Store
	store  string
	// outside keeps what is outside the engine here: the hub's objects, those of the members, and the bookmark.
	outside backend.Store
	mark    bookmark
	at      backend.Revision // of the bookmark
	open    []*bolt.Store
}

// bookmark is all that the program has to remember. How far the tutorial has come is not in it: that is decided from
// what there is.
type bookmark struct {
	// Files is the digest of the YAML files that are played.
	Files string `json:"files"`
	// Cursor is behind the last event that was printed.
	Cursor string `json:"cursor,omitempty"`
}

const bookmarkKey = "demo/bookmark"

// openData opens the directory, and makes it, for its owner only, if it is missing; without one, everything is in
// memory. What it holds must have begun with the same files.
func openData(ctx context.Context, dir string, files string) (*data, error) {
	d := &data{engine: memory.NewStore(), outside: memory.NewStore()}
	if dir == "" {
		return d, d.turnTo(ctx, files)
	}
	d.store = filepath.Join(dir, engineFile)
	err := os.MkdirAll(dir, 0o700)
	for i, store := range []*backend.Store{&d.engine, &d.outside} {
		var s *bolt.Store
		if err == nil { // a process that was killed may have the file for a moment
			s, err = bolt.Open(filepath.Join(dir, []string{engineFile, outsideFile}[i]), bolt.Options{Wait: time.Second})
		}
		if err == nil {
			*store, d.open = s, append(d.open, s)
		}
	}
	if err == nil {
		err = d.turnTo(ctx, files)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--data %s: %w", dir, err), d.close())
	}
	return d, nil
}

// turnTo finds the bookmark, or makes it. It refuses one file without the other: the bookmark is written before the
// engine's first record, and a cursor after it.
func (d *data) turnTo(ctx context.Context, files string) error {
	used := false
	for _, err := range d.engine.List(ctx, "") {
		if used = true; err != nil {
			return err
		}
		break
	}
	const wrong = "%s is there without the %s that belongs to it: put that back, or take a new directory"
	rec, err := d.outside.Get(ctx, bookmarkKey)
	if errors.Is(err, backend.ErrNotFound) && !used {
		d.mark = bookmark{Files: files}
		return d.write(ctx)
	}
	if err == nil {
		d.at = rec.Revision
		err = json.Unmarshal(rec.Value, &d.mark)
	}
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return fmt.Errorf(wrong, engineFile, outsideFile)
	case err != nil:
		return fmt.Errorf("%s: %s: %w", outsideFile, bookmarkKey, err)
	case !used && d.mark.Cursor != "":
		return fmt.Errorf(wrong, outsideFile, engineFile)
	case d.mark.Files != files:
		return errors.New("it was begun with other YAML files: go on with those, or take a new directory")
	}
	return nil
}

// printed notes that the events before a cursor need not be printed again. It is called after they were, so that none
// is lost: a process that is killed in between prints the last one twice.
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
func (d *data) close() (err error) {
	for _, s := range d.open {
		err = errors.Join(err, s.Close())
	}
	return err
}
