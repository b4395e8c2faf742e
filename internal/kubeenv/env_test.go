package kubeenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestCloseLeavesNoProcessAndNoDirectory(t *testing.T) {
	t.Parallel()
	e, err := Start(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.StartServer(t.Context(), "one", ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, at := range []string{strings.TrimPrefix(s.URL(), "https://"), strings.TrimPrefix(e.etcdURL, "http://")} {
		if c, err := net.Dial("tcp", at); err == nil {
			t.Errorf("%s still listens", at)
			_ = c.Close()
		}
	}
	if alive(s.Pid()) || alive(e.etcd.cmd.Process.Pid) {
		t.Error("a process is left")
	}
	if _, err := os.Stat(e.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory %s is left: %v", e.Dir(), err)
	}
	if _, err := e.StartServer(t.Context(), "two", ServerOptions{}); err == nil || !strings.Contains(err.Error(), "is closed") {
		t.Errorf("a closed environment starts a server: %v", err)
	}
}

// alive reports whether there is a process that is not only waited for.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	return err == nil && p.Signal(syscall.Signal(0)) == nil
}

// parentMark is set in a process that starts an environment and is killed.
const parentMark = "SLIPWAY_KUBEENV_PARENT"

// parent starts an etcd, prints its process and waits for the end.
func parent() int {
	e, err := Start(context.Background(), Options{Dir: os.Getenv(parentMark)})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(e.etcd.cmd.Process.Pid)
	select {}
}

func TestServersEndWithTheProcessThatStartedThem(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends the children of a process that is killed")
		return
	}
	c, dir := exec.Command(os.Args[0]), t.TempDir()
	c.Env = append(os.Environ(), parentMark+"="+dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line[:n])))
	if err != nil || !alive(pid) {
		t.Fatalf("no etcd: %s %v", line[:n], err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	eventually(t, "etcd is gone", func() bool { return !alive(pid) })
	if left := entries(t, dir); left != 1 {
		t.Errorf("the process left %d directories", left)
	}
	next, lock, err := newDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if left := entries(t, dir); left != 1 {
		t.Errorf("there are %d directories beside that of the next environment", left-1)
	}
	if sweep(dir); entries(t, dir) != 1 {
		t.Errorf("%s is removed though it is in use", next)
	}
}

func entries(t *testing.T, dir string) int {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

func TestAMissingProgramIsAnErrorThatSaysHowToBuildIt(t *testing.T) {
	none := t.TempDir()
	t.Setenv(assets, none)
	for _, c := range []struct {
		name, dir string
		says      []string
	}{
		{"in the module", fakeModule(t), []string{"no program etcd", none, "bin", "run make kube"}},
		{"outside", t.TempDir(), []string{"no program etcd", none, "run make kube"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(c.dir)
			_, err := Start(t.Context(), Options{Dir: none})
			for _, say := range c.says {
				if err == nil || !strings.Contains(err.Error(), say) {
					t.Errorf("the error %v does not say %q", err, say)
				}
			}
			if left := entries(t, none); left > 0 {
				t.Errorf("a start that failed left %d directories", left)
			}
		})
	}
}

func TestWithoutTheModuleTheDirectoryOfTheProgramsMustBeNamed(t *testing.T) {
	t.Setenv(assets, "")
	t.Chdir(t.TempDir())
	if _, err := Binary("etcd"); err == nil || !strings.Contains(err.Error(), "set "+assets) {
		t.Errorf("the error is %v", err)
	}
}

func TestProgramsAreTakenFromTheNamedDirectoryFirstAndThenFromBin(t *testing.T) {
	root, named := fakeModule(t), t.TempDir()
	for _, file := range []string{filepath.Join(named, "etcd"), filepath.Join(root, "bin", "etcd"), filepath.Join(root, "bin", "kubectl")} {
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(assets, named)
	t.Chdir(filepath.Join(root, "nested"))
	for name, want := range map[string]string{"etcd": named, "kubectl": filepath.Join(root, "bin")} {
		got, err := Binary(name)
		if err != nil || filepath.Base(filepath.Dir(got)) != filepath.Base(want) {
			t.Errorf("%s is %s, want it in %s: %v", name, got, want, err)
		}
	}
}

// fakeModule is a directory that has the name of the root module, an empty bin and a module inside.
func fakeModule(t *testing.T) string {
	root := t.TempDir()
	for _, dir := range []string{"bin", "nested"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for file, module := range map[string]string{"go.mod": rootModule, "nested/go.mod": rootModule + "/nested"} {
		if err := os.WriteFile(filepath.Join(root, file), []byte("module "+module+"\n\ngo 1.26.0\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestAServerThatDoesNotStartShowsTheEndOfItsLog(t *testing.T) {
	t.Parallel()
	_, err := clusters.Env(t).StartServer(t.Context(), "wrong", ServerOptions{Args: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("the error is %v", err)
	}
}

func TestANameIsALabelAndTakenOnce(t *testing.T) {
	t.Parallel()
	e := clusters.Env(t)
	clusters.Server(t, "one")
	for name, says := range map[string]string{"one": "there is a server", "../x": "no DNS label", "": "no DNS label"} {
		if _, err := e.StartServer(t.Context(), name, ServerOptions{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: the error is %v", name, err)
		}
	}
}

func TestOccupiedPortIsSkipped(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", address(0))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, lock, err := newDirectory(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{dir: dir, lock: lock, timeout: defaultStartTimeout}
	ports := 0
	e.freePort = func() (int, error) {
		if ports++; ports == 1 {
			return l.Addr().(*net.TCPAddr).Port, nil
		}
		return freePort()
	}
	if err := e.startEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil || ports != 4 {
		t.Errorf("%d ports were asked for: %v", ports, err)
	}
}

func TestAContextThatEndsEndsTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Options{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if left := entries(t, dir); left > 0 {
		t.Errorf("a start that failed left %d directories", left)
	}
}

func TestAProgramThatDoesNotStopInTimeIsKilled(t *testing.T) {
	t.Parallel()
	p := ForTest(t).etcd
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.stop(ctx); !errors.Is(err, context.Canceled) || alive(p.cmd.Process.Pid) {
		t.Errorf("the error is %v", err)
	}
}

func TestASharedEnvironmentThatNothingEndsFailsTheTest(t *testing.T) {
	t.Parallel()
	var s Shared
	failed := &failing{TB: t}
	func() {
		defer func() { _ = recover() }()
		s.Env(failed)
	}()
	if !strings.Contains(failed.said, "call its Run in TestMain") {
		t.Errorf("it says %q", failed.said)
	}
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatal(args ...any) {
	f.said = fmt.Sprint(args...)
	panic(f.said)
}
