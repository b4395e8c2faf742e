package arch

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// TestArrows checks the tree. It also holds that a library leaves its host's
// process alone (T24).
func TestArrows(t *testing.T) {
	files := loaded(t, os.DirFS("../.."))
	if len(files) < 50 {
		t.Fatalf("only %d files were found", len(files))
	}
	for _, f := range files {
		for _, p := range problems(f) {
			t.Error(p)
		}
	}
}

func loaded(t *testing.T, root fs.FS) []*file {
	t.Helper()
	files, err := load(root)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// planted is a file with or without a violation.
type planted struct {
	file, src string
	// want is a part of the report, or empty if the file is correct.
	want string
}

func (p planted) check(t *testing.T) {
	t.Helper()
	files := loaded(t, fstest.MapFS{p.file: {Data: []byte(p.src)}})
	if len(files) != 1 {
		t.Fatalf("%d files instead of one", len(files))
	}
	got := strings.Join(problems(files[0]), "\n")
	if p.want == "" && got != "" || !strings.Contains(got, p.want) {
		t.Errorf("%s with %q: got %q, want %q", p.file, p.src, got, p.want)
	}
}

func imports(path string) string { return "package x\nimport _ \"" + path + "\"\n" }

func TestArrowsPointDownOnly(t *testing.T) {
	const up = "against the arrows"
	for _, p := range []planted{
		{"placement/x.go", imports(module + "/snapshot"), up},
		{"snapshot/x.go", imports(module + "/placement"), up},
		{"approval/x.go", imports(module + "/stages"), up},
		{"placement/x_test.go", imports(module + "/backend/memory"), up},
		{"drift/internal/value/x.go", imports(module + "/drift/internal/compare"), up},
		{"drift/internal/compare/x.go", imports(module + "/drift"), up},
		{"drift/x.go", imports(module + "/drift/internal/compare"), ""},
		{"stages/x.go", imports(module + "/backend"), up},
		{"stages/x.go", imports(module + "/fleet"), up},
		{"stages/x_test.go", imports(module + "/backend/memory"), up},
		{"stages/x.go", imports(module + "/approval"), ""},
		{"backend/x.go", imports(module + "/stages"), up},
		{"backend/x.go", imports(module + "/fleet"), up},
		{"backend/x.go", imports(module + "/backend/memory"), up},
		{"backend/x_test.go", imports(module + "/backend/memory"), ""},
		{"backend/memory/x.go", imports(module + "/fleet"), up},
		{"backend/memory/x.go", imports(module + "/backend/faulty"), up},
		{"backend/memory/x.go", imports(module + "/backend"), ""},
		{"fleet/x.go", imports(module + "/backend/memory"), up},
		{"fleet/x.go", imports(module + "/formats/oam"), up},
		{"fleet/x.go", imports(module + "/stages"), ""},
		{"fleet/x_test.go", imports(module + "/backend/memory"), ""},
		{"fleet/x_test.go", imports(module + "/hub"), up},
		{"formats/oam/x.go", imports(module + "/hub"), up},
		{"formats/oam/x.go", imports(module + "/formats/azure"), ""},
		{"formats/oam/x.go", imports(module + "/backend/memory"), up},
		{"formats/oam/x.go", imports(module + "/fleet"), ""},
		{"hub/x.go", imports(module + "/examples/embed"), up},
		{"hub/x.go", imports(module + "/backend/kube/store"), ""},
		{"hub/x.go", imports(module + "/hub/internal/api"), ""},
		{"examples/a/main.go", imports(module + "/backend/memory"), ""},
		{"fleet/x.go", imports(module + "/internal/kubeenv/servers"), up},
		{"fleet/x.go", imports(module + "/tools"), up},
		{"fleet/x.go", imports(module), up},
	} {
		p.check(t)
	}
}

func TestANewPackageNeedsARow(t *testing.T) {
	for _, name := range []string{"util/x.go", "internal/x/x.go", "stagesx/x_test.go", "backend/postgres/x.go"} {
		planted{name, "package x", "has no row"}.check(t)
	}
	planted{"internal/arch/x.go", "package x", ""}.check(t)
	planted{"formats/new/x.go", "package x", ""}.check(t)
}

func TestPurePackagesImportOnlyListedModules(t *testing.T) {
	const third = "may import of others only"
	for _, p := range []planted{
		{"placement/x.go", imports("github.com/evanphx/json-patch/v5"), ""},
		{"snapshot/x.go", imports("github.com/evanphx/json-patch/v5"), third},
		{"drift/x.go", imports("sigs.k8s.io/structured-merge-diff/v4/typed"), ""},
		{"snapshot/x.go", imports("k8s.io/apimachinery/pkg/labels"), ""},
		{"snapshot/x.go", imports("k8s.io/apimachineryx"), third},
		{"snapshot/x.go", imports("k8s.io/api/core/v1"), third},
		{"snapshot/x_test.go", imports("sigs.k8s.io/yaml"), ""},
		{"stages/x.go", imports("k8s.io/api/core/v1"), third},
		{"backend/memory/x.go", imports("k8s.io/api/core/v1"), ""},
	} {
		p.check(t)
	}
}

func TestPurePackagesDoNoIO(t *testing.T) {
	const pure = "is a pure package"
	for _, path := range []string{"os", "os/exec", "net", "net/http", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "unsafe"} {
		for _, dir := range []string{"placement", "snapshot", "drift", "approval", "stages"} {
			planted{dir + "/x.go", imports(path), pure}.check(t)
			planted{dir + "/x_test.go", imports(path), ""}.check(t)
		}
	}
	planted{"stages/x.go", imports("net/url"), ""}.check(t)
	for _, path := range []string{"context", "sync", "sync/atomic"} {
		planted{"stages/x.go", imports(path), pure}.check(t)
		planted{"snapshot/x.go", imports(path), ""}.check(t)
	}
	planted{"placement/x.go", "package x\nfunc f() { go f() }", "starts a goroutine"}.check(t)
	planted{"fleet/x.go", "package x\nfunc f() { go f() }", ""}.check(t)
}

func TestPurePackagesReadNoClock(t *testing.T) {
	const given = "is given the time"
	for _, name := range clockNames["time"] {
		src := "package x\nimport \"time\"\nvar f = time." + name
		planted{"stages/x.go", src, given}.check(t)
		planted{"approval/x.go", src, given}.check(t)
		planted{"fleet/x.go", src, ""}.check(t)
		planted{"stages/x_test.go", src, ""}.check(t)
	}
	for _, p := range []planted{
		{"stages/x.go", "package x\nimport clock \"time\"\nvar f = clock.Now()", given},
		{"stages/x.go", "package x\nimport . \"time\"\nvar f = Now()", "with a dot"},
		{"stages/x.go", "package x\nimport \"time\"\nvar f = time.Hour", ""},
		{"stages/x.go", "package x\nimport \"time\"\nvar _ time.Time\ntype c struct{ Now int }\nfunc f(time c) int { return time.Now }", ""},
	} {
		p.check(t)
	}
}

func TestOnlySomeTalkToClusters(t *testing.T) {
	const no = "does not talk to clusters"
	for _, p := range []planted{
		{"fleet/x.go", imports("k8s.io/client-go/dynamic"), no},
		{"fleet/x_test.go", imports("k8s.io/client-go/dynamic"), no},
		{"backend/x.go", imports("sigs.k8s.io/controller-runtime"), no},
		{"backend/memory/x.go", imports("k8s.io/client-go"), no},
		{"formats/kubefleet/x.go", imports("k8s.io/client-go/dynamic"), no},
		{"backend/kube/x.go", imports("k8s.io/client-go/dynamic"), ""},
		{"hub/x.go", imports("k8s.io/client-go/dynamic"), ""},
		{"internal/kubeenv/x.go", imports("k8s.io/client-go/rest"), ""},
		{"examples/operator/main.go", imports("k8s.io/client-go/rest"), ""},
	} {
		p.check(t)
	}
}

func TestT24LibrariesLeaveTheProcessToTheHost(t *testing.T) {
	const host = "the process belongs to the host"
	for path, names := range hostNames {
		for _, name := range names {
			src := "package x\nimport p \"" + path + "\"\nvar f = p." + name
			planted{"fleet/x.go", src, host}.check(t)
			planted{"backend/kube/x.go", src, host}.check(t)
			planted{"fleet/x_test.go", src, ""}.check(t)
			planted{"examples/a/main.go", src, ""}.check(t)
		}
	}
	for _, p := range []planted{
		{"hub/x.go", imports("flag"), "belongs to the program"},
		{"hub/x.go", imports("k8s.io/klog/v2"), "belongs to the program"},
		{"fleet/x.go", imports("net/http/pprof"), "belongs to the program"},
		{"backend/x.go", "package x\nfunc init() {}", "has an init"},
		{"backend/x.go", "//go:build windows\n\npackage x\nfunc init() {}", "has an init"},
		{"backend/x.go", "package x\ntype t int\nfunc (t) init() {}", ""},
		{"backend/x.go", "package x\nimport \"C\"", "pure Go"},
		{"fleet/x.go", "package main\nfunc main() {}", "is a program"},
		{"fleet/x.go", "package x\nimport (\"os\"; \"fmt\")\nvar a, b = os.ErrNotExist, fmt.Sprint()", ""},
	} {
		p.check(t)
	}
}

func TestOtherModulesAndTestdataAreNotRead(t *testing.T) {
	bad := &fstest.MapFile{Data: []byte("this is not Go")}
	files := loaded(t, fstest.MapFS{
		"go.mod": {}, "stages/x.go": {Data: []byte("package stages")},
		"tools/go.mod": {}, "tools/x.go": bad, "stages/testdata/x.go": bad, ".ci/x.go": bad,
	})
	if len(files) != 1 || files[0].dir != "stages" {
		t.Errorf("read %d files", len(files))
	}
}

func TestAFileThatCannotBeParsedIsAnError(t *testing.T) {
	if _, err := load(fstest.MapFS{"stages/x.go": {Data: []byte("package")}}); err == nil {
		t.Error("no error")
	}
}
