package kubefleet

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
)

// ReadFS reads the files of a directory whose names end in .yaml or .yml, in the order of their
// names, as one input: documents may refer to documents in other files. It is an error if there is
// no such file. Problems are first reported for each file, as by [Read], with its name. Only if
// there are none, ReadFS reports problems between the files.
func ReadFS(dir fs.FS) (Documents, error) {
	entries, err := fs.ReadDir(dir, ".")
	errs := []error{err}
	var all [][]byte
	for _, e := range entries {
		if ext := path.Ext(e.Name()); e.IsDir() || ext != ".yaml" && ext != ".yml" {
			continue
		}
		text, err := fs.ReadFile(dir, e.Name())
		if err == nil {
			_, err = Read(bytes.NewReader(text), e.Name())
		}
		all, errs = append(all, text), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Documents{}, err
	}
	if len(all) == 0 {
		return Documents{}, fmt.Errorf("there is no *.yaml file: %w", fs.ErrNotExist)
	}
	return Read(bytes.NewReader(bytes.Join(all, []byte("\n---\n"))), "all files together")
}
