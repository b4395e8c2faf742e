// Command soak searches for what only time finds: it plays random scenarios on one
// directory, one after the other, and holds everything that happens to the laws
// of the engine.
//
//	go run ./internal/soak -for 24h
//
// A scenario is a fleet of up to 60 clusters and what happens to it: runs of
// random strategies that are queued, superseded, stopped, aborted, skipped,
// deleted, rolled back and caught up with, edits at the hub, clusters that
// leave, come back, change their labels and are made again, people who answer
// rightly and wrongly, members that are down, slow or refuse, a disk that is
// full for a while. Half of the scenarios are played in this process, with calls
// that fail, fail ambiguously, come late or hang; the others in child processes
// that are killed by SIGKILL, at random moments and right before or after a
// random write, or stopped for longer than a lease, so that time jumps for them.
// In every other scenario the clocks of the engines jump as well, in both kinds of
// process: forward and back, each for itself, by less than Config.Skew allows or
// by weeks. A clock that jumps forward ends waits, as package stages says, so how
// long one lasts by a right clock is not checked here; package fleet tests that.
// All the other laws hold whatever clocks show: what was applied, caps, gates,
// approvals, order, epochs, and that the time of a run never goes back.
//
// In the end of each scenario the faults cease and the clocks are right, every
// run has to end within a minute and a half, and everything is retired and
// deleted. The heap, the goroutines, the open descriptors and the files after
// compaction have to be where they were then. Of what a run had, nothing at all
// may be left in the engines' file, however often and wherever processes were
// killed, and no more of each placement than its last snapshots and events. One
// environment lasts for all scenarios.
//
// A violation is told with the seed and the number of the scenario, and how to
// play that one alone; the exit code is 1 then, and the directory stays. The same
// scenario is drawn then, but its timing and what earlier ones left in the files
// are not the same.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program. It ends early, and well, when ctx does.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	if len(args) > 0 && args[0] == "child" {
		return child(ctx, args[1:], out, errs)
	}
	s := &soaking{out: out}
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.SetOutput(errs)
	f.DurationVar(&s.lasts, "for", time.Hour, "how `long` to go on")
	f.Uint64Var(&s.seed, "seed", uint64(time.Now().UnixNano()), "the `seed` of all scenarios")
	f.IntVar(&s.number, "scenario", 0, "the `number` of the first scenario")
	f.IntVar(&s.count, "count", 0, "how many scenarios; 0 is no limit")
	f.IntVar(&s.most, "most", 60, "how many `clusters` a fleet has at most")
	f.IntVar(&s.engines, "engines", 2, "how many engines work in a process")
	f.StringVar(&s.dir, "dir", "", "the `directory` of the environment (default: a temporary one)")
	f.DurationVar(&s.every, "every", time.Minute, "how `often` a line is printed")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	if err := s.run(ctx); err != nil {
		_, _ = fmt.Fprintln(errs, "soak:", err)
		return 1
	}
	return 0
}
