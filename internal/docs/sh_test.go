//go:build unix

package docs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// shown are the blocks of commands that no test runs, each with its reason.
var shown = map[string]string{
	"README.md: go run ./cmd/slipway demo      # needs Go 1.26.7 only: a staged rollout, an approval and the way back, over clusters in memory": tests,
	"CONTRIBUTING.md: make          # lists the targets":                                                                                     tests,
	"docs/command.md: $ slipway --store state.db watch web-1          # first terminal: the tree of the run, and when it will end":           people,
	"docs/hub.md: $ slipway hub install --kubeconfig hub.kubeconfig          # prints each change; may be repeated":                          clusters,
	"docs/hub.md: $ kubectl label membercluster member2 environment=staging":                                                                 clusters,
	"docs/hub.md: $ kubectl patch csur example-run --type merge -p '{\"spec\":{\"state\":\"Rollback\"}}'":                                    clusters,
	"docs/hub.md: $ kubectl slipway create run web-1 --placement web --strategy careful   # names of objects of the hub":                     clusters,
	"docs/hub.md: $ slipway migrate --kubeconfig hub.kubeconfig --members DIR            # reads only; -o json for programs":                 migrations,
	"docs/hub.md: $ slipway migrate give-back --kubeconfig hub.kubeconfig --members DIR --backup back.json    # once no hub of Slipway runs": migrations,

	"docs/tutorials/hub.md: $ kind create cluster --name hub --kubeconfig hub.kubeconfig": kinds,
	"docs/tutorials/hub.md: $ kind delete clusters hub member1 member2 member3":           kinds,

	"docs/hub.md: $ slipway hub install --kubeconfig hub.kubeconfig --compatibility v0.18":                             clusters,
	"docs/workflows.md: $ ln -s \"$(command -v slipway)\" ~/bin/kubectl-amc                 # a directory of the PATH": clusters,

	"docs/hub.md: $ kubectl patch membercluster member1 --type merge -p '{\"spec\":{\"taints\":[{\"key\":\"maintenance\",\"effect\":\"NoSchedule\"}]}}'": clusters,

	"docs/howto/declare-by-file.md: $ kubectl --context hub apply -f examples/files/demo/objects.yaml":                                                                    clusters,
	"docs/howto/declare-by-file.md: $ slipway --store state.db apply -f examples/files -f examples/files/runs":                                                            clusters,
	"docs/howto/engines-on-postgresql.md: $ examples/postgres.sh --wait 1s":                                                                                               databases,
	"docs/howto/engines-on-postgresql.md: $ createuser slipway":                                                                                                           databases,
	"docs/howto/engines-on-postgresql.md: $ slipway --store \"postgres://slipway@db-1,db-2/slipway\" leases":                                                              databases,
	"docs/howto/migrate-from-kubefleet.md: $ slipway migrate --kubeconfig hub.kubeconfig --members members":                                                               migrations,
	"docs/howto/migrate-from-kubefleet.md: $ kubectl --kubeconfig hub.kubeconfig -n fleet-system scale deployment hub-agent --replicas 0":                                 migrations,
	"docs/howto/migrate-from-kubefleet.md: $ slipway hub install --kubeconfig hub.kubeconfig --compatibility v0.18":                                                       migrations,
	"docs/howto/migrate-from-kubefleet.md: $ slipway migrate give-back --kubeconfig hub.kubeconfig --members members --backup back.json    # when no hub of Slipway runs": migrations,
	"docs/howto/write-a-store.md: $ go test ./examples/store":                                                                                                             examples,
	"docs/howto/write-an-updater.md: $ go test ./examples/updater":                                                                                                        examples,
	"docs/howto/back-up-and-restore.md: $ pg_dump --format=custom --schema=slipway --file=monday.dump \"postgres://slipway@db-1/slipway\"":                                dumps,
	"docs/howto/back-up-and-restore.md: $ psql --command='DROP SCHEMA slipway CASCADE' \"postgres://slipway@db-1/slipway\"":                                               dumps,
	"docs/howto/back-up-and-restore.md: $ etcdctl snapshot save monday.etcd                    # with the endpoint and the certificates of the hub's etcd":                etcd,
	"docs/howto/write-a-source.md: $ go test ./examples/source":                                                                                                           examples,
	"docs/howto/approve-with-two-groups.md: $ kubectl apply -f placement.yaml -f strategy.yaml":                                                                           howTos,
	"docs/howto/approve-with-two-groups.md: $ kubectl slipway approve web-1 --as ann --as-group sre --comment \"error rate is low\" --yes":                                howTos,
	"docs/howto/approve-with-two-groups.md: $ go run ./examples/approvals":                                                                                                examples,
	"docs/howto/drain-a-cluster.md: $ kubectl slipway cordon member1        # no further placement picks it; its objects stay":                                            howTos,
	"docs/howto/drain-a-cluster.md: $ kubectl apply -f budget.yaml":                                                                                                       howTos,
	"docs/howto/gate-by-prometheus.md: $ slipway hub --kubeconfig hub.kubeconfig --members members --prometheus http://prometheus.monitoring:9090":                        clusters,
	"docs/howto/gate-by-prometheus.md: $ kubectl apply -f strategy.yaml":                                                                                                  howTos,
	"docs/howto/roll-back.md: $ kubectl apply -f strategy.yaml":                                                                                                           howTos,
	"docs/howto/roll-back.md: $ kubectl slipway rollback second --preview":                                                                                                howTos,
	"docs/howto/roll-back.md: $ kubectl label clusterresourcesnapshot web-1-snapshot slipway.dev/irreversible=true":                                                       howTos,

	"docs/embedding.md: $ slipway demo --data tutorial                    # kill it in the middle of a run, and start it again: it goes on": "it is killed in the middle; the tests of the command do that",
}

