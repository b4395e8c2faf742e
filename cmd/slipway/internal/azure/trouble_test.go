//go:build unix

package azure

import (
	"encoding/json"
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

// What a file has that cannot be used ends with 1, and the file is left as it is.
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
	if r := s.quietly(cli.ExitFailed, "updaterun list $AT --store ."); !strings.Contains(r.err, "is a directory") {
		t.Errorf("a directory: %s", r.err)
	}
	path := filepath.Join(s.dir, "my-fleet.db")
	s.change(path, func(r *record) { r.Format = recordFormat + 1 })
	s.do(cli.ExitFailed, "member list $AT")
	s.write("my-fleet.db", strings.Repeat("x", 64<<10))
	if r := s.quietly(cli.ExitFailed, "updaterun list $AT"); r.err == "" {
		t.Error("a file that is no store: nothing is said")
	}
	s.golden("files")
}

func (s *scene) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// change changes the record of the fleet.
func (s *scene) change(path string, do func(*record)) {
	s.t.Helper()
	store, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	rec, err := store.Get(s.t.Context(), recordKey)
	var r record
	if err == nil {
		err = json.Unmarshal(rec.Value, &r)
	}
	do(&r)
	value, marshalled := json.Marshal(r)
	if err == nil && marshalled == nil {
		_, err = store.Put(s.t.Context(), recordKey, value, rec.Revision)
	}
	if err != nil || marshalled != nil || store.Close() != nil {
		s.t.Fatal(err, marshalled)
	}
}
