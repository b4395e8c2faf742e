// The program generate writes the built-in table of package schema, drift/schema/builtin.txt,
// from the Go source of k8s.io/api and from the hand-written files beside it:
//
//	go run ./drift/schema/internal/generate
//
// known.txt has facts that public schemas leave out (defaults, the owner of a field, lists whose
// order has a meaning); extra.txt describes kinds of other modules.
package main

import (
	_ "embed"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed known.txt
var known string

//go:embed extra.txt
var extra string

func main() {
	if err := write(); err != nil {
		log.Fatal(err)
	}
}

func write() error {
	table, err := generate()
	if err != nil {
		return err
	}
	dir, err := goList("github.com/slipway-dev/slipway/drift/schema", "{{.Dir}}")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "builtin.txt"), []byte(table), 0o644)
}

// generate returns the text of the table.
func generate() (string, error) {
	t := newTable()
	p := newParser()
	if err := p.readAll(); err != nil {
		return "", err
	}
	p.fill(t)
	if err := t.readBlocks("extra.txt", extra); err != nil {
		return "", err
	}
	if err := t.overlay("known.txt", known); err != nil {
		return "", err
	}
	return t.text(), nil
}

// goList runs go list for a package, which downloads its module if necessary.
func goList(pkg, format string) (string, error) {
	out, err := exec.Command("go", "list", "-f", format, pkg).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w", pkg, err)
	}
	return strings.TrimSpace(string(out)), nil
}
