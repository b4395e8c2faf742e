package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pending are the blocks of Go that are not yet taken from a file that a test runs, each with its
// reason.
var pending = map[string]string{}

// Every block of Go is a verbatim part of a file that is compiled and run by a test.
func TestBlocksOfGoAreRunByATest(t *testing.T) {
	tested := testedFiles(t)
	left := map[string]bool{}
	for name := range pending {
		left[name] = true
	}
	for _, b := range documents(t, "go") {
		delete(left, b.name())
		if pending[b.name()] == "" && !isPart(b.text, tested) {
			t.Errorf("%s:%d: is no part of an example or of internal/docs/snippets_test.go:\n%s", b.file, b.line, b.text)
		}
	}
	for name := range left {
		t.Errorf("pending: there is no such block: %s", name)
	}
}

// testedFiles returns the lines of the files that blocks may be parts of, without their
// indentation.
func testedFiles(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == ".git" || d.Name() == "bin") {
			return fs.SkipDir
		}
		slashed := filepath.ToSlash(path)
		example := strings.Contains(slashed, "/examples/") && hasTest(filepath.Dir(path)) || strings.HasPrefix(d.Name(), "example") && strings.HasSuffix(d.Name(), "_test.go")
		if filepath.Ext(path) != ".go" || !example && !strings.HasSuffix(slashed, "internal/docs/snippets_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		all = append(all, unindented(string(text)))
		return err
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("%d files, %v", len(all), err)
	}
	return all
}

func hasTest(dir string) bool {
	tests, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	return err == nil && len(tests) > 0
}

// isPart reports whether a block is a run of whole lines of a file. A block may be indented less
// than the file.
func isPart(block string, files []string) bool {
	for _, file := range files {
		if strings.Contains("\n"+file, "\n"+unindented(block)) {
			return true
		}
	}
	return false
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimLeft(line, "\t"))
	}
	return b.String()
}

func TestABlockIsPartOfAFileByWholeLines(t *testing.T) {
	files := []string{unindented("func f() {\n\tif x {\n\t\ty()\n\t}\n}\n")}
	for text, want := range map[string]bool{"if x {\n\ty()\n}\n": true, "y()\n": true, "x {\n": false, "y(\n": false, "if x {\n}\n": false} {
		if isPart(text, files) != want {
			t.Errorf("%q is a part: %t", text, !want)
		}
	}
}
