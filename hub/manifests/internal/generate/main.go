// The program generate writes the CustomResourceDefinitions of package manifests,
// hub/manifests/crds, from the definitions that controller-gen made of the types below api, and
// from them the JSON Schema of the documents that people write, api/schema/slipway.json:
//
//	go run ./hub/manifests/internal/generate DIRECTORY
//
// Run it with make generate, which also runs controller-gen. A definition of controller-gen has one
// version and one meaning; the program adds the version v1 and both compatibility settings.
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
	if len(os.Args) != 2 {
		log.Fatal("usage: generate DIRECTORY, the output of controller-gen; run make generate")
	}
	if err := write(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// schemaFile is the path of the JSON Schema in the repository.
const schemaFile = "api/schema/slipway.json"

// write replaces the definitions of package manifests.
func write(from string) error {
	dir, err := packageDir()
	if err != nil {
		return err
	}
	files, err := generate(os.DirFS(from))
	if err != nil {
		return err
	}
	text, err := jsonSchema(files)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "..", "..", filepath.FromSlash(schemaFile)), text, 0o644); err != nil {
		return err
	}
	dir = filepath.Join(dir, "crds")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packageDir asks the go command for the directory of package manifests.
func packageDir() (string, error) {
	out, err := exec.Command("go", "list", "-e", "-find", "-f", "{{.Dir}}", "github.com/slipway-dev/slipway/hub/manifests").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
