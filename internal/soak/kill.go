package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"time"

	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/internal/soak/laws"
)

// killer plays a script in children and kills them, until one of them completes the script.
type killer struct {
	life
	rand *rand.Rand
	// within is the time after its start in which a child is killed, writes the number of its
	// writes.
	within time.Duration
	writes int
	// pauses makes it stop a child for a while now and then instead of killing
	// it: for the child time jumps.
	pauses bool
	// limit is the maximum number of kills; after that a child may complete the script.
	kills, pausesDone int
	limit             int
	// checked is called after every kill.
	checked func() error
}

// run plays the script. The error matches laws.ErrViolated when a law was violated.
func (k *killer) run(ctx context.Context) error {
	for {
		killed, err := k.once(ctx)
		if err != nil || !killed {
			return err
		}
		k.kills++
		if k.checked != nil {
			if err := k.checked(); err != nil {
				return err
			}
		}
	}
}

// childMost is the maximum life of a child. A child beyond it prints its goroutines.
const childMost = 3 * time.Minute

// once starts a child and kills it unless it completes earlier.
func (k *killer) once(ctx context.Context) (killed bool, err error) {
	l, byTime := k.life, k.kills >= k.limit || k.rand.IntN(2) == 0
	l.nth = k.kills
	if !byTime {
		l.dieAt, l.after = 1+k.rand.Int64N(int64(k.writes)), k.rand.IntN(2) == 0
	}
	limited, cancel := context.WithTimeout(ctx, childMost)
	defer cancel()
	cmd := exec.CommandContext(limited, os.Args[0], l.args()...)
	cmd.Cancel = func() error { return dump(cmd.Process) }
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return false, err
	}
	stop := func() {}
	if _, err := io.ReadFull(out, make([]byte, len(readyLine))); err == nil && byTime {
		stop = k.later(cmd.Process)
	}
	_, _ = io.Copy(io.Discard, out)
	err = cmd.Wait()
	stop()
	return verdict(ctx, cmd.ProcessState, said.String(), err)
}

// later kills or pauses a process in a while.
func (k *killer) later(p *os.Process) (stop func()) {
	after := time.Duration(k.rand.Int64N(int64(k.within)))
	pause, asleep := k.pauses && k.rand.IntN(3) == 0, time.Duration(0)
	if pause {
		asleep = time.Duration(k.rand.Int64N(int64(soakLease * 3 / 2)))
		k.pausesDone++
	}
	spared := k.kills >= k.limit
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if !wait(done, after) {
			return
		}
		if pause {
			freeze(p)
			wait(done, asleep)
			thaw(p)
			if !wait(done, after) {
				return
			}
		}
		if !spared {
			_ = p.Kill()
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// wait waits for d, and reports whether that came before done.
func wait(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return false
	case <-t.C:
		return true
	}
}

// verdict says how a child ended.
func verdict(ctx context.Context, state *os.ProcessState, said string, err error) (killed bool, _ error) {
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err == nil:
		return false, nil
	case !errors.As(err, &exit):
		return false, err
	case state.ExitCode() == exitBroken:
		return false, fmt.Errorf("%w, in a child:\n%s", laws.ErrViolated, said)
	case state.ExitCode() >= 0:
		return false, fmt.Errorf("a child ended with %d:\n%s", state.ExitCode(), said)
	}
	return true, nil
}

// inspect opens the files of a killed process, and checks them against the laws. It does not
// continue the script.
func (k *killer) inspect(ctx context.Context, more func(*environment.Environment) error) (err error) {
	l := k.life
	l.dieAt = 0
	env, err := environment.Open(ctx, l.setup())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	if err := env.Provision(ctx, l.script().clusters); err != nil {
		return err
	}
	if err := env.Check(ctx); err != nil {
		return err
	}
	if err := env.CheckAudit(ctx); err != nil {
		return err
	}
	if more != nil {
		if err := more(env); err != nil {
			return err
		}
	}
	return env.Violations.Err()
}
