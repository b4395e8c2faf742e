//go:build unix

package hub_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/hub"
)

// lease is how long a killed hub in its own process still holds the lead.
const lease = time.Second

// child is a hub in its own process.
type child struct {
	name string
	cmd  *exec.Cmd
	in   io.Closer
	over bool
}

// spawn starts a hub in its own process. Its process group has no other member: if the test dies
// while the child is stopped, the system wakes the child and ends it.
func (w *hubEnv) spawn(name string, elect bool) *child {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+w.orders(name, elect))
	log, err := os.Create(filepath.Join(w.files, name+".log"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	c := &child{name: name, cmd: cmd, in: in}
	w.t.Cleanup(func() {
		c.kill()
		text, _ := os.ReadFile(log.Name())
		for line := range strings.Lines(string(text)) {
			// these hubs are killed and paused, and may warn of what another hub did since
			if strings.Contains(line, " warnings.go:") || strings.Contains(line, "forbidden") {
				_, _ = w.logged.Write([]byte(line))
			}
		}
		if w.t.Failed() {
			w.t.Logf("hub %s wrote:\n%s", name, text)
		}
	})
	return c
}

// orders writes the parameters of a child and returns the file.
func (w *hubEnv) orders(name string, elect bool) string {
	w.t.Helper()
	if w.files == "" {
		w.files = w.t.TempDir()
		kubeconfig, err := w.server.KubeconfigForAccount(w.t.Context(), w.name+"-hub", "slipway-hub")
		if err != nil {
			w.t.Fatal(err)
		}
		w.write("hub.kubeconfig", kubeconfig)
		for _, m := range w.members {
			w.write(filepath.Join("members", m.name+".kubeconfig"), m.server.Kubeconfig())
		}
	}
	text, err := json.Marshal(orders{
		Name: name, Namespace: w.name + "-hub", Kubeconfig: filepath.Join(w.files, "hub.kubeconfig"),
		Members: filepath.Join(w.files, "members"), Lease: lease, Elect: elect,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.write(name+".json", text)
}

func (w *hubEnv) write(name string, text []byte) string {
	w.t.Helper()
	path := filepath.Join(w.files, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// kill ends a child at once.
func (c *child) kill() {
	if c.over {
		return
	}
	c.over = true
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	_ = c.in.Close()
}

func (c *child) freeze() { _ = c.cmd.Process.Signal(syscall.SIGSTOP) }
func (c *child) wake()   { _ = c.cmd.Process.Signal(syscall.SIGCONT) }

// A hub is killed again and again at random times, from a seed, and replaced by another one each
// time. The result is the same as with a hub that is never killed.
func TestAHubIsKilledAtRandomPoints(t *testing.T) {
	t.Parallel()
	kills := 10
	if soaks() {
		kills = 1000
	}
	w := newHubEnv(t, 3)
	p := &crashScenario{hubEnv: w}
	p.begin()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.killing(kills, rand.New(rand.NewPCG(1, 2)))
	}()
	for over := false; !over; {
		p.round()
		select {
		case <-done:
			over = true
		default:
		}
	}
	<-done
	p.round()
	p.verify()
}

// killing starts hubs one after the other, and kills all but the last.
func (w *hubEnv) killing(kills int, dice *rand.Rand) {
	for i := range kills {
		c := w.spawn(fmt.Sprintf("k%d", i), false)
		select {
		case <-w.t.Context().Done():
			return
		case <-time.After(time.Duration(200+dice.IntN(3000)) * time.Millisecond):
		}
		c.kill()
	}
	w.spawn("last", false)
}

// crashScenario plays rounds of user actions: change the placed objects, roll them out with a run,
// and approve it.
type crashScenario struct {
	*hubEnv
	values []string
	runs   []string
}

func (p *crashScenario) begin() {
	p.t.Helper()
	p.place("v0")
	p.staged("Approval")
	p.patch("crp", p.name, `{"spec":{"revisionHistoryLimit":1000}}`)
	p.values = []string{"v0"}
}

// round plays one round to its end.
func (p *crashScenario) round() {
	p.t.Helper()
	n := len(p.runs)
	if n > 0 {
		p.values = append(p.values, fmt.Sprintf("v%d", n))
		p.change(p.values[n])
	}
	run := fmt.Sprintf("%s-%d", p.name, n)
	p.runs = append(p.runs, run)
	p.run(run, "")
	p.asked(run)
	p.approve(run + "-canary")
	p.await("csur", run, "Succeeded", "True")
}

// verify fails the test if a law does not hold. A hub of this process reads the records of the
// engines.
func (p *crashScenario) verify() {
	p.t.Helper()
	p.eventually("all members to have it", func() error { return p.allHold(p.values[len(p.values)-1]) })
	h, err := hub.New(p.config("reader"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.laws(h.Engine(), p.values, p.runs...)
}
