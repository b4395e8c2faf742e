package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// The tutorial works on real clusters as it does on simulated ones: what kubectl does there and what the
// program does in the place of kubectl amc prints the same, with the tutorial's own files. While the workflow
// waits, the program ends, and another one goes on.
func TestTheTutorialOnAPIServers(t *testing.T) {
	w := newHubEnv(t, testCluster, prodCluster)
	stop := w.serve("-install")
	script, err := readTutorial("walk.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := printed(t, "testdata/walk.txt")
	for i, s := range readSteps(string(script)) {
		if strings.Contains(s.command, "workflow resume") {
			stop()
			stop = w.serve()
		}
		w.play(s, want[i])
	}
}

// hubEnv is a hub cluster with members, and the program that serves it.
type hubEnv struct {
	t       *testing.T
	kubectl string
	// files has the kubeconfigs hub.kubeconfig and members/NAME.kubeconfig, and the tutorial's files.
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
		path := filepath.Join("members", names[i]+".kubeconfig")
		if i == 0 {
			path = "hub.kubeconfig"
		}
		w.write(path, s.Kubeconfig())
		controllers.Go(func() { problems[i] = s.StartControllerManager(t.Context()) })
	}
	controllers.Wait()
	if err := errors.Join(problems...); err != nil {
		t.Fatal(err)
	}
	for _, name := range members {
		w.runPods(name)
	}
	w.copyTutorial()
	return w
}

func (w *hubEnv) write(path string, text []byte) {
	w.t.Helper()
	path = filepath.Join(w.files, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *hubEnv) copyTutorial() {
	w.t.Helper()
	entries, err := tutorial.ReadDir("tutorial")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		text, err := readTutorial(e.Name())
		if err != nil {
			w.t.Fatal(err)
		}
		w.write(e.Name(), text)
	}
}

// runPods stands for the nodes of a member, until the test ends: every Pod is ready as soon as it is there.
func (w *hubEnv) runPods(member string) {
	w.t.Helper()
	client, err := kubernetes.NewForConfig(w.servers[member].Config())
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	w.t.Cleanup(func() { stop(); group.Wait() })
	group.Go(func() {
		for ; ctx.Err() == nil; pause(ctx, 100*time.Millisecond) {
			pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, pod := range pods.Items {
				_ = runPod(ctx, client, &pod) // it is tried again
			}
		}
	})
}

// runPod makes a Pod ready, or ends one that is to go.
func runPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	pods := client.CoreV1().Pods(pod.Namespace)
	switch {
	case pod.DeletionTimestamp != nil:
		return pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	case pod.Status.Phase == corev1.PodRunning:
		return nil
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	_, err := pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// flags returns those that reach the servers.
func (w *hubEnv) flags() []string {
	return []string{"-kubeconfig", filepath.Join(w.files, "hub.kubeconfig"), "-members", filepath.Join(w.files, "members")}
}

// serve runs the program until it is stopped, at the latest by the end of the test, and waits for its members
// to be there.
func (w *hubEnv) serve(args ...string) (stop func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, append(w.flags(), args...), stdio{strings.NewReader(""), &out, &out}) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if code := <-ended; code != exitDone {
			w.t.Errorf("the program ended with %d", code)
		}
		w.t.Logf("the program printed:\n%s", out.String())
	})
	w.t.Cleanup(stop)
	w.eventually("the members", func() error {
		for name := range w.servers {
			if name == "hub" {
				continue
			}
			if out, code := w.run("kubectl wait --for=condition=ManagedClusterConditionAvailable --timeout=1s managedcluster/" + name); code != 0 {
				return errors.New(out)
			}
		}
		return nil
	})
	return stop
}

// run runs a command: those of kubectl amc are the program's.
func (w *hubEnv) run(command string) (out string, code int) {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	args := strings.Fields(command)[1:]
	if args[0] == "amc" {
		var b bytes.Buffer
		code := run(ctx, append(w.flags(), args...), stdio{strings.NewReader(""), &b, &b})
		return b.String(), code
	}
	cmd := exec.CommandContext(ctx, w.kubectl, args...)
	cmd.Dir = w.files
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(w.files, "hub.kubeconfig"), "HOME="+w.files)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// patience is how long anything may take, on a machine that does much else.
const patience = 3 * time.Minute

// eventually tries until there is no error, for as long as anything may take here.
func (w *hubEnv) eventually(what string, try func() error) {
	w.t.Helper()
	err := try()
	for deadline := time.Now().Add(patience); err != nil && time.Now().Before(deadline); err = try() {
		pause(w.t.Context(), 100*time.Millisecond)
	}
	if err != nil {
		state, _ := w.run("kubectl get app,managedclusters -A -o yaml")
		w.t.Fatalf("waiting for %s: %v\nthe hub has\n%s", what, err, state)
	}
}

// play gives a command of the tutorial. What only reads is tried until it prints what it should.
func (w *hubEnv) play(s step, want string) {
	w.t.Helper()
	try := func() error {
		got, code := w.run(s.command)
		if (code != 0) != s.fails {
			return fmt.Errorf("exit code %d: %s", code, got)
		}
		if d := cmp.Diff(words(want), words(steady(got))); d != "" {
			return fmt.Errorf("(-want +got)\n%s", d)
		}
		return nil
	}
	if strings.Contains(s.command, " get ") {
		w.eventually(s.command, try)
	} else if err := try(); err != nil {
		w.t.Fatalf("%s: %v", s.command, err)
	}
}

// words are the lines of an output in words: the width of a column depends on ages.
func words(text string) (out [][]string) {
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 0 {
			out = append(out, fields)
		}
	}
	return out
}

// printed reads what each command of a walk printed.
func printed(t *testing.T, path string) (outputs []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.HasPrefix(line, "$ "):
			outputs = append(outputs, "")
		case strings.HasPrefix(line, "# ") || line == "\n":
		default:
			outputs[len(outputs)-1] += line
		}
	}
	return outputs
}
