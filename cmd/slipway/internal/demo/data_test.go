//go:build unix

package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

// pause is how long timed waits last here.
const pause = 250 * time.Millisecond

// secondRun is in the line that says that the second run was created.
const secondRun = `"RunCreated","placement":"example-placement","run":"example-run-2"`

// playUntil plays the tutorial on what is kept, and stops when a text is
// printed.
func playUntil(t *testing.T, kept *data, text string, answer answerer) *tutorial {
	t.Helper()
	docs := tutorialDocuments(t)
	if err := (&flags{wait: pause}).shortenWaits(docs.Strategies, printer{json: true}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tut, err := newTutorial(ctx, docs, kept, printer{out: &lineCanceler{text: text, cancel: cancel}, json: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tut.ask = answer
	if err := tut.run(ctx); ctx.Err() == nil {
		t.Errorf("ended before %s: %v", text, err)
	}
	return tut
}

func inMemory(t *testing.T, docs kubefleet.Documents) *data {
	t.Helper()
	kept, err := openData(t.Context(), "", tutorialDigest(t))
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// atOnce approves.
func atOnce(context.Context, *stages.Plan, *approval.Request, func() (bool, error)) (approval.Verdict, error) {
	return approval.Approve, nil
}

// A process that is killed after it has answered does not know that it has.
func TestAnAnswerIsTheSameAnswerAgain(t *testing.T) {
	t.Parallel()
	docs := tutorialDocuments(t)
	synctest.Test(t, func(t *testing.T) {
		kept := inMemory(t, docs)
		tut := playUntil(t, kept, "ApprovalRequested", atOnce)
		for range 2 {
			clear(tut.asked)
			if err := tut.decide(t.Context(), "example-run"); err != nil {
				t.Fatal(err)
			}
		}
		tut = playUntil(t, kept, secondRun, atOnce)
		f, err := tut.engine.Follow("", "")
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

// What an earlier process answered may be taken in while the next one thinks
// about its answer.
func TestARequestThatIsAnsweredMeanwhile(t *testing.T) {
	t.Parallel()
	docs := tutorialDocuments(t)
	synctest.Test(t, func(t *testing.T) {
		kept := inMemory(t, docs)
		other, err := fleet.New(fleet.Config{Store: kept.engine, Inventory: memory.NewFleet(), Dialer: memory.NewFleet()})
		if err != nil {
			t.Fatal(err)
		}
		playUntil(t, kept, secondRun, func(ctx context.Context, _ *stages.Plan, r *approval.Request, isOpen func() (bool, error)) (approval.Verdict, error) {
			a := answerTo(r, approval.Approve)
			if a.ID, a.By.Name = "", "another"; r.Run != "example-run" {
				t.Errorf("%s is asked for", r.Name)
			}
			if err := other.Decide(ctx, "example-run", a); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second) // until it is taken in
			if open, err := isOpen(); err != nil || open {
				t.Errorf("it is open still: %t, %v", open, err)
			}
			return approval.Approve, nil
		})
	})
}

// begun returns a directory as it is when the tutorial has just begun, with
// another bookmark if there is one.
func begun(t *testing.T, other any) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	d, err := openData(t.Context(), dir, tutorialDigest(t))
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.engine.Put(t.Context(), "some/record", nil, "")
	if err == nil && other != nil {
		var b []byte
		if b, err = json.Marshal(other); err == nil {
			_, err = d.outside.Put(t.Context(), bookmarkKey, b, d.at)
		}
	}
	if err := errors.Join(err, d.close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestADirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	overwrite := func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("garbage ", 4096)), 0o600) }
	for name, c := range map[string]struct {
		bookmark any
		spoil    string // the file that is spoilt
		how      func(path string) error
		below    string // what of the directory is used
		want     string
	}{
		"a file":           {below: engineFile, want: "not a directory"},
		"damaged store":    {spoil: engineFile, how: overwrite, want: "damaged"},
		"damaged clusters": {spoil: outsideFile, how: overwrite, want: "damaged"},
		"no clusters":      {spoil: outsideFile, how: os.Remove, want: "slipway.db is there without the clusters.db that belongs to it"},
		"no store": {
			bookmark: bookmark{Files: tutorialDigest(t), Cursor: "behind something"}, spoil: engineFile, how: os.Remove,
			want: "clusters.db is there without the slipway.db that belongs to it",
		},
		"other than JSON": {bookmark: "what", want: bookmarkKey + ": json: "},
		"other files": {
			bookmark: bookmark{Files: "others"},
			want:     "it was begun with other YAML files: go on with those, or take a new directory",
		},
	} {
		dir := begun(t, c.bookmark)
		if c.how != nil {
			if err := c.how(filepath.Join(dir, c.spoil)); err != nil {
				t.Fatal(err)
			}
		}
		dir = filepath.Join(dir, c.below)
		var out, errOut bytes.Buffer
		code := run(t.Context(), []string{"--data", dir}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
		played{code, "", errOut.String()}.want(t, cli.ExitFailed, "error: --data "+dir+": ")
		if got := errOut.String(); !strings.Contains(got, c.want) || strings.Count(got, "\n") != 1 || out.Len() > 0 {
			t.Errorf("%s: printed %q and %q, want one line with %q", name, out.String(), got, c.want)
		}
	}
}

func TestADirectoryIsItsOwnersOnly(t *testing.T) {
	t.Parallel()
	dir := begun(t, nil)
	for path, want := range map[string]os.FileMode{
		dir: 0o700 | os.ModeDir, filepath.Join(dir, engineFile): 0o600, filepath.Join(dir, outsideFile): 0o600,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", path, info.Mode(), err, want)
		}
	}
}
