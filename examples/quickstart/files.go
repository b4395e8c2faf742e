package main

import (
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

// readDocuments reads every YAML file of a directory, those that are built in
// if dir is "". The runs come in the order of their names.
func readDocuments(dir string) (kubefleet.Documents, error) {
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
func readAll(root fs.FS, where string) (kubefleet.Documents, error) {
	entries, err := fs.ReadDir(root, where)
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
	}
	if err := errors.Join(append(errs, err)...); err != nil {
		return kubefleet.Documents{}, err
	}
	if len(all) == 0 {
		return kubefleet.Documents{}, errors.New("there is no *.yaml file")
	}
	return kubefleet.Read(strings.NewReader(strings.Join(all, "\n---\n")), "all files together")
}

// shortenWaits makes every timed wait last d, and says so; 0 leaves them as
// they are.
func shortenWaits(strategies []stages.Strategy, d time.Duration) (notes []string) {
	if d == 0 {
		return nil
	}
	for i := range strategies {
		s := &strategies[i]
		for j := range s.Stages {
			st := &s.Stages[j]
			for _, tasks := range [][]stages.Task{st.Before, st.After} {
				for k := range tasks {
					if task := &tasks[k]; task.Type == stages.TimedWait {
						notes = append(notes, fmt.Sprintf("%s, stage %s: the wait lasts %v here, not the file's %v (-wait 0 keeps it)", s.Name, st.Name, d, task.Wait))
						task.Wait = d
					}
				}
			}
		}
	}
	return notes
}
