package oam

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// ReadFS reads the named files, and of a named directory those files, in the order of their names, that end in .yaml,
// .yml or .json, as one input. No such file is an error that matches [fs.ErrNotExist]. Problems of a file are those that
// [Read] has for it, by its name; only without any is a document reported that stands in two files.
func ReadFS(fsys fs.FS, names ...string) (Documents, error) {
	var files []string
	var errs []error
	for _, name := range names {
		entries, err := fs.ReadDir(fsys, name)
		if err != nil { // a file, or nothing, which reading it reports
			files = append(files, name)
		}
		for _, e := range entries {
			if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(e.Name())) {
				files = append(files, path.Join(name, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return Documents{}, fmt.Errorf("%q: no file ends in .yaml, .yml or .json: %w", names, fs.ErrNotExist)
	}
	var all [][]byte
	for _, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err == nil {
			_, err = Read(bytes.NewReader(text), file)
		}
		all, errs = append(all, text), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return Documents{}, err
	}
	return Read(bytes.NewReader(bytes.Join(all, []byte("\n---\n"))), "all files together")
}
