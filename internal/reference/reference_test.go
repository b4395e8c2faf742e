package main

import (
	"context"
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/metrics"
)

const root = "../.."

// The pages in docs are the output of the generator.
func TestThePagesAreCurrent(t *testing.T) {
	pages, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not current: run make generate", name)
		}
	}
}

// The page of events has a row for each reason of a Kubernetes Event that a hub writes.
func TestThePageOfEventsHasTheEventsOfAHub(t *testing.T) {
	s := newSource()
	file, err := s.parse("hub/internal/api/events.go")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := blocks(file, "EventReason", typeNotes...)
	if err != nil {
		t.Fatal(err)
	}
	page, err := s.eventsPage()
	if err != nil {
		t.Fatal(err)
	}
	_, ofHub, _ := strings.Cut(page, "\n## Kubernetes Events of a hub\n")
	for _, group := range groups {
		for _, c := range group.constants {
			if !strings.Contains(ofHub, " | "+strings.Trim(c.text, ".")) {
				t.Errorf("the page has no row for %s", c.name)
			}
		}
	}
}

// eachFile calls see for each Go file below the directories that is not a test.
func eachFile(t *testing.T, see func(file *ast.File), dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		s := newSource()
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			file, err := s.parse(name)
			if err == nil {
				see(file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// newSource returns the source of this repository.
func newSource() *source { return openSource(root) }

// Every literal stages.Event in the source sets only fields that the comment of its type names.
func TestEventsSetTheFieldsOfTheirComments(t *testing.T) {
	file, err := newSource().parse("stages/event.go")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := blocks(file, "EventType", fieldNotes)
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, group := range groups {
		for _, c := range group.constants {
			documented[c.name] = c.notes[fieldNotes]
		}
	}
	subjects := []string{"Type", "Time", "Placement", "Run", "Stage", "Group", "Cluster"}
	checked := 0
	eachFile(t, func(file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			if typ, ok := literal.Type.(*ast.SelectorExpr); !ok || !isIdent(typ.X, "stages") || typ.Sel.Name != "Event" {
				return true
			}
			typ, set := "", []string(nil)
			for _, e := range literal.Elts {
				kv, ok := e.(*ast.KeyValueExpr)
				if !ok {
					continue
				}
				if value, ok := kv.Value.(*ast.SelectorExpr); ok && isIdent(kv.Key, "Type") && isIdent(value.X, "stages") {
					typ = value.Sel.Name
				}
				if key, ok := kv.Key.(*ast.Ident); ok && !slices.Contains(subjects, key.Name) {
					set = append(set, key.Name)
				}
			}
			if typ == "" {
				return true // its type is in a variable
			}
			checked++
			for _, field := range set {
				if !regexp.MustCompile(`\b` + field + `\b`).MatchString(documented[typ]) {
					t.Errorf("%s: its comment does not name %s, which the code sets: %q", typ, field, documented[typ])
				}
			}
			return true
		})
	}, "stages", "fleet", "internal/runstate")
	if checked < 40 {
		t.Errorf("only %d literals were found", checked)
	}
}

// The hub writes each Kubernetes Event with the type in its comment, and no reason is a literal.
func TestTheHubWritesEventsOfTheTypesInTheirComments(t *testing.T) {
	file, err := newSource().parse("hub/internal/api/events.go")
	if err != nil {
		t.Fatal(err)
	}
	groups, err := blocks(file, "EventReason", typeNotes...)
	if err != nil {
		t.Fatal(err)
	}
	documented, written := map[string]map[string]string{}, map[string]bool{}
	for _, group := range groups {
		for _, c := range group.constants {
			documented[c.name] = c.notes
		}
	}
	eachFile(t, func(file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 3 {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || f.Sel.Name != "Normal" && f.Sel.Name != "Warning" {
				return true
			}
			switch reason := call.Args[1].(type) {
			case *ast.BasicLit:
				t.Errorf("the reason %s is no constant of hub/internal/api/events.go", reason.Value)
			case *ast.SelectorExpr:
				notes := documented[reason.Sel.Name]
				if notes[f.Sel.Name+" on"] == "" && notes["Normal or Warning on"] == "" {
					t.Errorf("the hub writes %s as %s, and its comment says %v", reason.Sel.Name, f.Sel.Name, notes)
				}
				written[reason.Sel.Name] = true
			}
			return true
		})
	}, "hub")
	for name := range documented {
		if !written[name] && !strings.HasPrefix(name, "EventRollback") { // their reasons come from conditions
			t.Errorf("the hub does not write %s", name)
		}
	}
}

type noLeases struct{}

func (noLeases) Leases(context.Context) ([]fleet.Lease, error) { return nil, nil }

// The page of metrics has the metrics that package fleet/metrics registers.
func TestTheMetricsOfEnginesAreThosePublished(t *testing.T) {
	found, err := newSource().metrics()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range found["fleet/metrics"] {
		want = append(want, m.name)
	}
	described := &describer{}
	metrics.Queues(described)
	if err := described.Register(metrics.New(noLeases{})); err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(described.names)
	if !slices.Equal(described.names, want) {
		t.Errorf("registered are\n%q\nand the page has\n%q", described.names, want)
	}
}

// describer is a registerer that remembers the names of metrics.
type describer struct{ names []string }

func (d *describer) Register(c prometheus.Collector) error {
	all := make(chan *prometheus.Desc, 16)
	c.Describe(all)
	close(all)
	for desc := range all {
		d.names = append(d.names, regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(desc.String())[1])
	}
	return nil
}

func (d *describer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		_ = d.Register(c)
	}
}

func (d *describer) Unregister(prometheus.Collector) bool { return false }

// A constant without a comment, or without the notes, fails the generator.
func TestACommentThatLacksSomethingFailsTheGenerator(t *testing.T) {
	for _, lacking := range []string{
		"package p\nconst (\n\tA EventType = \"A\"\n)\n",
		"package p\nconst (\n\t// B: about another name.\n\tA EventType = \"A\"\n)\n",
		"package p\n",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(lacking), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := openSource(dir).parse("p.go")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := blocks(file, "EventType", fieldNotes); err == nil {
			t.Errorf("no error for %q", lacking)
		}
	}
	if err := writeTypes(&strings.Builder{}, block{text: "Events.", constants: []constant{{name: "A"}}}, nil); err == nil {
		t.Error("no error for an event without its fields")
	}
}
