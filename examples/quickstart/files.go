package main

import (
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

// tutorialFiles are the tutorial's own documents, and its members.
//
//go:embed tutorial/*.yaml
var tutorialFiles embed.FS

// documents are what is played.
type documents struct {
	kubefleet.Documents
	// files are the digests of the files, by their names.
	files map[string]string
}

// readDocuments reads every YAML file of a directory, those that are built in
// if dir is "". The runs come in the order of their names.
func readDocuments(dir string) (documents, error) {
	root, where := fs.FS(tutorialFiles), "tutorial"
	if dir != "" {
		root, where = os.DirFS(dir), "."
	}
	docs, err := readAll(root, where)
	if err != nil && dir != "" {
		return docs, fmt.Errorf("-dir %s: %w", dir, err)
	}
	slices.SortStableFunc(docs.Runs, func(a, b kubefleet.Run) int { return strings.Compare(a.Name, b.Name) })
	return docs, err
}

// readAll reads the files one by one, so that a problem names its file and
// line, and then all as one, because documents refer to one another.
func readAll(root fs.FS, where string) (documents, error) {
	entries, err := fs.ReadDir(root, where)
	files := map[string]string{}
	var all []string
	var errs []error
	for _, e := range entries {
		if ext := path.Ext(e.Name()); e.IsDir() || ext != ".yaml" && ext != ".yml" {
			continue
		}
		text, err := fs.ReadFile(root, path.Join(where, e.Name()))
		if err == nil {
			_, err = kubefleet.Read(strings.NewReader(string(text)), e.Name())
		}
		all, errs = append(all, string(text)), append(errs, err)
		files[e.Name()] = fmt.Sprintf("%x", sha256.Sum256(text))
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return documents{}, err
	}
	if len(all) == 0 {
		return documents{}, errors.New("there is no *.yaml file")
	}
	docs, err := kubefleet.Read(strings.NewReader(strings.Join(all, "\n---\n")), "all files together")
	return documents{docs, files}, err
}

// shortenWaits makes every timed wait last d, and says so; 0 leaves them as
// they are.
func shortenWaits(strategies []stages.Strategy, d time.Duration) (notes []string) {
	if d == 0 {
		return nil
	}
	for _, s := range strategies {
		for _, st := range s.Stages {
			for _, was := range append(setWaits(st.Before, d), setWaits(st.After, d)...) {
				notes = append(notes, fmt.Sprintf("%s, stage %s: waits %s, the file says %s (see -wait)", s.Name, st.Name, short(d), short(was)))
			}
		}
	}
	return notes
}

// setWaits changes the timed waits among tasks and returns what they were.
func setWaits(tasks []stages.Task, d time.Duration) (was []time.Duration) {
	for i := range tasks {
		if t := &tasks[i]; t.Type == stages.TimedWait {
			was, t.Wait = append(was, t.Wait), d
		}
	}
	return was
}
