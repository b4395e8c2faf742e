package arch

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
)

// measure is a property of a package that cutting long functions into short
// ones does not improve.
type measure string

const (
	lines    measure = "lines"
	files    measure = "files"
	cycle    measure = "files in one cycle" // each uses names of another, directly or not
	exported measure = "exported names"     // with their methods and fields
	aliases  measure = "aliases of the module's own types"
	// methods and hidden are the starts of a measure for each type: "methods of Engine".
	methods measure = "methods of "
	hidden  measure = "unexported fields of "
)

// limitOf returns the limit of a package without an exception.
func limitOf(m measure) int {
	switch m {
	case lines:
		return 8000
	case files:
		return 30
	case cycle:
		return 10
	case exported:
		return 300
	case aliases: // go doc shows nothing of an alias but its name
		return 0
	}
	if strings.HasPrefix(string(m), string(hidden)) {
		return 15
	}
	return 40 // methods
}

// unlimited reports whether a package is measured by nothing: programs that
// show the library, and generators. Nothing imports them.
func unlimited(dir string) bool {
	return within(dir, "examples") || strings.HasSuffix(dir, "/internal/generate")
}

// size has all measures of a package.
type size map[measure]int

// source is a package as go list describes it.
type source struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Main bool }
}

// dir returns the directory relative to the module.
func (s source) dir() string {
	return strings.TrimPrefix(strings.TrimPrefix(s.ImportPath, module), "/")
}

// sources lists the packages of the module, and the compiler's export data of each package that
// they import.
func sources(root string) ([]source, map[string]string, error) {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Module"}
	if raceEnabled() { // do not compile the packages of go test again
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./...")...)
	cmd.Dir = root
	out, err := cmd.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		return nil, nil, fmt.Errorf("go list: %w\n%s", err, failed.Stderr)
	} else if err != nil {
		return nil, nil, err
	}
	var own []source
	exports := map[string]string{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var s source
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			return own, exports, nil
		} else if err != nil {
			return nil, nil, err
		}
		exports[s.ImportPath] = s.Export
		if s.Module != nil && s.Module.Main && len(s.GoFiles) > 0 {
			own = append(own, s)
		}
	}
}

// raceEnabled reports whether the tests were built with the race detector.
func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// meter measures packages.
type meter struct {
	fset *token.FileSet
	// imports is shared: most packages import the same ones.
	imports types.Importer
}

func newMeter(exports map[string]string) meter {
	fset := token.NewFileSet()
	return meter{fset, importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})}
}

// size parses a package without its tests and returns its size.
func (m meter) size(s source) (size, error) {
	parsed := make([]*ast.File, 0, len(s.GoFiles))
	out := size{files: len(s.GoFiles)}
	for _, name := range s.GoFiles {
		f, err := parser.ParseFile(m.fset, filepath.Join(s.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, f)
		out[lines] += m.fset.Position(f.FileEnd).Line
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: m.imports}
	p, err := conf.Check(s.ImportPath, m.fset, parsed, info)
	if err != nil {
		return nil, err
	}
	out[cycle] = largestCycle(uses(m.fset, p, info))
	for _, name := range p.Scope().Names() {
		out.add(p.Scope().Lookup(name))
	}
	return out, nil
}

// add counts a name of the package, its methods and its fields.
func (s size) add(obj types.Object) {
	if obj.Exported() {
		s[exported]++
	}
	t, ok := obj.(*types.TypeName)
	if ok && t.IsAlias() && t.Exported() {
		n, isNamed := types.Unalias(t.Type()).(*types.Named)
		if isNamed && n.Obj().Pkg() != nil && n.Obj().Pkg() != t.Pkg() && within(n.Obj().Pkg().Path(), module) {
			s[aliases]++
		}
	}
	if !ok || t.IsAlias() {
		return
	}
	named, ok := t.Type().(*types.Named)
	if !ok {
		return
	}
	s[methods+measure(t.Name())] = named.NumMethods()
	for m := range named.Methods() {
		if obj.Exported() && m.Exported() {
			s[exported]++
		}
	}
	fields, ok := named.Underlying().(*types.Struct)
	if !ok {
		return
	}
	for f := range fields.Fields() {
		switch {
		case !f.Exported():
			s[hidden+measure(t.Name())]++
		case obj.Exported():
			s[exported]++
		}
	}
}

// uses returns of each file the other files of the package whose names, methods
// or fields it uses.
func uses(fset *token.FileSet, p *types.Package, info *types.Info) map[string][]string {
	out := map[string][]string{}
	for id, obj := range info.Uses {
		if obj.Pkg() != p {
			continue
		}
		if _, ok := obj.(*types.PkgName); ok {
			continue
		}
		if v, ok := obj.(*types.Var); ok && !v.IsField() && v.Parent() != p.Scope() {
			continue // a variable of a function
		}
		from, to := fset.File(id.Pos()).Name(), fset.File(obj.Pos()).Name()
		if from != to && !slices.Contains(out[from], to) {
			out[from] = append(out[from], to)
		}
	}
	return out
}

// largestCycle returns the size of the largest strongly connected component of
// a graph, by Tarjan's algorithm.
func largestCycle(edges map[string][]string) int {
	index, low, open := map[string]int{}, map[string]int{}, map[string]bool{}
	var stack []string
	largest := 1
	var visit func(string)
	visit = func(v string) {
		index[v] = len(index) + 1
		low[v], open[v] = index[v], true
		stack = append(stack, v)
		for _, w := range edges[v] {
			if index[w] == 0 {
				visit(w)
				low[v] = min(low[v], low[w])
			} else if open[w] {
				low[v] = min(low[v], index[w])
			}
		}
		if low[v] != index[v] {
			return
		}
		start := slices.Index(stack, v)
		largest = max(largest, len(stack)-start)
		for _, w := range stack[start:] {
			open[w] = false
		}
		stack = stack[:start]
	}
	for v := range edges {
		if index[v] == 0 {
			visit(v)
		}
	}
	return largest
}

// exception is a limit that a package passes. Its bound may only fall.
type exception struct {
	dir   string
	what  measure
	bound int
	why   string
}

// excess returns the problems of a package's size: an exceeded limit or bound of an exception,
// and an exception that is no longer needed or is more than 5% above the size.
func excess(dir string, s size, exceptions []exception) (problems []string) {
	bounds := map[measure]int{}
	for _, e := range exceptions {
		if e.dir != dir {
			continue
		}
		bounds[e.what] = e.bound
		switch got := s[e.what]; {
		case e.why == "":
			problems = append(problems, fmt.Sprintf("%s: the exception for %s has no reason", dir, e.what))
		case got <= limitOf(e.what):
			problems = append(problems, fmt.Sprintf("%s: %d %s, within the limit of %d: delete the exception", dir, got, e.what, limitOf(e.what)))
		case e.bound > got+got/20:
			problems = append(problems, fmt.Sprintf("%s: %d %s: lower the bound of the exception from %d", dir, got, e.what, e.bound))
		}
	}
	for what, got := range s {
		if bound := cmp.Or(bounds[what], limitOf(what)); got > bound {
			problems = append(problems, fmt.Sprintf("%s: %d %s, at most %d", dir, got, what, bound))
		}
	}
	slices.Sort(problems)
	return problems
}
