package runner

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
)

// A run that another client deleted, ended or took during a step is no problem of this engine, so
// the step is not a warning. Any other failed step is.
func TestAStepThatLosesItsRunIsNoWarning(t *testing.T) {
	for _, c := range []struct {
		err   error
		warns bool
	}{
		{backend.ErrNotFound, false},
		{backend.ErrConflict, false},
		{backend.ErrFenced, false},
		{errors.New("the store is down"), true},
	} {
		o := options(memory.NewStore())
		var log bytes.Buffer
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		New(o).runFailed(t.Context(), "r", fmt.Errorf("a step was not saved: %w", c.err))
		if (log.Len() > 0) != c.warns {
			t.Errorf("%v: the log is %q, want a warning: %t", c.err, log.String(), c.warns)
		}
	}
}
