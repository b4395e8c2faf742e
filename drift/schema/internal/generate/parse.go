package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// decl is a type declaration with its place.
type decl struct {
	pkg     string
	name    string
	spec    *ast.TypeSpec
	doc     string
	imports map[string]string
}

// goParser reads Go source.
type goParser struct {
	decls  map[string]*decl  // by package and name, for example core/v1.Pod
	consts map[string]string // constants, by the same names
	groups map[string]string // API group by the first element of the package
	order  []string
}

func newParser() *goParser {
	return &goParser{decls: map[string]*decl{}, consts: map[string]string{}, groups: map[string]string{}}
}

// readAll reads the packages of k8s.io/api and the package metav1.
func (p *goParser) readAll() error {
	meta, err := goList("k8s.io/apimachinery/pkg/apis/meta/v1", "{{.Dir}}")
	if err != nil {
		return err
	}
	if err := p.readDir(meta, "meta/v1"); err != nil {
		return err
	}
	api, err := goList("k8s.io/api/core/v1", "{{.Module.Dir}}")
	if err != nil {
		return err
	}
	dirs, err := filepath.Glob(filepath.Join(api, "*", "v*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		pkg := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
		if err := p.readDir(dir, pkg); err != nil {
			return err
		}
	}
	return nil
}

// readDir reads the hand-written files of a package.
func (p *goParser) readDir(dir, pkg string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		base := filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_") || base == "generated.pb.go" {
			continue
		}
		if err := p.readFile(file, pkg); err != nil {
			return err
		}
	}
	return nil
}

func (p *goParser) readFile(file, pkg string) error {
	src, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	p.readGroup(f, pkg)
	imports := importsOf(f)
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok {
			p.readDecl(g, pkg, imports)
		}
	}
	return nil
}

// readGroup records the API group that doc.go names.
func (p *goParser) readGroup(f *ast.File, pkg string) {
	dir, _, _ := strings.Cut(pkg, "/")
	if _, ok := p.groups[dir]; !ok && dir != "meta" {
		p.groups[dir] = dir
	}
	for _, c := range f.Comments {
		if _, group, ok := strings.Cut(rawText(c), "+groupName="); ok {
			group, _, _ = strings.Cut(group, "\n")
			p.groups[dir] = strings.TrimSpace(group)
		}
	}
}

func (p *goParser) readDecl(g *ast.GenDecl, pkg string, imports map[string]string) {
	for _, s := range g.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			doc := rawText(g.Doc) + rawText(s.Doc)
			name := pkg + "." + s.Name.Name
			p.decls[name] = &decl{pkg: pkg, name: s.Name.Name, spec: s, doc: doc, imports: imports}
			p.order = append(p.order, name)
		case *ast.ValueSpec:
			if lit, ok := firstLiteral(s); ok {
				p.consts[pkg+"."+s.Names[0].Name] = lit
			}
		}
	}
}

func firstLiteral(s *ast.ValueSpec) (string, bool) {
	if len(s.Values) != 1 || len(s.Names) != 1 {
		return "", false
	}
	lit, ok := s.Values[0].(*ast.BasicLit)
	if !ok {
		return "", false
	}
	return lit.Value, true
}

// importsOf returns the short packages of a file's imports, by their name.
func importsOf(f *ast.File) map[string]string {
	all := map[string]string{}
	for _, s := range f.Imports {
		path := strings.Trim(s.Path.Value, `"`)
		name := path[strings.LastIndex(path, "/")+1:]
		if s.Name != nil {
			name = s.Name.Name
		}
		all[name] = shortPackage(path)
	}
	return all
}

func shortPackage(path string) string {
	if path == "k8s.io/apimachinery/pkg/apis/meta/v1" {
		return "meta/v1"
	}
	if rest, ok := strings.CutPrefix(path, "k8s.io/api/"); ok {
		return rest
	}
	return path[strings.LastIndex(path, "/")+1:]
}

// rawText returns comments with their markers, which CommentGroup.Text leaves out.
func rawText(g *ast.CommentGroup) string {
	if g == nil {
		return ""
	}
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(strings.TrimSpace(strings.TrimPrefix(c.Text, "//")))
		b.WriteString("\n")
	}
	return b.String()
}

// markers returns the values of a marker such as listMapKey in a comment.
func markers(doc, name string) []string {
	var all []string
	for line := range strings.SplitSeq(doc, "\n") {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "+"+name)
		if !ok {
			continue
		}
		if value, ok := strings.CutPrefix(rest, "="); ok {
			all = append(all, strings.TrimSpace(value))
		}
	}
	return all
}

func marker(doc, name string) string {
	if all := markers(doc, name); len(all) > 0 {
		return all[0]
	}
	return ""
}
