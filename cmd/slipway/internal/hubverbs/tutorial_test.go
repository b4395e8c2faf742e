package hubverbs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// The tutorial works as printed by default: every command in its order, every table, and every
// field of the shown YAML, on a hub and three members. It waits a minute for each of its two
// runs.
func TestTheTutorialByKubectl(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t, "member1", "member2", "member3")
	w.start("--lease", "3s")
	w.play("testdata/tutorial", "script.txt")
}

// The installation lists each installed object; a second installation has nothing to do.
func TestInstallIsIdempotent(t *testing.T) {
	t.Parallel()
	w := newHubEnv(t)
	first := w.install()
	for _, want := range []string{
		"CustomResourceDefinition clusterstagedupdateruns.placement.kubernetes-fleet.io Created\n", "ClusterRole slipway-approver Created\n",
		"ServiceAccount slipway-system/slipway-hub Created\n",
	} {
		if !strings.Contains(first, want) {
			t.Errorf("no %q in\n%s", want, first)
		}
	}
	for line := range strings.Lines(w.install()) {
		if !strings.HasSuffix(line, " Unchanged\n") {
			t.Errorf("the second time: %s", line)
		}
	}
}

// warned contains the warnings of API servers to the program.
var warned kubeenv.Warnings

// TestMain fails if an API server warns the program of anything.
func TestMain(m *testing.M) {
	rest.SetDefaultWarningHandler(&warned)
	code := m.Run()
	if said := warned.Take(); len(said) > 0 {
		fmt.Fprintf(os.Stderr, "API servers warn the program: %q\n", said)
		code = cmp.Or(code, 1)
	}
	os.Exit(code)
}

// hubEnv is a hub cluster with members, and the program that serves it.
type hubEnv struct {
	t       *testing.T
	kubectl string
	// files has the kubeconfigs: hub.kubeconfig, and members/NAME.kubeconfig.
	files   string
	servers map[string]*kubeenv.Server
}

func newHubEnv(t *testing.T, members ...string) *hubEnv {
	t.Helper()
	kubectl, err := kubeenv.Binary("kubectl")
	if err != nil {
		t.Fatal(err)
	}
	w := &hubEnv{t: t, kubectl: kubectl, files: t.TempDir(), servers: map[string]*kubeenv.Server{}}
	names := append([]string{"hub"}, members...)
	problems := make([]error, len(names))
	var controllers sync.WaitGroup
	for i, s := range kubeenv.ForTest(t).Servers(t, names...) {
		w.servers[names[i]] = s
		write(t, w.kubeconfig(names[i]), s.Kubeconfig())
		controllers.Go(func() { problems[i] = s.StartControllerManager(t.Context()) })
	}
	controllers.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *hubEnv) kubeconfig(cluster string) string {
	if cluster == "hub" {
		return filepath.Join(w.files, "hub.kubeconfig")
	}
	return filepath.Join(w.files, "members", cluster+".kubeconfig")
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// install sets the hub cluster up.
func (w *hubEnv) install(args ...string) string {
	w.t.Helper()
	var out, errOut bytes.Buffer
	args = append([]string{"hub", "install", "--kubeconfig", w.kubeconfig("hub")}, args...)
	if code := run(w.t.Context(), args, &out, &errOut); code != cli.ExitDone {
		w.t.Fatalf("%s ended with %d:\n%s%s", strings.Join(args, " "), code, out.String(), errOut.String())
	}
	return out.String()
}

// start sets the hub cluster up and serves it.
func (w *hubEnv) start(args ...string) {
	w.t.Helper()
	w.install()
	w.serve(args...)
}

// serve runs the hub until the test ends, with the rights of the installed account, and waits for
// its members to be registered.
func (w *hubEnv) serve(args ...string) {
	w.t.Helper()
	w.begin(args...)
	w.eventually("the members to be registered", func() error {
		for name := range w.servers {
			if name == "hub" {
				continue
			}
			if _, err := w.run("hub", ".", "get", "membercluster", name); err != nil {
				return err
			}
		}
		return nil
	})
}

// begin runs the hub with the rights of the installed account until stop is called or the test
// ends.
func (w *hubEnv) begin(args ...string) (out *output, stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out = new(output)
	ended := make(chan int, 1)
	account, err := w.servers["hub"].KubeconfigForAccount(w.t.Context(), "slipway-system", "slipway-hub")
	if err != nil {
		w.t.Fatal(err)
	}
	ofAccount := filepath.Join(w.files, "account.kubeconfig")
	write(w.t, ofAccount, account)
	args = append([]string{"hub", "--kubeconfig", ofAccount, "--members", filepath.Join(w.files, "members"), "--listen", ""}, args...)
	logged := kubeenv.NewLogged(w.t)
	logged.May("a member is not registered, because its kubeconfig cannot be used") // a test breaks one
	go func() { ended <- run(ctx, args, out, io.MultiWriter(out, logged)) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != cli.ExitDone {
			w.t.Errorf("the hub ended with %d", code)
		}
		w.t.Logf("the hub printed:\n%s", out.String())
	})
	w.t.Cleanup(stop)
	return out, stop
}

