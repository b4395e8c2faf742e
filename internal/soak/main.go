// Command soak searches for rare faults: it plays random scenarios on one directory, one after
// the other, and checks all of them against the laws of the engine.
//
//	go run ./internal/soak -for 24h
//
// A scenario is a fleet of up to 60 clusters and its events. Runs with random strategies are
// queued, superseded, stopped, aborted, skipped, deleted, rolled back and caught up with. Objects
// at the hub change; clusters leave, return, change their labels and are created again; people
// give right and wrong answers; members are down, slow or refuse requests; the disk is full for
// some time. Half of the scenarios run in this process, with calls that fail, fail ambiguously,
// come late or hang. The others run in child processes that are killed by SIGKILL, at random
// moments and right before or after a random write, or stopped for longer than a lease, so that
// time jumps for them.
//
// In every other scenario the clocks of the engines jump as well, in both kinds of process:
// forward and back, independently of each other, by less than Config.Skew allows or by weeks. A
// clock that jumps forward ends waits, as package stages documents, so the scenarios do not check
// the length of waits; package fleet tests it. All other laws hold for every clock: applied
// contents, caps, gates, approvals, order and epochs, and the time of a run never goes back.
//
// At the end of each scenario the faults end and the clocks are right, every run must end within a
// minute and a half, and everything is retired and deleted. The heap, the goroutines, the open
// descriptors and the files after compaction must return to their initial sizes. However often
// processes were killed, the engines' file must contain no record of a deleted run, and only the
// last snapshots and events of each placement. One environment lasts for all scenarios.
//
// The report of a violation contains the seed and the number of the scenario, and the command
// that plays this scenario alone; the exit code is 1 then, and the directory stays. A replay
// generates the same scenario, but its timing and the remains of earlier scenarios in the files
// differ.
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
