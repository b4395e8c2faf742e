//go:build unix

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// TestAWrongCommandLineIsToldAtOnce: the usage goes to stderr, and the exit code is 2.
func TestAWrongCommandLineIsToldAtOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	for _, command := range []string{
		"", "member", "fleet updaterun cancel $AT", "updaterun skip",
		"member create -g rg! -f My_Fleet -n -member --labels a slipway.dev/update-group=x --takes never --fail x --update-group A --region",
		"updaterun create $AT -n run-1 --upgrade-type Full --node-images a --stages x --update-strategy-name y --speed 0 -o xml stray --what ever",
		"updaterun create $AT -n run-1 --upgrade-type NodeImageOnly --kubernetes-version 1.26 --preview=yes",
		"updaterun create $AT -n run-1 --upgrade-type ControlPlaneOnly --node-image-selection Custom",
		"updaterun skip $AT -n run-1 -n run-2 --targets Group:a Cluster:b Stage:",
		"member update $AT -n member-1a",
	} {
		if r := s.do(exitUsage, command); r.out != "" {
			t.Errorf("upgrade %s prints %q", command, r.out)
		}
	}
	if entries, err := os.ReadDir(s.dir); err != nil || len(entries) != 1 {
		t.Errorf("files were made: %v, %v", entries, err)
	}
	s.process(exitUsage, "gate update $AT")
	s.golden("usage")
}

func TestHelpIsPrinted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.do(0, "-h")
	s.do(0, "fleet updaterun skip -h")
	s.golden("help")
}

// TestAFileThatCannotBeUsed: there is none, it is of another fleet, damaged, of another
// version, or in use by a process that does not answer.
func TestAFileThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.do(1, "updaterun list $AT")
	s.quietly(0, "member create $AT -n a --member-cluster-id /aks/a")
	s.do(1, "member create $AT -n a --member-cluster-id /aks/a")
	s.do(1, "member show $AT -n b")
	s.do(1, "updaterun list -g $GROUP -f other --data my-fleet.db")
	s.do(1, "updaterun show $AT -n run-1")
	s.do(1, "updatestrategy create $AT -n s --stages nowhere.json")
	if err := os.WriteFile(filepath.Join(s.dir, "bad.json"), []byte("{\"stages\": [\n{\"name\": \"A\", \"group\": []}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(1, "updatestrategy create $AT -n s --stages bad.json")
	if err := os.WriteFile(filepath.Join(s.dir, "back.json"), []byte("{\"stages\": [{\"name\": \"a\", \"groups\": [{\"name\": \"g\"}]}], \"slipwayRollback\": {}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.do(1, "updatestrategy create $AT -n s --stages back.json")
	path := filepath.Join(s.dir, "my-fleet.db")
	file, err := bolt.Open(path, bolt.Options{})
	if err == nil {
		_, err = file.Put(t.Context(), memberKeys+"later", []byte(`{"format": 2}`), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	s.inUse(t)
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	s.do(1, "member list $AT")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 8 << 10; i < 64<<10; i++ {
		whole[i] ^= 0x55
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.quietly(1, "updaterun list $AT"); !strings.Contains(r.err, "the file is damaged") {
		t.Errorf("a damaged file: %s", r.err)
	}
	s.golden("files")
}

// inUse asks for a file that this process has open: nothing answers at the socket, or
// a process that has no store.
func (s *scene) inUse(t *testing.T) {
	t.Helper()
	const command = "member list $AT"
	if r := s.quietly(1, command); !strings.Contains(r.err, "the file is in use: another process has my-fleet.db open, and does not answer at my-fleet.db.sock") {
		t.Errorf("a file in use: %s", r.err)
	}
	l, err := net.Listen("unix", filepath.Join(s.dir, "my-fleet.db.sock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
