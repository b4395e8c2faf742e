//go:build unix

package takeover

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/fleet"
)

// The environment variables that turn the test binary into an engine: its name and the socket of
// the server.
const (
	childName   = "SLIPWAY_CHILD_NAME"
	childSocket = "SLIPWAY_CHILD_SOCKET"
)

const (
	lease = 400 * time.Millisecond
	skew  = 40 * time.Millisecond
)

func TestMain(m *testing.M) {
	if name := os.Getenv(childName); name != "" {
		os.Exit(beEngine(name, os.Getenv(childSocket)))
	}
	if err := widen(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// widen sets -parallel, unless it is set, so that all pairs of processes run at the same time: they
// wait for leases more than they compute.
func widen() error {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return nil
	}
	return flag.Set("test.parallel", "6")
}

// beEngine drives runs until standard input ends, which happens when the test ends.
func beEngine(name, socket string) int {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	c := NewClient(socket, name)
	e, err := fleet.New(fleet.Config{
		Name: name, Store: c, Inventory: c, Dialer: c, Lease: lease, Skew: skew, Poll: 50 * time.Millisecond,
	})
	if err == nil {
		err = e.Start(ctx)
	}
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, name, err)
		return 1
	}
	return 0
}

// process is an engine in its own process.
type process struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
	dead bool
}

// spawn starts an engine. Its process group has no other member: if the test dies while the process
// is stopped, the system wakes it up and ends it.
func spawn(t *testing.T, name, socket string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childName+"="+name, childSocket+"="+socket)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	p := &process{name: name, cmd: cmd, in: in}
	t.Cleanup(p.kill)
	return p
}

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(p.cmd.Process.Pid, s) }

// kill ends the process in any state.
func (p *process) kill() {
	if p.dead {
		return
	}
	p.dead = true
	p.signal(syscall.SIGKILL)
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
