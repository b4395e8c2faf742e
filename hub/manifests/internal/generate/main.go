// The program generate writes the CustomResourceDefinitions of package manifests,
// hub/manifests/crds, from hub/manifests/source:
//
//	go run ./hub/manifests/internal/generate
//
// A file of the source describes a kind and its namespaced twin once, for all versions; types.yaml has
// the shapes that several kinds share.
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

func main() {
	if err := write(); err != nil {
		log.Fatal(err)
	}
}

func write() error {
	dir, err := packageDir()
	if err != nil {
		return err
	}
	files, err := generate(os.DirFS(filepath.Join(dir, "source")))
	if err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(dir, "crds", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packageDir asks the go command where package manifests is.
func packageDir() (string, error) {
	out, err := exec.Command("go", "list", "-e", "-find", "-f", "{{.Dir}}", "github.com/slipway-dev/slipway/hub/manifests").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
