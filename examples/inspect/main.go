// Command inspect shows what is in a file of package backend/bolt, while
// nothing has it open for writing: several may inspect it at the same time.
//
//	inspect FILE                     the file, placements with snapshots, runs
//	inspect FILE runs                runs with state, stage, progress, engine
//	inspect FILE run NAME            one run: stages, what it waits for, approvals
//	inspect FILE plans               plans and the runs that carry them out
//	inspect FILE plan DIGEST|RUN     one plan with its clusters
//	inspect FILE journals            journals, whose they are and how long
//	inspect FILE events              what happened, in the order of time
//	inspect FILE leases              which engine holds which run
//	inspect FILE records             keys and sizes of what is stored
//	inspect FILE record KEY          one record as it is stored
//	inspect FILE backup TO           a copy of the file, in a new file
//
// Flags may stand anywhere. With -run and -placement the lists have only what
// belongs to that run or placement; a plan is named by its digest or the
// beginning of it, if no other plan begins so. Times are in UTC.
//
// Text is made for 80 columns. With -o json every line is one JSON object, and
// nothing else is printed: the overview, run, plan, record and backup are one
// object, a list is one for each element. Events are the engine's own
// [stages.Event] values. What cannot be read is an object with an "error".
//
// # What it does not do
//
// It never writes to FILE: for all but a backup, which writes to TO and refuses
// one that exists, the disk stays as it is. Compaction needs the file for
// writing and is a call of the library, Store.Compact.
//
// Objects that are rolled out may be Secrets, and overrides may carry what is
// in them. So the records under content/ and placement/, which hold those, are
// not shown unless asked for with -reveal. A backup has everything.
//
// # When something is wrong
//
// A file that is in use, damaged or of a newer version is not shown at all. A
// record in it that is damaged or newer is shown as such, and the others are
// shown nevertheless.
//
// The exit code is 0 when everything could be read, 1 when the file, or
// something in it that was to be shown, could not, and 2 for a command line
// that is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/slipway-dev/slipway/backend/bolt"
)

// The exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	l, err := parse(args)
	switch {
	case errors.Is(err, errHelp):
		usage(out)
		return exitDone
	case err != nil:
		fmt.Fprintf(errOut, "inspect: %s\n(inspect -h tells more)\n", clean(err.Error()))
		return exitUsage
	}
	if err := show(ctx, l, out); err != nil {
		fmt.Fprintln(errOut, "inspect:", clean(strings.ReplaceAll(err.Error(), "\n", "; ")))
		return exitFailed
	}
	return exitDone
}

// show opens the file and does what the line says.
func show(ctx context.Context, l line, out io.Writer) (err error) {
	s, err := bolt.Open(l.file, bolt.Options{ReadOnly: true})
	if err != nil {
		return explained(err)
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	v, err := newView(l, s, out)
	if err != nil {
		return err
	}
	if err := l.command.do(ctx, v); err != nil {
		return err
	}
	return v.trouble()
}

// explained says what can be done about a file that cannot be opened.
func explained(err error) error {
	switch {
	case errors.Is(err, bolt.ErrInUse):
		return fmt.Errorf("%w: it can be inspected when that has closed it", err)
	case errors.Is(err, bolt.ErrDamaged):
		return fmt.Errorf("%w: nothing of it is shown; a backup may be whole", err)
	case errors.Is(err, bolt.ErrNewer):
		return fmt.Errorf("%w: inspect it with that version", err)
	}
	return err
}
