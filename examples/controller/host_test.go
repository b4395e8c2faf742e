package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A module that imports the engine and controller-runtime, and pins neither, compiles as go mod tidy
// leaves it: what the engine requires picks no version of controller-runtime that is too old.
func TestAFreshHostOnControllerRuntimeCompiles(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": fmt.Sprintf("module example.com/host\n\ngo 1.26.0\n\nrequire github.com/slipway-dev/slipway v0.0.0\n\nreplace github.com/slipway-dev/slipway => %s\n", root),
		"main.go": `package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/fleet"
)

func main() {
	_ = ctrl.Options{}
	_, _ = fleet.New(fleet.Config{})
}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range []string{"mod tidy", "build -o host ."} {
		cmd := exec.CommandContext(t.Context(), "go", strings.Fields(args)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", args, err, out)
		}
	}
}
