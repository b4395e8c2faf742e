package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// problems returns the problems of a file, each with its position.
func problems(f *file) []string {
	a, ok := areaOf(f.dir)
	if !ok {
		return []string{f.at(f.ast.Name.Pos()) + ": package " + f.dir + " has no row in the table of areas"}
	}
	c := checker{file: f, area: a}
	c.imports()
	c.purity()
	c.host()
	c.fields()
	c.durations()
	return c.found
}

func areaOf(dir string) (area, bool) {
	i := slices.IndexFunc(areas, func(a area) bool { return matches(a.path, dir) })
	if i < 0 {
		return area{}, false
	}
	return areas[i], true
}

// matches reports whether a pattern, a directory or one with /... at the end,
// is about a directory.
func matches(pattern, dir string) bool {
	root, below := strings.CutSuffix(pattern, "/...")
	return dir == root || below && within(dir, root)
}

func within(dir, root string) bool {
	return dir == root || strings.HasPrefix(dir, root+"/")
}

type checker struct {
	*file
	area  area
	found []string
}

func (c *checker) report(n ast.Node, format string, args ...any) {
	c.found = append(c.found, c.at(n.Pos())+": "+fmt.Sprintf(format, args...))
}

// imports holds the arrows.
func (c *checker) imports() {
	for _, i := range c.ast.Imports {
		path := importPath(i)
		switch {
		case path == "C":
			c.report(i, "imports C; the module is pure Go")
		case within(path, module):
			c.neighbour(i, strings.TrimPrefix(strings.TrimPrefix(path, module), "/"))
		case isStd(path):
			c.std(i, path)
		default:
			c.thirdParty(i, path)
		}
		if i.Name != nil && i.Name.Name == "." && !c.test {
			c.report(i, "imports %s with a dot, which hides where names come from", path)
		}
	}
}

func (c *checker) neighbour(n ast.Node, dir string) {
	uses := c.area.uses
	if c.test {
		uses = with(uses, c.area.testUses...)
	}
	if dir == c.dir || matches(c.area.path, dir) {
		return
	}
	if !slices.ContainsFunc(uses, func(u string) bool { return matches(u, dir) }) {
		c.report(n, "%s imports %s, against the arrows: it may import %s", c.dir, dir, orNothing(uses))
	}
}

func orNothing(uses []string) string {
	if len(uses) == 0 {
		return "no package of this module"
	}
	return strings.Join(uses, ", ")
}

func (c *checker) std(n ast.Node, path string) {
	if c.test {
		return
	}
	bars := c.area.bars
	if c.area.core {
		bars = with(bars, withoutIO...)
	}
	for _, bar := range bars {
		if within(path, bar) && path != "net/url" { // which only reads and writes text
			c.report(n, "%s imports %s, and is a pure package", c.dir, path)
		}
	}
	if slices.Contains(hostModules, path) && !c.area.program {
		c.report(n, "%s imports %s, which belongs to the program", c.dir, path)
	}
}

func (c *checker) thirdParty(n ast.Node, path string) {
	in := func(root string) bool { return within(path, root) }
	if slices.ContainsFunc(clusterModules, in) && !c.area.cluster {
		c.report(n, "%s imports %s, and does not talk to clusters itself", c.dir, path)
	}
	if c.test || c.area.program {
		return
	}
	if slices.ContainsFunc(hostModules, in) {
		c.report(n, "%s imports %s, which belongs to the program", c.dir, path)
	}
	if c.area.core && !slices.ContainsFunc(c.area.third, in) {
		c.report(n, "%s imports %s, and may import of others only %s", c.dir, path, strings.Join(c.area.third, ", "))
	}
}

// purity holds that a pure package reads no clock and starts nothing.
func (c *checker) purity() {
	if !c.area.core || c.test {
		return
	}
	c.names(clockNames, "a pure package is given the time")
	ast.Inspect(c.ast, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			c.report(g, "starts a goroutine in a pure package")
		}
		return true
	})
}

// host holds that a library leaves the process to its host (T24).
func (c *checker) host() {
	if c.area.program || c.test {
		return
	}
	c.names(hostNames, "the process belongs to the host")
	for _, d := range c.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			c.report(f, "has an init, which runs in every host that imports it")
		}
	}
	if c.ast.Name.Name == "main" {
		c.report(c.ast.Name, "is a program; programs are in examples or in a module of their own")
	}
}

// names reports uses of names of other packages.
func (c *checker) names(barred map[string][]string, why string) {
	ast.Inspect(c.ast, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		// A local variable that is called like a package has an Obj.
		if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && slices.Contains(barred[c.imported(x.Name)], sel.Sel.Name) {
			c.report(sel, "uses %s.%s; %s", c.imported(x.Name), sel.Sel.Name, why)
		}
		return true
	})
}