// output collects the output of the program from several goroutines.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run runs kubectl against a cluster, in a directory.
func (w *hubEnv) run(cluster, dir string, args ...string) (string, error) {
	return w.execute(cluster, dir, w.kubectl, args...)
}

// execute runs a program with kubectl in its path and a kubeconfig for a cluster.
func (w *hubEnv) execute(cluster, dir, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "KUBECONFIG="+w.kubeconfig(cluster), "HOME="+w.files, "KUBE_EDITOR=sed -i s/value1/value2/",
		"PATH="+filepath.Dir(w.kubectl)+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// patience is how long anything may take, on a machine that does much else.
const patience = 6 * time.Minute

// eventually tries until there is no error, for as long as anything may take here.
func (w *hubEnv) eventually(what string, try func() error) {
	w.t.Helper()
	err := try()
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); err = try() {
		select {
		case <-w.t.Context().Done():
			w.t.Fatal(w.t.Context().Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
	if err != nil {
		state, _ := w.run("hub", ".", "get", "csur,crp,clusterapprovalrequest,membercluster", "-o", "yaml")
		w.t.Fatalf("waiting for %s: %v\nthe hub has\n%s", what, err, state)
	}
}

// step is a command of a script with its expected output.
type step struct {
	line             int
	cluster, command string
	want             string
	// file, if it is not empty, contains the expected output of the command as YAML.
	file string
}

// readScript reads a script of commands for a shell. Lines that begin with # are comments.
func readScript(t *testing.T, path string) (steps []step) {
	t.Helper()
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`^(?:@([\w-]+) )?\$ (.*)$`)
	lines := strings.Split(string(script), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		m := command.FindStringSubmatch(line)
		switch {
		case m != nil:
			s := step{line: i + 1, cluster: cmp.Or(m[1], "hub"), command: m[2]}
			for strings.HasSuffix(lines[i], `\`) {
				i++
				s.command += "\n" + lines[i]
			}
			for open := strings.Contains(line, "<< EOF"); open; open = lines[i] != "EOF" {
				i++
				s.command += "\n" + lines[i]
			}
			steps = append(steps, s)
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "> "):
			steps[len(steps)-1].file = strings.TrimPrefix(line, "> ")
		default:
			steps[len(steps)-1].want += line + "\n"
		}
	}
	return steps
}

// play runs a script in a copy of its directory. It repeats commands that only read until they
// print the expected output.
func (w *hubEnv) play(from, name string) {
	w.t.Helper()
	dir := filepath.Join(w.t.TempDir(), "script")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		w.t.Fatal(err)
	}
	begun := time.Now()
	for _, s := range readScript(w.t, filepath.Join(dir, name)) {
		what := fmt.Sprintf("%s:%d: %s", name, s.line, s.command)
		try := func() error {
			got, err := w.execute(s.cluster, dir, "bash", "-c", s.command)
			if err != nil {
				return err
			}
			return s.check(dir, got)
		}
		if strings.HasPrefix(s.command, "kubectl get ") {
			w.eventually(what, try)
		} else if err := try(); err != nil {
			w.t.Fatalf("%s: %v", what, err)
		}
		w.t.Logf("%6.1fs %s", time.Since(begun).Seconds(), strings.SplitN(what, "\n", 2)[0])
	}
}

func (s *step) check(dir, got string) error {
	if s.file != "" {
		return contains(filepath.Join(dir, s.file), got)
	}
	if d := gocmp.Diff(words(s.want), words(got)); d != "" {
		return fmt.Errorf("(-want +got)\n%s", d)
	}
	return nil
}

// words are the lines of an output in words, with ages that are AGE: the width of a column
// depends on them.
func words(text string) (out [][]string) {
	age := regexp.MustCompile(`^(\d+[smhd])+$`)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		for i, f := range fields {
			if age.MatchString(f) {
				fields[i] = "AGE"
			}
		}
		if len(fields) > 0 {
			out = append(out, fields)
		}
	}
	return out
}

// contains says where YAML differs from a file.
func contains(file, got string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var want, have any
	if err := yaml.Unmarshal(text, &want); err != nil {
		return err
	}
	if err := yaml.Unmarshal([]byte(got), &have); err != nil {
		return err
	}
	if missing := differs("", want, have); len(missing) > 0 {
		return fmt.Errorf("%s:\n%s", filepath.Base(file), strings.Join(missing, "\n"))
	}
	return nil
}

// ours matches the additional fields of the hub, some of which are in newer versions of the
// documents.
var ours = regexp.MustCompile(`^(\.status\.(summary|observedEvents|clusterCounts|planDigest|startedBy|resourceSnapshotIndexUsed|appliedStrategy)` +
	`|\.status\.(stagesStatus\[\d+\]|deletionStageStatus)\.(clusterCounts|conditions|endTime|startTime)` +
	`|\.status\.stagedUpdateStrategySnapshot\.stages\[\d+\]\.maxConcurrency)$`)

// differs lists the differences between want and have. An object with the key "..." may have any
// other field, and every object may have the fields of ours.
func differs(at string, want, have any) (out []string) {
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is %v, not an object", at, have)}
		}
		for k, v := range w {
			if k != "..." {
				out = append(out, differs(at+"."+k, v, h[k])...)
			}
		}
		for k, v := range h {
			if _, ok := w[k]; !ok && w["..."] == nil && !ours.MatchString(at+"."+k) {
				out = append(out, fmt.Sprintf("%s is %#v, and not in the document", at+"."+k, v))
			}
		}
	case []any:
		h, ok := have.([]any)
		if !ok || len(h) != len(w) {
			return []string{fmt.Sprintf("%s is %v, not a list of %d", at, have, len(w))}
		}
		for i := range w {
			out = append(out, differs(fmt.Sprintf("%s[%d]", at, i), w[i], h[i])...)
		}
	case string:
		if !matches(w, have) {
			out = append(out, fmt.Sprintf("%s is %#v, not %q", at, have, w))
		}
	default:
		if !gocmp.Equal(want, have) {
			out = append(out, fmt.Sprintf("%s is %#v, not %#v", at, have, want))
		}
	}
	return out
}

// matches compares a text; TIME, UID, HASH, VERSION and MARK are anything of their form.
func matches(want string, have any) bool {
	got, ok := have.(string)
	form := map[string]string{
		"TIME": `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, "UID": `^[0-9a-f-]{36}$`, "HASH": `^[0-9a-f]{64}$`, "VERSION": `^\d+$`, "MARK": `^\d+\.\d+\.[0-9a-f-]{36}$`,
	}[want]
	if form == "" {
		return ok && got == want
	}
	return ok && regexp.MustCompile(form).MatchString(got)
}
