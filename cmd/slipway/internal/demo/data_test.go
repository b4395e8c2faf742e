//go:build unix

package demo

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/target"
	"github.com/slipway-dev/slipway/stages"
)

// pause is how long timed waits last here.
const pause = 250 * time.Millisecond

// secondRun is in the line that says that the second run was created.
const secondRun = `"RunCreated","placement":"example-placement","run":"example-run-2"`

// playUntil plays the tutorial on a store, and stops when a text is printed. Nothing asks for
// approvals.
func playUntil(t *testing.T, store backend.Store, text string) *tutorial {
	t.Helper()
	docs := tutorialDocuments(t)
	ctx, cancel := context.WithCancel(t.Context())
	show := printerOf(&lineCanceler{text: text, cancel: cancel})
	(&flags{wait: pause}).shortenWaits(docs.Strategies, show)
	tut, err := newTutorial(ctx, docs, store, false, nil, &target.Measures{})
	if err != nil {
		t.Fatal(err)
	}
	tut.show = show
	if err := target.Drive(ctx, tut.engine, "", tut.play); ctx.Err() == nil {
		t.Errorf("ended before %s: %v", text, err)
	}
	return tut
}

// printerOf prints objects.
func printerOf(out io.Writer) *printer {
	return &printer{Options: &cli.Options{IOStreams: genericiooptions.IOStreams{Out: out}, Output: cli.JSON}}
}

// A process that is killed after it has answered does not know that it has.
func TestRepeatedAnswerIsIdempotent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.NewStore()
		tut := playUntil(t, store, "ApprovalRequested")
		open, err := tut.engine.Run("example-run").Requests(t.Context())
		if err != nil || len(open) != 1 {
			t.Fatalf("%v, %v", open, err)
		}
		for range 2 {
			if err := tut.decide(t.Context(), open[0], approval.Approve); err != nil {
				t.Fatal(err)
			}
		}
		tut = playUntil(t, store, secondRun)
		f, err := tut.engine.Follow("")
		if err != nil {
			t.Fatal(err)
		}
		var got []stages.EventType
		for e, err := range f.Past(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Run == "example-run" && (strings.HasPrefix(string(e.Type), "Approval") || e.Type == stages.CommandRefused) {
				got = append(got, e.Type)
			}
		}
		if diff := cmp.Diff([]stages.EventType{stages.ApprovalRequested, stages.ApprovalAccepted}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestADirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dir  func(dir string) string // the used path, in a directory with a store
		want string
	}{
		"a file": {func(dir string) string { return filepath.Join(dir, storeFile) }, "not a directory"},
		"a damaged store": {func(dir string) string {
			if err := os.WriteFile(filepath.Join(dir, storeFile), []byte(strings.Repeat("garbage ", 4096)), 0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "is not a store of Slipway"},
	} {
		dir := c.dir(begun(t))
		var out, errOut bytes.Buffer
		code := run(t.Context(), []string{"--data", dir}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		played{code, "", errOut.String()}.want(t, cli.ExitFailed, "error: --data "+dir+": ")
		if got := errOut.String(); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: printed %q and %q, want one line with %q", name, out.String(), got, c.want)
		}
	}
}

// begun returns a directory with a store.
func begun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	s, err := openStore(t.Context(), dir, nil)
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestADirectoryIsItsOwnersOnly(t *testing.T) {
	t.Parallel()
	dir := begun(t)
	for path, want := range map[string]os.FileMode{
		dir: 0o700 | os.ModeDir, filepath.Join(dir, storeFile): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}
