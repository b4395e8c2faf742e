package kubefleet

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
)

// ReadFS reads the files of a directory whose names end in .yaml, .yml or .json, in the order of
// their names, by [ReadAll]. It is an error if there is no such file.
func ReadFS(dir fs.FS) (Documents, error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return Documents{}, err
	}
	var all []Input
	for _, e := range entries {
		if !e.IsDir() && IsDocument(e.Name()) {
			text, err := fs.ReadFile(dir, e.Name())
			if err != nil {
				return Documents{}, err
			}
			all = append(all, Input{e.Name(), bytes.NewReader(text)})
		}
	}
	if len(all) == 0 {
		return Documents{}, fmt.Errorf("there is no *.yaml file: %w", fs.ErrNotExist)
	}
	return ReadAll(all...)
}

// IsDocument reports whether [ReadFS] reads a file of this name.
func IsDocument(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
