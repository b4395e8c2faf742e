//go:build unix

package docs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// page has the blocks of sh of a tutorial, in their order. They are one script: a block may use
// the directory, the variables and the background processes of the blocks before it.
type page []block

func (p page) file() string { return p[0].file }

// needs prepares the copy of the repository for the pages that need more than the command.
var needs = map[string]func(t *testing.T, dir, tools string){
	"docs/tutorials/hub.md":         hubAndMembers,
	"docs/tutorials/metric-gate.md": func(t *testing.T, _, tools string) { link(t, tools, "prometheus") },
}

// link puts a program of the tests on the PATH.
func link(t *testing.T, tools, name string) {
	t.Helper()
	program, err := kubeenv.Binary(name)
	if err == nil {
		err = os.Symlink(program, filepath.Join(tools, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hubAndMembers starts API servers with controllers for the clusters of the tutorial, and writes
// the kubeconfigs that kind writes for a reader.
func hubAndMembers(t *testing.T, dir, tools string) {
	t.Helper()
	link(t, tools, "kubectl")
	names := []string{"hub", "members/member1", "members/member2", "members/member3"}
	for i, server := range kubeenv.ForTest(t).Servers(t, "hub", "member1", "member2", "member3") {
		if err := server.StartControllerManager(t.Context()); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "hub-tutorial", filepath.FromSlash(names[i])+".kubeconfig")
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, server.Kubeconfig(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// test runs the page in a copy of the repository.
func (p page) test(t *testing.T, tools string) {
	dir := filepath.Join(t.TempDir(), "slipway")
	if err := os.CopyFS(dir, repository{os.DirFS(root)}); err != nil {
		t.Fatal(err)
	}
	if prepare := needs[p.file()]; prepare != nil {
		prepare(t, dir, tools)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if err := p.run(ctx, dir, tools); err != nil {
		t.Error(err)
	}
}

// run runs all blocks, and compares the output of each with the document.
func (p page) run(ctx context.Context, dir, tools string) error {
	var script strings.Builder
	for i := range p {
		fmt.Fprintf(&script, "echo; echo %q\n%s", p[i].mark(), p[i].text)
	}
	out, code, err := bash(ctx, dir, tools, script.String())
	if err != nil || code != 0 {
		return fmt.Errorf("exit code %d: %w\n%s", code, err, out)
	}
	for i := range p {
		_, of, _ := strings.Cut(out, p[i].mark()+"\n")
		if i+1 < len(p) {
			of, _, _ = strings.Cut(of, p[i+1].mark()+"\n")
		}
		if err := p[i].compare(of); err != nil {
			return fmt.Errorf("%s:%d: %w", p[i].file, p[i].line, err)
		}
	}
	return nil
}

// mark is the line that comes before the output of a block.
func (b *block) mark() string { return fmt.Sprintf("==== %s:%d", b.file, b.line) }

func TestBlocksShareTheShellOfAPage(t *testing.T) {
	one, two := block{file: "a.md", line: 2, text: "x=5; cd /\n", output: ""}, block{file: "a.md", line: 9, text: "echo $x; pwd\n", output: "5\n/\n"}
	for _, c := range []struct {
		p     page
		holds bool
	}{
		{page{one, two}, true},
		{page{two}, false},
		{page{one, two, block{file: "a.md", line: 20, text: "true\n", output: "5\n"}}, false},
		{page{one, block{file: "a.md", line: 20, text: "false\n"}, two}, false},
	} {
		if err := c.p.run(t.Context(), t.TempDir(), ""); (err == nil) != c.holds {
			t.Errorf("%v: %v, holds: %t", c.p, err, c.holds)
		}
	}
}

// A page that the table names exists.
func TestThePagesWithNeedsExist(t *testing.T) {
	for file := range needs {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
			t.Error(err)
		}
	}
}
