package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/backend/postgres"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/pgenv"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// TestAStoreInADatabase: serve creates the tables of a database, several engines share the runs,
// and other commands reach them through the database. No output contains a password.
func TestAStoreInADatabase(t *testing.T) {
	server, err := pgenv.Start(pgenv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	url := fmt.Sprintf("postgres://postgres:hunter2@127.0.0.1:%d/postgres?sslmode=disable", server.Port)
	v := newEnv(t)
	code, _, errOut := v.run("--store", url, "get", "runs")
	if code != cli.ExitFailed || !strings.Contains(errOut, "call postgres.Migrate, which slipway serve does") || strings.Contains(errOut, "hunter2") {
		t.Errorf("a database without tables: %d, %s", code, errOut)
	}
	clusters := filepath.Join(t.TempDir(), "fleet.kubeconfig")
	v.must(os.WriteFile(clusters, []byte("{apiVersion: v1, kind: Config}"), 0o600))
	lines, end := v.start("serve", "--store", url, "--clusters", clusters)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "store/database: the engine ") {
		_, errOut := end()
		t.Fatalf("serve says %q, %s", lines.Text(), errOut)
	}
	store, err := postgres.Open(t.Context(), url, postgres.Options{})
	v.must(err)
	t.Cleanup(func() { _ = store.Close() })
	host, err := fleet.New(fleet.Config{Store: store, Inventory: v.members, Dialer: v.members, Source: v.source, Name: "host"})
	v.must(err)
	for i := range 4 {
		name := fmt.Sprint("shop-", i)
		v.must(v.source.Put(object("Namespace", "", name, "")))
		v.must(host.PutPlacement(t.Context(), fleet.Placement{Name: name, Selectors: []snapshot.Selector{{Version: "v1", Kind: "Namespace", Name: name}}}))
		_, err := host.CreateRun(t.Context(), fleet.RunSpec{Name: name, Placement: name, Strategy: strategy(stages.Task{Type: stages.Approval})})
		v.must(err)
	}
	file := v.write("a.yaml", placementFile+"---\n"+strategyFile+"---\n"+runFile)
	for _, want := range []string{"placement/store: created\nstrategy/careful: created\nrun/store-1: created, stages 1, clusters 3\n", "placement/store: unchanged\nstrategy/careful: unchanged\nrun/store-1: unchanged\n"} {
		if code, out, errOut := v.run("--store", url, "apply", "-f", file); code != cli.ExitDone || out != want {
			t.Errorf("apply: %d, %s%s", code, out, errOut)
		}
	}
	// the engine may have removed its objects already
	if code, out, errOut := v.run("--store", url, "delete", "-f", file, "--force", "--yes"); code != cli.ExitDone || !strings.Contains(out, "run/store-1: deleted\nplacement/store: delet") {
		t.Errorf("delete: %d, %s%s", code, out, errOut)
	}
	_, endOther := v.start("serve", "--store", url, "--clusters", clusters)
	deadline := time.Now().Add(3 * time.Minute)
	for holders := 0; holders != 2; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d engines have runs", holders)
		}
		leases, err := host.Leases(t.Context())
		v.must(err)
		names := map[string]bool{}
		for _, l := range leases {
			if l.Holder != "" {
				names[l.Holder] = true
			}
		}
		holders = len(names)
	}
	code, out, errOut := v.run("--store", url, "leases")
	if code != cli.ExitDone || strings.Count(out, "\nshop-") != 4 {
		t.Errorf("leases: %d, %s%s", code, out, errOut)
	}
	if code, _, errOut := v.run("--store", url, "approve", "shop-2", "--as", "ann", "--yes"); code != cli.ExitDone {
		t.Errorf("approve: %d, %s", code, errOut)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if s, err := host.Run("shop-2").Wait(ctx); err != nil || s.Run.State != stages.Completed {
		t.Errorf("the run is %s, %v", s.Run.State, err)
	}
	for _, end := range []func() (int, string){end, endOther} {
		if code, errOut := end(); code != cli.ExitDone || strings.Contains(errOut, "hunter2") {
			t.Errorf("serve that was interrupted: %d, %s", code, errOut)
		}
	}
}

// TestTheExampleOnPostgreSQL: the tutorial ends the same way if engines in other processes drive
// it.
func TestTheExampleOnPostgreSQL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../examples/postgres.sh", "--wait", "1s", "-o", "text")
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		" example-run/member1  key=value2\n", " example-run/member2  key=value2\n", " example-run/member3  key=value2\n",
		" example-run-2/member1  key=value1\n", " example-run-2/member2  key=value1\n", " example-run-2/member3  key=value1\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if n := strings.Count(string(out), "store/database: the engine "); n != 2 {
		t.Errorf("%d engines run beside the demo", n)
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// TestADatabaseThatIsNamedWrongly: a misspelled database URL does not create a file. Its error
// contains no password, and neither does the error of an unreachable database.
func TestADatabaseThatIsNamedWrongly(t *testing.T) {
	t.Chdir(t.TempDir())
	v := newEnv(t)
	const want = "want the name of a file, or postgres://USER@HOST/DATABASE with lower-case letters and two slashes"
	words := "host=127.0.0.1 user=postgres password=hunter2 dbname=slip"
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"serve", "--store", words}, cli.ExitUsage, "--store: " + want},
		{[]string{"serve", "--store", "Postgres://postgres:hunter2@127.0.0.1/slip"}, cli.ExitUsage, "--store: " + want},
		{[]string{"get", "runs", "--store", "postgresql:/postgres:hunter2@127.0.0.1/slip"}, cli.ExitUsage, "--store: " + want},
		{[]string{"get", "runs", "--store", "sslpassword=hunter2"}, cli.ExitUsage, "--store: " + want},
		{[]string{"demo", "--data", words}, cli.ExitUsage, "--data: " + want},
		{[]string{"store", "check", "postgres://postgres:hunter2@127.0.0.1/slip"}, cli.ExitUsage, "slipway store check: want the file of a store"},
		{[]string{"store", "records", words}, cli.ExitUsage, "slipway store records: want the file of a store"},
		{[]string{"serve", "--store", "postgres://postgres:hunter2@127.0.0.1/slip"}, cli.ExitUsage, "--clusters is not set"},
		{[]string{"serve", "--store", "postgres://postgres:hunter2@127.0.0.1:1/slip", "--clusters", "fleet.kubeconfig", "--timeout", "3s"}, cli.ExitUsage, "--timeout: leave it out"},
		{[]string{"get", "runs", "--store", "postgres://postgres:hunter2@127.0.0.1:1/slip"}, cli.ExitFailed, "the database: open schema slipway: failed to connect to `user=postgres database=slip`: 127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused\n"},
	} {
		code, _, errOut := v.run(c.args...)
		if code != c.code || !strings.Contains(errOut, c.want) || strings.Contains(errOut, "hunter2") {
			t.Errorf("%q: %d, %s, want %d and %s", c.args, code, errOut, c.code, c.want)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("there are %v, %v", files, err)
	}
}

