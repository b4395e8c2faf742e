//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// pause is how long timed waits last here.
const pause = 250 * time.Millisecond

var clockTimes = regexp.MustCompile(`until \d\d:\d\d:\d\d\.\d{3}`)

// secondRun is in the line that says that the second run was created.
const secondRun = `"RunCreated","placement":"example-placement","run":"example-run-2"`

// playUntil plays the tutorial on what is kept, and stops when a text is
// printed.
func playUntil(t *testing.T, kept *data, text string, answer answerer) *tutorial {
	t.Helper()
	docs := tutorialDocuments(t)
	shortenWaits(docs.Strategies, pause)
	ctx, cancel := context.WithCancel(t.Context())
	tut, err := newTutorial(ctx, docs, kept, jsonLines{&lineCanceler{text: text, cancel: cancel}}, answer)
	if err != nil {
		t.Fatal(err)
	}
	if err := tut.run(ctx); ctx.Err() == nil {
		t.Errorf("ended before %s: %v", text, err)
	}
	return tut
}

func inMemory(t *testing.T, docs documents) *data {
	t.Helper()
	kept, err := openData(t.Context(), "", docs.files)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func TestTheScreenDrawsWhatAnEarlierProcessDid(t *testing.T) {
	t.Parallel()
	docs := tutorialDocuments(t)
	shortenWaits(docs.Strategies, pause)
	for text, file := range map[string]string{
		`"WaitStarted","placement":"example-placement","run":"example-run"`:   "screen-again.txt",
		`"WaitStarted","placement":"example-placement","run":"example-run-2"`: "screen-again-2.txt",
	} {
		g := &glass{columns: 80, rows: 24}
		synctest.Test(t, func(t *testing.T) {
			kept := inMemory(t, docs)
			playUntil(t, kept, text, approveAfter(0))
			s := newScreen(g, func() (int, int) { return g.columns, g.rows }, false, newPalette(plainTerminal))
			playTo(t, docs, kept, s, approveAfter(0))
		})
		golden(t, file, clockTimes.ReplaceAllString(g.String(), "until TIME"))
	}
}

// A process that is killed after it has answered does not know that it has.
func TestAnAnswerIsTheSameAnswerAgain(t *testing.T) {
	t.Parallel()
	docs := tutorialDocuments(t)
	synctest.Test(t, func(t *testing.T) {
		kept := inMemory(t, docs)
		tut := playUntil(t, kept, "ApprovalRequested", approveAfter(0))
		for range 2 {
			clear(tut.answered)
			if err := tut.decide(t.Context(), "example-run"); err != nil {
				t.Fatal(err)
			}
		}
		tut = playUntil(t, kept, secondRun, approveAfter(0))
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
		playUntil(t, kept, secondRun, func(ctx context.Context, request string) (fleet.Answer, error) {
			if err := other.Decide(ctx, "example-run", answerOf(request, approval.Approve, "another")); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second) // until it is taken in
			return answerOf(request, approval.Approve, "late"), nil
		})
	})
}

// begun returns a directory as it is when the tutorial has just begun, with
// another bookmark if there is one.
func begun(t *testing.T, other any) string {
	t.Helper()
	docs := tutorialDocuments(t)
	dir := filepath.Join(t.TempDir(), "data")
	d, err := openData(t.Context(), dir, docs.files)
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
	type object = map[string]any
	for name, c := range map[string]struct {
		bookmark any
		spoil    string // the file that is spoilt
		how      func(path string) error
		below    string // what of the directory is used
		want     string
	}{
		"no parent":        {below: "a/b", want: "no such file or directory"},
		"a file":           {below: engineFile, want: "not a directory"},
		"damaged store":    {spoil: engineFile, how: overwrite, want: "damaged"},
		"damaged clusters": {spoil: outsideFile, how: overwrite, want: "damaged"},
		"no clusters":      {spoil: outsideFile, how: os.Remove, want: "slipway.db is there without the clusters.db that belongs to it"},
		"no store": {
			bookmark: bookmark{Format: 1, Cursor: "behind something"}, spoil: engineFile, how: os.Remove,
			want: "clusters.db is there without the slipway.db that belongs to it",
		},
		"newer bookmark":  {bookmark: object{"format": 2, "what": 1}, want: "has format 2, this program knows 1"},
		"other bookmark":  {bookmark: object{"format": 1, "what": 1}, want: bookmarkKey + `: json: unknown field "what"`},
		"other than JSON": {bookmark: "what", want: bookmarkKey + ": json: "},
		"other files": {
			bookmark: bookmark{Format: 1, Files: map[string]string{"more.yaml": "0"}},
			want:     "it was begun with other YAML files (members.yaml, more.yaml, placement.yaml, run-2.yaml, run.yaml, strategy.yaml, workload.yaml): go on with those, or take a new directory",
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
		code := run(t.Context(), []string{"-data", dir}, stdio{strings.NewReader(""), &out, &errOut})
		played{code, "", errOut.String()}.want(t, exitFailed, "quickstart: -data "+dir+": ")
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

func TestTheCommandThatGoesOnCanBeTyped(t *testing.T) {
	t.Parallel()
	got := quoted([]string{"-data", "my data", "-o=json", "it's", ""})
	if want := `-data 'my data' -o=json 'it'\''s' ''`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