// The reasons.
const (
	tests      = "its last command runs all tests, of which this is one; TestTheFirstCommandOfTheReadme runs the first"
	clusters   = "it needs clusters: the tests of the hub run its tutorial by kubectl on real API servers"
	migrations = "it needs a hub of KubeFleet: TestAFleetOfKubeFleetAndBack of hub/migrate goes the whole way on real API servers"
	databases  = "it needs a database: TestAStoreInADatabase and TestTheExampleOnPostgreSQL of the command run such engines"
	dumps      = "it needs a database: TestAStoreIsRestoredFromADump of backend/postgres runs the programs of PostgreSQL"
	etcd       = "it needs the programs of etcd, which the tests do not have"
	howTos     = "it needs a hub: TestTheHowTosOnAHub of the command runs the page on API servers"
	examples   = "the tests of the example run it"
	kinds      = "it needs Docker: the test of the page uses API servers instead, and the page says so"
	people     = "two people at two terminals: TestSecondTerminalApprovesAFollowedRun of the command does that"
)

// trimmed makes builds independent of the directory, so that all copies of the repository share
// the build cache.
const trimmed = "GOFLAGS=-trimpath"

var exitsWith = regexp.MustCompile(`exits with (\d+)`)

// Every block of sh is run, in a copy of the repository and with slipway on the PATH. Each that
// is not, is in the table with its reason.
func TestBlocksOfCommandsRun(t *testing.T) {
	left := map[string]bool{}
	for name := range shown {
		left[name] = true
	}
	var run []block
	var pages []page
	for _, b := range documents(t, "sh", "console") {
		delete(left, b.name())
		switch {
		case shown[b.name()] != "":
		case b.language == "console":
			t.Errorf("%s:%d: shows commands, and is not in the table of those that no test runs", b.file, b.line)
		case !strings.HasPrefix(b.file, "docs/tutorials/"):
			run = append(run, b)
		case len(pages) > 0 && pages[len(pages)-1].file() == b.file:
			pages[len(pages)-1] = append(pages[len(pages)-1], b)
		default:
			pages = append(pages, page{b})
		}
	}
	for name := range left {
		t.Errorf("shown: there is no such block: %s", name)
	}
	if len(run) == 0 && len(pages) == 0 {
		return
	}
	tools := t.TempDir()
	slipway := filepath.Join(tools, "slipway")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", slipway, ".")
	build.Dir = filepath.Join(root, "cmd", "slipway")
	build.Env = append(os.Environ(), trimmed)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Symlink(slipway, filepath.Join(tools, "kubectl-slipway")); err != nil { // the plugin of kubectl is the same program
		t.Fatal(err)
	}
	for _, p := range pages {
		t.Run(p.file(), func(t *testing.T) {
			t.Parallel()
			p.test(t, tools)
		})
	}
	for _, b := range run {
		t.Run(b.file+":"+strconv.Itoa(b.line), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "slipway")
			if err := os.CopyFS(dir, repository{os.DirFS(root)}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := b.run(ctx, dir, tools); err != nil {
				t.Error(err)
			}
		})
	}
}

