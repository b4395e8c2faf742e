package kubeenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a child whose output goes to a file. It ends with this process if the operating
// system supports this.
type process struct {
	name string // as in errors
	log  string // the path of the file, which keeps the output of predecessors
	cmd  *exec.Cmd
	from int64         // where in log this process began to write
	done chan struct{} // closed when it has ended
	err  error         // how it ended; read after done
}

// launch starts a program.
func launch(name, log, program string, args ...string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("kubeenv: log of %s: %w", name, err)
	}
	from, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("kubeenv: log of %s: %w", name, errors.Join(err, out.Close()))
	}
	p := &process{name: name, log: log, cmd: exec.Command(program, args...), from: from, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// A server of a test has little in its memory and is busy: to collect a quarter as often costs
	// nothing.
	p.cmd.Env = append(os.Environ(), "GOGC=400")
	tieToParent(p.cmd)
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("kubeenv: start %s: %w", name, errors.Join(err, out.Close()))
	}
	return p, out.Close()
}

// start starts the child from a thread that lives as long as the child: Linux takes the end of the
// thread, not of the process, for the end of the parent.
func (p *process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return <-started
}

// ended reports whether the child is no more.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the child at once and returns when it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kubeenv: kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// stop asks the child to end, and kills it when the context ends first.
func (p *process) stop(ctx context.Context) error {
	p.resume()
	if p.ended() {
		return nil
	}
	terminate(p.cmd.Process)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("kubeenv: %s did not stop: %w", p.name, ctx.Err()), p.kill())
	}
}

// A child is asked in intervals of pollEvery whether it is ready; the last tailBytes of its log
// are shown when it never is.
const (
	pollEvery = 50 * time.Millisecond
	tailBytes = 4 << 10
)

// await calls probe until it succeeds, the child ends or the context does.
func (p *process) await(ctx context.Context, probe func(context.Context) error) error {
	probing, cancel := p.whileAlive(ctx)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		err := probe(probing)
		if err == nil && p.ended() {
			err = errors.New("another process answers on its port")
		}
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("kubeenv: %s ended before it was ready (%w); the end of %s:\n%s", p.name, exit(p.err), p.log, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("kubeenv: %s is not ready (%w, last answer: %w); the end of %s:\n%s", p.name, ctx.Err(), err, p.log, p.tail())
		}
	}
}

// whileAlive returns a context that ends with the child too, for a probe that would wait for ever.
func (p *process) whileAlive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// exit returns the error of a child that ended, also for exit status 0.
func exit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// tail returns the last lines that the child wrote.
func (p *process) tail() []byte {
	b, err := p.wrote()
	if err != nil {
		return []byte(err.Error())
	}
	if len(b) > tailBytes {
		b = b[len(b)-tailBytes:]
		_, b, _ = bytes.Cut(b, []byte("\n"))
	}
	return b
}

// wrote returns the child's own output from its log, without the output of its predecessors.
func (p *process) wrote() ([]byte, error) {
	b, err := os.ReadFile(p.log)
	return b[min(p.from, int64(len(b))):], err
}

// addressTaken reports whether the child ended because its port was in use.
func (p *process) addressTaken() bool {
	b, err := p.wrote()
	return p.ended() && err == nil && bytes.Contains(b, []byte("address already in use"))
}
