package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/slipway-dev/slipway/internal/soak/environment"
	"github.com/slipway-dev/slipway/internal/soak/laws"
)

// The exit codes of a child.
const (
	exitOver   = 0
	exitError  = 1
	exitBroken = 3
)

// readyLine is the output of a child after it has opened all files.
const readyLine = "ready\n"

// life contains the parameters of a child: its directory, its script and the write at which it
// ends.
type life struct {
	dir      string
	engines  int
	seed     uint64
	scenario int
	most     int
	dieAt    int64
	after    bool
	nth      int
}

func (l *life) flags(f *flag.FlagSet) {
	f.StringVar(&l.dir, "dir", "", "the `directory` of the environment")
	f.IntVar(&l.engines, "engines", 1, "how many engines work")
	f.Uint64Var(&l.seed, "seed", 0, "the `seed` of the scenarios")
	f.IntVar(&l.scenario, "scenario", -1, "which scenario of the seed; -1 is the story")
	f.IntVar(&l.most, "most", 60, "how many `clusters` a scenario may have")
	f.Int64Var(&l.dieAt, "die", 0, "the write at which the process kills itself; 0 is none")
	f.BoolVar(&l.after, "after", false, "let that write happen before")
	f.IntVar(&l.nth, "nth", 0, "which process of the script this is")
}

// args returns the arguments of a child; its flags read them.
func (l *life) args() []string {
	return []string{
		"child", "-dir=" + l.dir, fmt.Sprint("-engines=", l.engines), fmt.Sprint("-seed=", l.seed),
		fmt.Sprint("-scenario=", l.scenario), fmt.Sprint("-most=", l.most), fmt.Sprint("-die=", l.dieAt), fmt.Sprint("-after=", l.after), fmt.Sprint("-nth=", l.nth),
	}
}

// script returns the script of the child.
func (l *life) script() script {
	if l.scenario < 0 {
		return story()
	}
	s := newScenario(l.seed, l.scenario, l.most)
	s.process = l.nth
	return s.script()
}

// setup returns how the environment is opened.
func (l *life) setup() environment.Options {
	s := environment.Options{Dir: l.dir, Engines: l.engines, Meter: &environment.Meter{DieAt: l.dieAt, DieAfter: l.after}}
	if l.scenario >= 0 {
		s.Lease = soakLease
	}
	return s
}

// soakLease is the lease of the engines of random scenarios: short, so that a
// process which was paused wakes up without it.
const soakLease = 3 * time.Second

// child is a process that plays a script as far as it comes.
func child(ctx context.Context, args []string, out, errs io.Writer) int {
	var l life
	f := flag.NewFlagSet("child", flag.ContinueOnError)
	f.SetOutput(errs)
	l.flags(f)
	if err := f.Parse(args); err != nil {
		return exitError
	}
	err := l.live(ctx, func() { _, _ = io.WriteString(out, readyLine) })
	switch {
	case errors.Is(err, laws.ErrViolated):
		_, _ = fmt.Fprintln(errs, err)
		return exitBroken
	case err != nil:
		_, _ = fmt.Fprintln(errs, err)
		return exitError
	}
	return exitOver
}

func (l *life) live(ctx context.Context, ready func()) error {
	env, err := environment.Open(ctx, l.setup())
	if err != nil {
		return err
	}
	return errors.Join(l.script().play(ctx, env, ready), env.Close())
}
