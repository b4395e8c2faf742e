package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository.
const root = "../.."

// block is a block of code in a document.
type block struct {
	file string
	// line is the line of the first line of code, from 1.
	line     int
	language string
	text     string
	// output is the block without a language that comes right after it.
	output string
}

// name is the name of the block in the tables of exceptions.
func (b *block) name() string {
	first, _, _ := strings.Cut(b.text, "\n")
	return b.file + ": " + first
}

// blocksOf returns the blocks of a document.
func blocksOf(file, text string) (all []block) {
	var open *block
	after := false // only blank lines since the last block
	for i, line := range strings.Split(text, "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case open == nil && fence:
			open = &block{file: file, line: i + 2, language: language}
		case open != nil && fence:
			if open.language == "" && after {
				all[len(all)-1].output = open.text
			} else {
				all = append(all, *open)
			}
			open, after = nil, true
		case open != nil:
			open.text += line + "\n"
		default:
			after = after && strings.TrimSpace(line) == ""
		}
	}
	return all
}

// documents returns all blocks of the documents in these languages.
func documents(t *testing.T, languages ...string) (all []block) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.ToSlash(strings.TrimPrefix(file, filepath.FromSlash(root)+string(filepath.Separator)))
		for _, b := range blocksOf(name, string(text)) {
			if slices.Contains(languages, b.language) {
				all = append(all, b)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("no block of %s was found", languages)
	}
	return all
}

func TestBlocksAreFoundWithTheirOutput(t *testing.T) {
	const text = "a\n```sh\nls\n```\n\n```\nout\n```\ntext\n```\nnone\n```\n```go\nx := 1\n```\n"
	got := blocksOf("a.md", text)
	want := []block{{"a.md", 3, "sh", "ls\n", "out\n"}, {"a.md", 11, "", "none\n", ""}, {"a.md", 14, "go", "x := 1\n", ""}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
