package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sentence is one sentence of a file. line is the line of the comment or block that contains it.
type sentence struct {
	file string
	line int
	text string
}

// texts are the sentences of a repository.
type texts struct {
	comments, tests, documents, errors []sentence
	// lines counts the lines of comments, and wide counts the lines with more than widest columns.
	lines, wide int
}

func (t *texts) all() []sentence {
	return slices.Concat(t.comments, t.tests, t.documents, t.errors)
}

// widest is the greatest width of a line of comments, in columns.
const widest = 100

// read reads the files below root. It skips folders that hold no text of the project.
func read(root string) (*texts, error) {
	out := &texts{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch d.Name() {
			case ".git", "vendor", "testdata", "bin", "dist":
				return filepath.SkipDir
			}
			return nil
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".go":
			return out.readGo(path, filepath.ToSlash(name))
		case ".md":
			return out.readMarkdown(path, filepath.ToSlash(name))
		}
		return nil
	})
	return out, err
}

func (t *texts) readGo(path, name string) error {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(f) {
		return err
	}
	into := &t.comments
	if strings.HasSuffix(name, "_test.go") {
		into = &t.tests
	} else {
		t.readErrors(files, f, name)
	}
	for _, group := range f.Comments {
		for _, c := range group.List {
			t.count(c.Text, files.Position(c.Pos()).Column)
		}
		at := files.Position(group.Pos()).Line
		for _, p := range paragraphs(group.Text()) {
			for _, s := range split(p) {
				*into = append(*into, sentence{name, at, s})
			}
		}
	}
	return nil
}

// count counts the lines of a comment that begins in a column.
func (t *texts) count(comment string, column int) {
	for line := range strings.SplitSeq(comment, "\n") {
		t.lines++
		if column-1+len(line) > widest {
			t.wide++
		}
	}
}

// readErrors reads the texts of errors.New and fmt.Errorf.
func (t *texts) readErrors(files *token.FileSet, f *ast.File, name string) {
	for n := range ast.Preorder(f) {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			continue
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || function.Sel.Name != "Errorf" && function.Sel.Name != "New" {
			continue
		}
		literal, ok := call.Args[0].(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			continue
		}
		for _, s := range split(text) {
			t.errors = append(t.errors, sentence{name, files.Position(call.Pos()).Line, s})
		}
	}
}

// paragraphs returns the paragraphs of a comment without its preformatted lines.
func paragraphs(comment string) []string {
	var out, lines []string
	for line := range strings.SplitSeq(comment+"\n", "\n") {
		switch {
		case strings.TrimSpace(line) == "":
			out, lines = append(out, strings.Join(lines, " ")), nil
		case strings.HasPrefix(line, "\t"), strings.HasPrefix(line, "  "):
		default:
			lines = append(lines, line)
		}
	}
	return out
}

// code matches the code in Markdown.
var code = regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")

func (t *texts) readMarkdown(path, name string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	prose := code.ReplaceAllStringFunc(string(b), func(c string) string { return "X" + strings.Repeat("\n", strings.Count(c, "\n")) })
	line := 1
	for block := range strings.SplitSeq(prose, "\n\n") {
		for _, part := range parts(block) {
			for _, s := range split(part) {
				t.documents = append(t.documents, sentence{name, line, s})
			}
		}
		line += strings.Count(block, "\n") + 2
	}
	return nil
}

// parts returns the cells of a table, the items of a list, and the rest of a block.
func parts(block string) []string {
	var out []string
	text := ""
	for line := range strings.SplitSeq(block, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "|"):
			out = append(out, strings.Split(line, "|")...)
		case strings.HasPrefix(line, "- "), strings.HasPrefix(line, "* "):
			out, text = append(out, text), line[2:]
		default:
			text += " " + line
		}
	}
	return append(out, text)
}

// ends matches the end of a sentence and the beginning of the next one.
var ends = regexp.MustCompile(`[.;:]\s+[A-Z\[]`)

// shortest is the number of words of the shortest text that counts as a sentence.
const shortest = 4

// split returns the sentences of a text.
func split(text string) []string {
	var out []string
	for text != "" {
		next := text
		if at := ends.FindStringIndex(text); at != nil {
			next, text = text[:at[0]+1], text[at[1]-1:]
		} else {
			text = ""
		}
		if words := strings.Fields(next); len(words) >= shortest {
			out = append(out, strings.Join(words, " "))
		}
	}
	return out
}

// titlesSince returns the titles of the commits after a revision. There are none if the history of
// the repository does not reach back to the revision, or if root is in no repository, for example
// in an archive of the sources.
func titlesSince(root, revision string) ([]string, error) {
	if !hasCommit(root, revision) {
		fmt.Fprintf(os.Stderr, "prose: titles of commits are not measured, because there is no commit %s here\n", revision)
		return nil, nil
	}
	titles, err := exec.Command("git", "-C", root, "log", "--no-merges", "--format=%s", revision+"..").Output()
	if err != nil {
		return nil, fmt.Errorf("titles of the commits since %s: %w", revision, err)
	}
	return strings.FieldsFunc(string(titles), func(r rune) bool { return r == '\n' }), nil
}

func hasCommit(root, revision string) bool {
	return exec.Command("git", "-C", root, "cat-file", "-e", revision+"^{commit}").Run() == nil
}
