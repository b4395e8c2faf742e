package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// file is a Go file of the module.
type file struct {
	// name and dir are relative to the module.
	name, dir string
	test      bool
	ast       *ast.File
	fset      *token.FileSet
	// local maps the names that imports have in the file to their paths.
	local map[string]string
}

// at returns a place as file:line.
func (f *file) at(p token.Pos) string {
	return fmt.Sprintf("%s:%d", f.name, f.fset.Position(p).Line)
}

// imported returns the path of the package that has a name in the file.
func (f *file) imported(name string) string { return f.local[name] }

// load parses the Go files of the root module. It leaves out testdata, hidden
// directories and modules of their own.
func load(root fs.FS) ([]*file, error) {
	var files []*file
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(root, name)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parse(root, name)
		files = append(files, f)
		return err
	})
	return files, err
}

func skip(root fs.FS, dir string) error {
	if dir == "." {
		return nil
	}
	if base := path.Base(dir); base == "testdata" || base == "vendor" || base[0] == '.' || base[0] == '_' {
		return fs.SkipDir
	}
	if _, err := fs.Stat(root, path.Join(dir, "go.mod")); err == nil {
		return fs.SkipDir
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func parse(root fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	f := &file{name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), fset: token.NewFileSet(), local: map[string]string{}}
	if f.ast, err = parser.ParseFile(f.fset, name, src, parser.ParseComments); err != nil {
		return nil, err
	}
	for _, i := range f.ast.Imports {
		f.local[localName(i)] = importPath(i)
	}
	return f, nil
}

func importPath(i *ast.ImportSpec) string {
	p, err := strconv.Unquote(i.Path.Value)
	if err != nil {
		return i.Path.Value
	}
	return p
}

// localName returns the name of an import in its file. Without an explicit name it is the last
// element of the path, which is correct for all forbidden paths.
func localName(i *ast.ImportSpec) string {
	if i.Name != nil {
		return i.Name.Name
	}
	return path.Base(importPath(i))
}

// isStd reports whether a path is of the standard library: its first element
// has no dot.
func isStd(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}
