package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/formats/kubefleet"
)

// FileFlag is the usage of -f.
const FileFlag = "YAML or JSON file of documents; a directory stands for its files that end in .yaml, .yml or .json, and - for the standard input; may be repeated"

// Inputs opens the files of -f: a directory stands for its files with documents, and - for the
// standard input. The caller must call the returned function.
func (o *Options) Inputs(names []string) (inputs []kubefleet.Input, closeAll func(), err error) {
	var opened []io.Closer
	closeAll = func() {
		for _, f := range opened {
			_ = f.Close()
		}
	}
	if len(names) == 0 {
		return nil, closeAll, Usagef("-f is not set: it names the file of the documents")
	}
	var files []string
	for _, name := range names {
		found, err := filesIn(name)
		if err != nil {
			return nil, closeAll, fmt.Errorf("-f: %w", err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		f, name, err := o.Open(file)
		if err != nil {
			closeAll()
			return nil, closeAll, fmt.Errorf("-f: %w", err)
		}
		opened, inputs = append(opened, f), append(inputs, kubefleet.Input{Name: name, Text: f})
	}
	return inputs, closeAll, nil
}

// filesIn returns the files that a name stands for.
func filesIn(name string) (out []string, err error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	if err != nil || !info.IsDir() {
		return []string{name}, err
	}
	entries, err := os.ReadDir(name)
	for _, e := range entries {
		if !e.IsDir() && kubefleet.IsDocument(e.Name()) {
			out = append(out, filepath.Join(name, e.Name()))
		}
	}
	if err == nil && len(out) == 0 {
		err = errors.New(name + " has no file that ends in .yaml, .yml or .json")
	}
	return out, err
}

// Documents reads the documents of the files of -f.
func (o *Options) Documents(names []string) (kubefleet.Documents, error) {
	inputs, closeAll, err := o.Inputs(names)
	if err != nil {
		return kubefleet.Documents{}, err
	}
	defer closeAll()
	return kubefleet.ReadAll(inputs...)
}
