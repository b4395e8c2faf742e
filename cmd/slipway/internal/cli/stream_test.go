package cli_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/slipway-dev/slipway/cmd/slipway/internal/cli"
)

func runs(states ...string) *cli.List {
	l := &cli.List{Kind: "run", Columns: []string{"Name", "State", "Reason"}, Narrow: 2}
	for i, state := range states {
		name := string(rune('a' + i))
		l.Add(name, map[string]string{"name": name, "state": state}, state, "")
	}
	return l
}

// A watch shows all rows once with headings, and then each changed row below the previous ones.
func TestAWatchShowsEachRowAsItChanges(t *testing.T) {
	for output, want := range map[string]string{
		cli.Table: "NAME   STATE\na      Running\nb      Pending\na      Completed\nc      Pending\n",
		cli.Wide:  "NAME   STATE     REASON\na      Running   -\nb      Pending   -\na      Completed   -\nc      Pending     -\n",
		cli.JSON:  `{"name":"a","state":"Running"}|{"name":"b","state":"Pending"}|{"name":"a","state":"Completed"}|{"name":"c","state":"Pending"}|`,
		cli.YAML:  "---\nname: a\nstate: Running\n---\nname: b\nstate: Pending\n---\nname: a\nstate: Completed\n---\nname: c\nstate: Pending\n",
		cli.Name:  "run/a\nrun/b\nrun/a\nrun/c\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			o := cli.Options{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}, Output: output}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			lists := [][]string{{"Running", "Pending"}, {"Running", "Pending"}, {"Completed", "Pending", "Pending"}}
			err := o.Watch(ctx, func() (*cli.List, error) {
				l := runs(lists[0]...)
				lists = lists[min(1, len(lists)-1):]
				return l, nil
			})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", output, err)
			}
			if got := out.String(); got != strings.ReplaceAll(want, "|", "\n") {
				t.Errorf("%s:\n%s", output, got)
			}
		})
	}
}

func TestAnErrorEndsAWatch(t *testing.T) {
	broken := errors.New("broken")
	o := cli.Options{IOStreams: genericiooptions.NewTestIOStreamsDiscard(), Output: cli.Table}
	if err := o.Watch(t.Context(), func() (*cli.List, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestExitCodes(t *testing.T) {
	for code, err := range map[int]error{
		cli.ExitDone: nil, cli.ExitFailed: errors.New("x"), cli.ExitUsage: cli.Usagef("x"), cli.ExitDiffers: cli.ErrDiffers,
		cli.ExitUnsuccessful: cli.ErrUnsuccessful, cli.ExitTimeout: cli.ErrTimeout, cli.ExitInterrupted: context.Canceled,
	} {
		o := cli.Options{IOStreams: genericiooptions.NewTestIOStreamsDiscard()}
		if got := o.ExitCode(err); got != code {
			t.Errorf("%v: %d, want %d", err, got, code)
		}
	}
}
