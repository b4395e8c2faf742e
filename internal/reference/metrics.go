package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const metricsIntro = `# Metrics

<!-- Written by make generate from the descriptors in the source: change them there. -->

All metrics are Prometheus metrics. A histogram has the series NAME_bucket, NAME_sum and NAME_count.

`

// metricPackages are the packages that have metrics, with the headings of the page.
var metricPackages = []struct{ dir, title, text string }{
	{
		"fleet/metrics", "Engines",
		"A program that embeds the engine registers these metrics: see [package metrics](../fleet/metrics/metrics.go). The metrics of runs and\n" +
			"leases are read from the store at each scrape, so every engine of a store returns the same values. The metrics of queues are about\n" +
			"one engine; the label `queue` is `runs`, `placements` or `checks`. If the store cannot be read, the scrape fails.",
	},
	{
		"hub/internal/metrics", "Hubs",
		"`slipway hub` serves these metrics under `/metrics` at the address of `--listen`. A program that embeds the hub sets `hub.Config.Registry`.\n" +
			"The label `kind` is the kind of the reconciled object, for example `run`, `placement` or `override`. The number of series does\n" +
			"not grow with the runs and the clusters.",
	},
}

// metric is one metric.
type metric struct{ name, typ, unit, help, labels string }

// metricsPage returns the page of all metrics. It fails if a package that is not in metricPackages
// has one.
func (s *source) metricsPage() (string, error) {
	var b strings.Builder
	b.WriteString(metricsIntro)
	found, err := s.metrics()
	if err != nil {
		return "", err
	}
	for i, p := range metricPackages {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n| Metric | Type | Labels | Unit | Meaning |\n|---|---|---|---|---|\n", p.title, wrapped(p.text))
		for _, m := range found[p.dir] {
			b.WriteString(row("`"+m.name+"`", m.typ, m.labels, m.unit, m.help))
		}
		delete(found, p.dir)
	}
	for dir := range found {
		return "", fmt.Errorf("package %s has metrics and is not in metricPackages", dir)
	}
	return b.String(), nil
}

// metrics returns the metrics of all packages by directory, in the order of the source.
func (s *source) metrics() (map[string][]metric, error) {
	out := map[string][]metric{}
	err := filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if name := d.Name(); path != s.root && (strings.HasPrefix(name, ".") || slices.Contains([]string{"dist", "bin", "testdata"}, name)) {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		name, err := filepath.Rel(s.root, path)
		if err != nil {
			return err
		}
		file, err := s.parse(filepath.ToSlash(name))
		if err != nil || !importsPrometheus(file) {
			return err
		}
		found, err := s.metricsOf(file)
		if len(found) > 0 {
			dir := filepath.ToSlash(filepath.Dir(name))
			out[dir] = append(out[dir], found...)
		}
		return err
	})
	return out, err
}

func importsPrometheus(file *ast.File) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
		return i.Path.Value == `"github.com/prometheus/client_golang/prometheus"`
	})
}

// metricsOf returns the metrics of a file: its calls of prometheus.NewCounter, NewGaugeVec,
// NewDesc and their like. The line of the name must end with a comment, "unit: " and the unit.
func (s *source) metricsOf(file *ast.File) (out []metric, err error) {
	units := map[int]string{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if unit, ok := strings.CutPrefix(c.Text, "// unit: "); ok {
				units[s.files.Position(c.Pos()).Line] = unit
			}
		}
	}
	values := valueTypes(file)
	var add func(n ast.Node, field string) bool
	add = func(n ast.Node, field string) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			if key, ok := n.Key.(*ast.Ident); ok {
				ast.Inspect(n.Value, func(n ast.Node) bool { return add(n, key.Name) })
				return false
			}
		case *ast.CallExpr:
			m, at, ok := metricOf(n)
			if !ok {
				return true
			}
			if m.typ == "" {
				m.typ = values[field]
			}
			m.unit = units[s.files.Position(at).Line]
			if m.unit == "" || m.help == "" || m.typ == "" {
				err = fmt.Errorf("%s: the metric %s lacks a unit, a help text or a type: %+v", s.files.Position(at), m.name, m)
			}
			out = append(out, m)
			return false
		}
		return true
	}
	ast.Inspect(file, func(n ast.Node) bool { return add(n, "") })
	return out, err
}

// metricOf reads a call that creates a metric, and returns the place of its name.
func metricOf(call *ast.CallExpr) (m metric, at token.Pos, ok bool) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !isIdent(f.X, "prometheus") || len(call.Args) == 0 {
		return m, 0, false
	}
	if f.Sel.Name == "NewDesc" && len(call.Args) == 4 {
		m.name, m.help, m.labels = text(call.Args[0]), text(call.Args[1]), list(call.Args[2])
		return m, call.Args[0].Pos(), true
	}
	opts, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return m, 0, false
	}
	m.typ = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(f.Sel.Name, "New"), "Vec"))
	if len(call.Args) > 1 {
		m.labels = list(call.Args[1])
	}
	for _, e := range opts.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch {
		case isIdent(kv.Key, "Name"):
			m.name, at = text(kv.Value), kv.Value.Pos()
		case isIdent(kv.Key, "Help"):
			m.help = text(kv.Value)
		}
	}
	return m, at, m.name != ""
}

// valueTypes returns the types of metrics that are created by NewDesc, by the field that has the
// descriptor: it reads the calls of prometheus.MustNewConstMetric.
func valueTypes(file *ast.File) map[string]string {
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) < 2 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "MustNewConstMetric" {
			return true
		}
		desc, isField := call.Args[0].(*ast.SelectorExpr)
		typ, isType := call.Args[1].(*ast.SelectorExpr)
		if isField && isType {
			out[desc.Sel.Name] = strings.ToLower(strings.TrimSuffix(typ.Sel.Name, "Value"))
		}
		return true
	})
	return out
}

// text returns the value of a literal string.
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok {
		return ""
	}
	value, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return value
}

// list returns the labels in a slice of literal strings.
func list(e ast.Expr) string {
	lit, ok := e.(*ast.CompositeLit)
	if !ok {
		return ""
	}
	var labels []string
	for _, l := range lit.Elts {
		labels = append(labels, "`"+text(l)+"`")
	}
	return strings.Join(labels, ", ")
}
