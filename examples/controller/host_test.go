package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAFreshHostCompiles: a new module that imports the engine compiles after go mod tidy, because
// the requirements of the engine select no version of another module that is too old.
func TestAFreshHostCompiles(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, requires, main string }{
		{"with controller-runtime", "", `package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/fleet"
)

func main() {
	_ = ctrl.Options{}
	_, _ = fleet.New(fleet.Config{})
}
`},
		{"that has apimachinery already", "require k8s.io/apimachinery v0.37.2\n", `package main

import (
	"k8s.io/apimachinery/pkg/labels"

	"github.com/slipway-dev/slipway/backend/kube/inventory"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/backend/kube/source"
	"github.com/slipway-dev/slipway/backend/kube/store"
)

var (
	_ = labels.Everything
	_ = inventory.NewMemberClusters
	_ = member.NewDialer
	_ = source.New
	_ = store.New
)

func main() {}
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			mod := fmt.Sprintf("module example.com/host\n\ngo 1.26.0\n\nrequire github.com/slipway-dev/slipway v0.0.0\n%s\nreplace github.com/slipway-dev/slipway => %s\n", c.requires, root)
			for name, text := range map[string]string{"go.mod": mod, "main.go": c.main} {
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
		})
	}
}
