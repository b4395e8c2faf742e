package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The README is read in one go.
func TestTheReadmeHasAtMost120Lines(t *testing.T) {
	if n := strings.Count(read(t, "README.md"), "\n"); n > 120 {
		t.Errorf("%d lines", n)
	}
}

// The pictures in the documents equal the pictures that the packages draw.
func TestPicturesAreUpToDate(t *testing.T) {
	if frame := read(t, "watch/testdata/in-flight-80x24.txt"); !strings.Contains(read(t, "README.md"), "```\n"+frame) {
		t.Error("README.md: the watched run is not watch/testdata/in-flight-80x24.txt")
	}
	if read(t, "docs/run.svg") != read(t, "stages/timeline/testdata/gates.svg") {
		t.Error("docs/run.svg is not stages/timeline/testdata/gates.svg: copy it")
	}
}

// The tutorial has all of its program, so that a reader can copy it.
func TestTheTutorialOfEmbeddingHasItsWholeProgram(t *testing.T) {
	if !strings.Contains(read(t, "docs/tutorials/embedding.md"), "```go\n"+read(t, "examples/tutorial/main.go")+"```\n") {
		t.Error("docs/tutorials/embedding.md does not have examples/tutorial/main.go as it is: copy it")
	}
}
