package watch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/watch"
)

func TestAnswerPassesTheDecisionOn(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		typed   string
		minute  int           // of the run, when it is asked; the request opens before 9 and is closed after 20
		passes  time.Duration // until it is typed, while the run continues
		failing error         // of decide
		want    []approval.Verdict
		says    string
		err     error
	}{
		"y":                  {typed: "y\n", minute: 9, want: []approval.Verdict{approval.Approve}, says: "y approves, r rejects"},
		"r":                  {typed: "r\n", minute: 9, want: []approval.Verdict{approval.Reject}},
		"n":                  {typed: "n\n", minute: 9, err: watch.ErrLeftOpen},
		"nothing":            {minute: 9, err: watch.ErrNoInput},
		"nothing is open":    {minute: 1},
		"answered meanwhile": {minute: 9, passes: time.Hour, says: "was answered elsewhere\n"},
		"answered just now":  {typed: "y\n", minute: 9, failing: backend.ErrNotFound, want: []approval.Verdict{approval.Approve}, says: "was answered elsewhere\n"},
		"decide fails":       {typed: "y\n", minute: 9, failing: broken, want: []approval.Verdict{approval.Approve}, err: broken},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			var got []approval.Verdict
			p := &watch.Prompt{In: &slow{c.passes, strings.NewReader(c.typed)}, Out: &out}
			began := time.Now()
			status := func(ctx context.Context) (fleet.Status, error) {
				h, err := (&reel{calls: c.minute - 1 + int(time.Since(began).Seconds())}).History(ctx, 0)
				return h.Status, err
			}
			for range 2 { // it is asked for once
				err := p.Answer(t.Context(), status, func(_ context.Context, r approval.Request, v approval.Verdict) error {
					got = append(got, v)
					return c.failing
				})
				if !errors.Is(err, c.err) {
					t.Errorf("%s: %v", name, err)
				}
				c.err = nil
			}
			if strings.Join(texts(got), " ") != strings.Join(texts(c.want), " ") || !strings.Contains(out.String(), c.says) {
				t.Errorf("%s: decided %v, want %v; said %s", name, got, c.want, out.String())
			}
			synctest.Wait()
			time.Sleep(2 * time.Hour) // until all is typed
		})
	}
}

func texts(all []approval.Verdict) (out []string) {
	for _, v := range all {
		out = append(out, string(v))
	}
	return out
}

// slow is input that comes after a time.
type slow struct {
	after time.Duration
	*strings.Reader
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(s.after)
	return s.Reader.Read(p)
}
