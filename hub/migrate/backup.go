package migrate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// backupFormat is the version of backup files that are written, and the newest that can be read.
const backupFormat = 1

// The operations that have a backup.
const (
	takeOver = "take-over"
	giveBack = "give-back"
)

// backup is a file with removed objects. It is written before their removal. It may contain
// Secrets.
type backup struct {
	path string
	// begun reports whether the file existed: then the operation continues.
	begun bool
	backupFile
	have map[types.UID]bool
}

type backupFile struct {
	Format    int    `json:"format"`
	Operation string `json:"operation"`
	// Hub is the UID of the namespace kube-system of the hub.
	Hub string `json:"hub"`
	// Completed is set when everything was removed. Then the file cannot be used again.
	Completed bool           `json:"completed,omitempty"`
	Objects   []backupObject `json:"objects"`
}

type backupObject struct {
	Cluster string         `json:"cluster"`
	Object  map[string]any `json:"object"`
}

// openBackup reads the file of an operation, if it exists. It writes nothing.
func openBackup(path, operation, hub string) (*backup, error) {
	if path == "" {
		return nil, errors.New("a file for the backup is required")
	}
	b := &backup{path: path, backupFile: backupFile{Format: backupFormat, Operation: operation, Hub: hub}, have: map[types.UID]bool{}}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, err
	}
	b.backupFile = backupFile{}
	switch err := json.Unmarshal(text, &b.backupFile); {
	case err != nil || b.Format == 0:
		return nil, fmt.Errorf("backup %s: there is a file of that name that is no backup", path)
	case b.Format > backupFormat:
		return nil, fmt.Errorf("backup %s: it has format %d, and this version knows %d", path, b.Format, backupFormat)
	case b.Operation != operation || b.Hub != hub:
		return nil, fmt.Errorf("backup %s: it is of a %s of the hub %s, and this is a %s of %s: name another file",
			path, b.Operation, b.Hub, operation, hub)
	case b.Completed:
		return nil, fmt.Errorf("backup %s: the %s that it belongs to has completed: name another file", path, operation)
	}
	for _, o := range b.Objects {
		b.have[(&unstructured.Unstructured{Object: o.Object}).GetUID()] = true
	}
	b.begun = true
	return b, nil
}

// continues returns an error if the operation had begun and one of the objects to remove is not in
// the backup: a hub or an agent has served in between, so that this is another operation.
func (b *backup) continues(cluster string, objects []*unstructured.Unstructured) error {
	for _, obj := range objects {
		if b.begun && !b.have[obj.GetUID()] {
			return fmt.Errorf("backup %s: %s: %s was created after the %s began: name another file, to begin again", b.path, cluster, nameOf(obj), b.Operation)
		}
	}
	return nil
}

// complete records the end of the operation in the file.
func (b *backup) complete() error {
	b.Completed = true
	return b.save()
}

// add adds an object unless the backup has it.
func (b *backup) add(cluster string, obj *unstructured.Unstructured) {
	if !b.have[obj.GetUID()] {
		b.have[obj.GetUID()] = true
		b.Objects = append(b.Objects, backupObject{cluster, obj.Object})
	}
}

// save replaces the file atomically. Only its owner may read it.
func (b *backup) save() (err error) {
	text, err := json.Marshal(b.backupFile)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(b.path), "."+filepath.Base(b.path)+"-*") // mode 0600
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
			err = fmt.Errorf("backup: %w", err)
		}
	}()
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), b.path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(b.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
