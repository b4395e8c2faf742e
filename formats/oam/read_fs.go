package oam

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// ReadFS reads the named files, and from a named directory its files that end in .yaml, .yml or
// .json, sorted by name, as one input. A missing file is an error that matches [fs.ErrNotExist].
// The problems of a file are the same as from [Read], with the name of the file; if two files have
// the same document, that is reported only if there are no other problems.
func ReadFS(fsys fs.FS, names ...string) (Documents, error) {
	var files []string
	var errs []error
	for _, name := range names {
		entries, err := fs.ReadDir(fsys, name)
		if err != nil { // name is a file or missing; reading it reports that
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
