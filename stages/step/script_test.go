package step

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestScripts runs the files in testdata. They consist of blocks: a directive with its arguments,
// lines of input, a line of dashes and the expected output. With -update, the test writes the
// output; review the difference.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			runScript(t, file)
		})
	}
}

var update = flag.Bool("update", false, "rewrite the expected output of the scripts")

func runScript(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	w := newScriptEnv()
	for _, b := range scriptBlocks(string(text)) {
		out.WriteString(b.before)
		if b.directive == "" {
			continue
		}
		got := w.do(b)
		if !*update && got != b.want {
			t.Errorf("%s: %s\n%s", file, b.directive, cmp.Diff(b.want, got))
		}
		fmt.Fprintf(&out, "%s\n%s----\n%s", b.directive, b.input, got)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// scriptBlock is a directive with its surroundings.
type scriptBlock struct {
	before    string // comments and blank lines
	directive string
	input     string
	want      string
}

// scriptBlocks splits a script. The output of a block ends at a blank line.
func scriptBlocks(text string) []scriptBlock {
	var out []scriptBlock
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		var b scriptBlock
		for ; i < len(lines) && (strings.TrimSpace(lines[i]) == "" || lines[i][0] == '#'); i++ {
			b.before += lines[i]
		}
		if i < len(lines) {
			b.directive = strings.TrimSpace(lines[i])
			i++
		}
		for ; i < len(lines) && lines[i] != "----\n"; i++ {
			b.input += lines[i]
		}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != ""; i++ {
			b.want += lines[i]
		}
		out = append(out, b)
	}
	return out
}

// scriptArgs are the arguments of a directive: words, and key=value pairs whose
// value may be quoted.
type scriptArgs struct {
	words []string
	named map[string]string
}

func parseArgs(line string) scriptArgs {
	a := scriptArgs{named: map[string]string{}}
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word := line
		if i := strings.IndexAny(line, ` "`); i >= 0 && line[i] == '"' {
			end := strings.IndexByte(line[i+1:], '"')
			word = line[:i+end+2]
		} else if i >= 0 {
			word = line[:i]
		}
		line = line[len(word):]
		if key, value, ok := strings.Cut(word, "="); ok {
			a.named[key] = strings.Trim(value, `"`)
		} else {
			a.words = append(a.words, strings.Trim(word, `"`))
		}
	}
	return a
}

func (a scriptArgs) get(key, unset string) string {
	if v, ok := a.named[key]; ok {
		return v
	}
	return unset
}

func (a scriptArgs) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	return ""
}
