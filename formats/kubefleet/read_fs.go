package kubefleet

import (
	"bytes"
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
		return Documents{}, noDocument{}
	}
	return ReadAll(all...)
}

// noDocument is the error of a directory without a document. It matches fs.ErrNotExist.
type noDocument struct{}

func (noDocument) Error() string { return "no file ends in .yaml, .yml or .json" }

func (noDocument) Unwrap() error { return fs.ErrNotExist }

// IsDocument reports whether [ReadFS] reads a file of this name.
func IsDocument(name string) bool {
	switch path.Ext(name) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}