// The first command of the README needs nothing but Go.
func TestTheFirstCommandOfTheReadme(t *testing.T) {
	first := documents(t, "sh")
	i := slices.IndexFunc(first, func(b block) bool { return b.file == "README.md" })
	line, _, _ := strings.Cut(first[i].text, "\n")
	dir := filepath.Join(t.TempDir(), "slipway")
	if err := os.CopyFS(dir, repository{os.DirFS(root)}); err != nil {
		t.Fatal(err)
	}
	b := block{text: line + "\n", output: "RunCompleted      example-run \nRunCompleted      example-run-2 \n"}
	if err := b.run(t.Context(), dir, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// run runs a block of sh in a directory, and compares its exit code and its output with the
// document.
func (b *block) run(ctx context.Context, dir, tools string) error {
	want := 0
	if m := exitsWith.FindStringSubmatch(b.text); m != nil {
		want, _ = strconv.Atoi(m[1])
	}
	out, code, err := bash(ctx, dir, tools, b.text)
	if err != nil || code != want {
		return fmt.Errorf("exit code %d, want %d: %w\n%s\n%s", code, want, err, b.text, out)
	}
	return b.compare(out)
}

// bash runs a script in a directory, and returns its output and its exit code. Processes that it
// leaves in the background are killed.
func bash(ctx context.Context, dir, tools, script string) (string, int, error) {
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", trimmed, "KUBECACHEDIR="+filepath.Join(tools, "kubecache"), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // background processes end with it
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	file, err := os.CreateTemp(dir, "output") // a pipe would be open for as long as something in the background is
	if err != nil {
		return "", 0, err
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	out, unread := os.ReadFile(file.Name())
	code := 0
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		code, err = exit.ExitCode(), nil
	}
	return string(out), code, errors.Join(err, unread, ctx.Err())
}

// compare reports the first line of the document that the output lacks after the lines before it.
// In a line of the document … stands for any text, such as a time.
func (b *block) compare(out string) error {
	rest := out
	for line := range strings.Lines(b.output) {
		parts := strings.Split(strings.TrimRight(line, "\n"), "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		at := regexp.MustCompile(strings.Join(parts, ".*?")).FindStringIndex(rest)
		if at == nil {
			return fmt.Errorf("the output lacks, after what is before it in the document: %s\n%s", line, out)
		}
		rest = rest[at[1]:]
	}
	return nil
}

func TestABlockIsHeldToItsExitCodeAndOutput(t *testing.T) {
	for text, c := range map[string]struct {
		output string
		holds  bool
	}{
		"echo a; echo b\n":               {"a\nb\n", true},
		"echo b; echo a\n":               {"a\nb\n", false},
		"echo a\n":                       {"b\n", false},
		"false\n":                        {"", false},
		"false; true\n":                  {"", false},
		"false | true\n":                 {"", false},
		"echo $nothing\n":                {"", false},
		"echo a 17 b; echo c\n":          {"a … b\nc\n", true},
		"echo a; echo b; echo c\n":       {"a … b\n", false},
		"echo a 1; echo b\n":             {"… 1\nb\n", true},
		"exit 3 # exits with 3: differs": {"", true},
		"true # exits with 3: differs":   {"", false},
		"sleep 1000 & echo a\n":          {"a\n", true},
		"sleep 1000\n":                   {"", false},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		b := block{text: text, output: c.output}
		if err := b.run(ctx, t.TempDir(), ""); (err == nil) != c.holds {
			t.Errorf("%q: %v, holds: %t", text, err, c.holds)
		}
		cancel()
	}
}

// repository is the tree without the directories of git and make.
type repository struct{ fs.FS }

// ReadDir leaves them out.
func (r repository) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(r.FS, name)
	var kept []fs.DirEntry
	for _, e := range entries {
		if name != "." || e.Name() != ".git" && e.Name() != "bin" {
			kept = append(kept, e)
		}
	}
	return kept, err
}
