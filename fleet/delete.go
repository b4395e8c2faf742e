package fleet

import (
	"context"
)

// DeleteRun deletes a run, whatever its state, and gives its placement free. An engine that drives it is
// fenced; what is in flight to clusters is left as it is, and the next run completes it. It cannot be undone.
// A run whose record is damaged can be deleted, one that a newer version wrote cannot.
//
// After an error it may be called again, and ends what it had begun.
func (e *Engine) DeleteRun(ctx context.Context, name string) error {
	d, err := e.state.DeleteRecord(ctx, name)
	if err != nil {
		return err
	}
	return e.state.Deleted(ctx, d)
}