// Flags that a verb does not use are refused: a demo whose runs are elsewhere than --store says
// would seem to be lost.
func TestUnusedFlagsAreRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	v := newEnv(t)
	for want, args := range map[string][]string{
		"--store: leave it out: slipway demo does not use it":          {"demo", "--store", "demo.db"},
		"--server: leave it out: slipway simulate does not use it":     {"simulate", "run.yaml", "--server", "https://localhost"},
		"--store: leave it out: slipway store check does not use it":   {"store", "check", "a.db", "--store", "b.db"},
		"--store: leave it out: slipway hub does not use it":           {"hub", "--members", ".", "--store", "hub.db"},
		"--token-file: leave it out: slipway hub install does not use": {"hub", "install", "--token-file", "tokens"},
	} {
		if code, _, errOut := v.run(args...); code != cli.ExitUsage || !strings.Contains(errOut, want) {
			t.Errorf("%q: %d, %s, want %s", args, code, errOut, want)
		}
	}
}

// TestAnEngineWhoseClustersCannotBeRead takes no run from the others of a database: it does not
// begin.
func TestAnEngineWhoseClustersCannotBeRead(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "fleet.kubeconfig")
	var errOut bytes.Buffer
	args := []string{"serve", "--store", newEnv(t).file, "--clusters", missing}
	code := run(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &errOut}, nil)
	if code != cli.ExitFailed || !strings.Contains(errOut.String(), "--clusters: open "+missing+": no such file or directory") {
		t.Errorf("%d, %s", code, errOut.String())
	}
}

// TestVerbsOfClustersWithoutThem: a verb that reads clusters names the flag that is missing.
func TestVerbsOfClustersWithoutThem(t *testing.T) {
	v := newEnv(t)
	for _, args := range []string{"drift shop", "drift shop --cluster eu-1", "preview-selection shop"} {
		var errOut bytes.Buffer
		code := run(t.Context(), append([]string{"--store", v.file}, strings.Fields(args)...), genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: &errOut}, nil)
		if code != cli.ExitUsage || !strings.Contains(errOut.String(), "--clusters is not set: it names the kubeconfig whose contexts are the clusters") {
			t.Errorf("%s: %d, %s", args, code, errOut.String())
		}
	}
}

// TestServeReportsDatabaseErrors: serve reports problems of the database on its
// standard error.
func TestServeReportsDatabaseErrors(t *testing.T) {
	server, err := pgenv.Start(pgenv.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	said, errOut := io.Pipe()
	out, says := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	args := []string{"serve", "--demo", "--store", fmt.Sprintf("postgres://postgres:hunter2@127.0.0.1:%d/postgres?sslmode=disable", server.Port)}
	go func() {
		ended <- run(ctx, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: says, ErrOut: errOut}, nil)
		_ = errOut.Close()
	}()
	if lines := bufio.NewScanner(out); !lines.Scan() {
		t.Fatal("it says nothing")
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	lines, told := bufio.NewScanner(said), false
	for lines.Scan() { // until it ends
		if strings.Contains(lines.Text(), "hunter2") {
			t.Errorf("a password is in %s", lines.Text())
		}
		if strings.Contains(lines.Text(), "cannot be followed, which is tried again") || strings.Contains(lines.Text(), "changes cannot be read, trying again") {
			told = true
			cancel()
		}
	}
	if code := <-ended; code != cli.ExitDone || !told {
		t.Errorf("serve that was interrupted: %d, told %v", code, told)
	}
}

func TestADemoInADatabaseIsApprovedByItsEngines(t *testing.T) {
	t.Parallel()
	v := newEnv(t)
	for _, c := range [][2]string{
		{"demo --data postgres://db --approve ask", "--approve ask goes with a directory: the engines of a database approve"},
		{"serve --demo --store state.db", "--demo: use it with --store postgres://… and without --clusters"},
		{"serve --demo --store postgres://db --clusters fleet.kubeconfig", "--demo: use it with --store postgres://… and without --clusters"},
	} {
		if code, _, errOut := v.run(strings.Fields(c[0])...); code != cli.ExitUsage || !strings.Contains(errOut, c[1]) {
			t.Errorf("%s: %d, %s", c[0], code, errOut)
		}
	}
}
