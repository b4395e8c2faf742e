// The program reference writes docs/events.md and docs/metrics.md from the comments and the
// descriptors in the source:
//
//	go run ./internal/reference DIRECTORY
//
// DIRECTORY is the root of the repository. Run it with make generate; .ci/generate -check fails if
// a page is not current.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: reference DIRECTORY, the root of the repository; run make generate")
	}
	pages, err := generate(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range pages {
		if err := os.WriteFile(filepath.Join(os.Args[1], name), []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the pages by their paths below root.
func generate(root string) (map[string]string, error) {
	s := openSource(root)
	events, err := s.eventsPage()
	if err != nil {
		return nil, err
	}
	metrics, err := s.metricsPage()
	if err != nil {
		return nil, err
	}
	return map[string]string{"docs/events.md": events, "docs/metrics.md": metrics}, nil
}

// source reads the Go files of the repository.
type source struct {
	root  string
	files *token.FileSet
}

func openSource(root string) *source { return &source{root: root, files: token.NewFileSet()} }

// parse parses a file, named by its path below the root.
func (s *source) parse(name string) (*ast.File, error) {
	return parser.ParseFile(s.files, filepath.Join(s.root, filepath.FromSlash(name)), nil, parser.ParseComments)
}

// constant is a constant with its comment.
type constant struct {
	name, value string
	// text is the comment without the name at its beginning and without its notes.
	text string
	// notes are the lines of the comment that begin with a keyword and a colon, by keyword.
	notes map[string]string
}

// block is a group of constants under one comment.
type block struct {
	text      string
	constants []constant
}

// blocks returns the blocks of constants of a type. Every constant must have a comment of the form
// "Name: text", with notes at its end; keywords are the keywords that begin a note.
func blocks(file *ast.File, typ string, keywords ...string) (out []block, err error) {
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		b := block{text: oneLine(group.Doc.Text())}
		for _, spec := range group.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || len(v.Values) != 1 {
				continue
			}
			if t, ok := v.Type.(*ast.Ident); !ok || t.Name != typ {
				continue
			}
			c, err := constantOf(v, keywords)
			if err != nil {
				return nil, err
			}
			b.constants = append(b.constants, c)
		}
		if len(b.constants) > 0 {
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there are no constants of the type %s", typ)
	}
	return out, nil
}

// constantOf reads one constant. The value of a constant that is defined by another one is that
// one's name.
func constantOf(v *ast.ValueSpec, keywords []string) (constant, error) {
	c := constant{name: v.Names[0].Name, notes: map[string]string{}}
	switch value := v.Values[0].(type) {
	case *ast.BasicLit:
		c.value = strings.Trim(value.Value, `"`)
	case *ast.Ident:
		c.value = value.Name
	}
	text, found := strings.CutPrefix(v.Doc.Text(), c.name+": ")
	if !found {
		return c, fmt.Errorf("the comment of %s does not begin with %q", c.name, c.name+": ")
	}
	for _, keyword := range keywords {
		before, note, found := strings.Cut(text, "\n"+keyword+": ")
		if found {
			text, c.notes[keyword] = before, oneLine(note)
		}
	}
	c.text = sentence(oneLine(text))
	return c, nil
}

// oneLine joins the lines of a comment and removes the brackets of its links.
func oneLine(text string) string {
	return strings.NewReplacer("[", "", "]", "").Replace(strings.Join(strings.Fields(text), " "))
}

// sentence returns a text that begins with a capital letter.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// wrapped breaks a paragraph into lines of at most 120 columns.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case column == 0:
		case column+1+len(word) > 120:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

// row returns a row of a Markdown table.
func row(cells ...string) string {
	for i := range cells {
		cells[i] = strings.ReplaceAll(cells[i], "|", `\|`)
	}
	return "| " + strings.Join(cells, " | ") + " |\n"
}
