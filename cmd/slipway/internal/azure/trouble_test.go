//go:build unix

package azure

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend/bolt"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

// A wrong command line ends with 2, says everything that is wrong at once, and makes no file.
func TestAWrongCommandLine(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, command := range []string{
		"fleet updaterun cancel $AT", "updaterun skip",
		"member create -g rg -f My_Fleet -n -member --labels a --takes 0s --fail -2 --update-group A --region R",
		"member create $AT -n a --member-cluster-id /aks/a --takes never",
		"updaterun create $AT -n run-1 --upgrade-type Full --speed 0 stray --kubernetes-version 1.26",
		"updaterun show $AT -n run-1 -o xml", "updaterun show $AT -n run-1 --what ever",
		"updaterun skip $AT -n run-1 --targets Group:a Cluster:b Stage:",
		"gate update $AT -n run-1 --state Open",
	} {
		if r := s.do(cli.ExitUsage, command); r.out != "" {
			t.Errorf("slipway %s prints %q", command, r.out)
		}
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
		t.Errorf("files were made: %v, %v", entries, err)
	}
	s.quietly(0, "member create $AT -n a --member-cluster-id /aks/a")
	for _, command := range []string{
		"updaterun create $AT -n run-1 --upgrade-type Full --node-images a --stages x --update-strategy-name y",
		"updaterun create $AT -n run-1 --upgrade-type NodeImageOnly --kubernetes-version 1.26.0",
		"updaterun create $AT -n run-1 --upgrade-type ControlPlaneOnly --node-image-selection Custom",
		"updaterun create $AT -n run-1 --upgrade-type Everything --node-image-selection All",
	} {
		s.do(cli.ExitUsage, command)
	}
	s.golden("usage")
}

// The error of an unusable file ends with code 1, and the file does not change.
func TestAFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.do(cli.ExitFailed, "updaterun list $AT")
	s.do(cli.ExitFailed, "member delete $AT -n a")
	s.quietly(0, "member create $AT -n a --member-cluster-id /aks/a")
	s.do(cli.ExitFailed, "member create $AT -n a --member-cluster-id /aks/a")
	s.do(cli.ExitFailed, "member show $AT -n b")
	s.do(cli.ExitFailed, "member update $AT -n b --update-group c")
	s.do(cli.ExitFailed, "updaterun list -g $GROUP -f other --store my-fleet.db")
	s.do(cli.ExitFailed, "updaterun show $AT -n run-1")
	s.do(cli.ExitFailed, "updaterun start $AT -n run-1")
	s.do(cli.ExitFailed, "updatestrategy create $AT -n s --stages nowhere.json")
	s.write("bad.json", "{\"stages\": [\n{\"name\": \"A\", \"group\": []}]}")
	s.do(cli.ExitFailed, "updatestrategy create $AT -n s --stages bad.json")
	s.write("back.json", `{"stages": [{"name": "a", "groups": [{"name": "g"}]}], "slipwayRollback": {}}`)
	s.do(cli.ExitFailed, "updatestrategy create $AT -n s --stages back.json")
	if r := s.quietly(cli.ExitUsage, "updaterun list $AT --store ."); !strings.Contains(r.err, "this is a directory") {
		t.Errorf("a directory: %s", r.err)
	}
	text := s.read("my-fleet.db.fleet")
	s.write("my-fleet.db.fleet", strings.Replace(text, `"format":1`, `"format":2`, 1))
	s.do(cli.ExitFailed, "member list $AT")
	s.write("my-fleet.db.fleet", text[:len(text)/2])
	s.do(cli.ExitFailed, "member list $AT")
	s.write("my-fleet.db.fleet", text)
	s.write("my-fleet.db", strings.Repeat("x", 64<<10))
	if r := s.quietly(cli.ExitFailed, "updaterun list $AT"); !strings.Contains(r.err, "my-fleet.db") {
		t.Errorf("a file that is no store: %s", r.err)
	}
	s.golden("files")
}

// A run continues unchanged if a second run of the same name is refused.
func TestARunOfANameThatIsTaken(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.quietly(0, "member create $AT -n a --member-cluster-id /aks/a")
	s.quietly(0, "updaterun create $AT -n run-1 --upgrade-type ControlPlaneOnly --kubernetes-version 1.26.0")
	if r := s.quietly(cli.ExitFailed, "updaterun create $AT -n run-1 --upgrade-type NodeImageOnly"); !strings.Contains(r.err, "update run run-1 is there already") {
		t.Errorf("another one of the name: %s", r.err)
	}
	if r := s.quietly(0, "updaterun list $AT"); !strings.Contains(r.out, "ControlPlaneOnly   1.26.0") {
		t.Errorf("the run does something else:\n%s", r.out)
	}
}

// If a process has the file open and serves no API, the verbs report that the file is in use.
func TestAFileInUse(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.quietly(0, "member create $AT -n a --member-cluster-id /aks/a")
	store, err := bolt.Open(filepath.Join(s.dir, "my-fleet.db"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.quietly(cli.ExitFailed, "member list $AT"); !strings.Contains(r.err, "another process has my-fleet.db open") {
		t.Errorf("a file in use: %s", r.err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) read(name string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *scene) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
