package fleet

import (
	"context"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// RollbackName is the name of the nth run, from 1, that rolls back what another one brought: that of the
// other one with "-rollback" behind it, and the number from the second on. Where that is longer than 63
// characters, the other one's is cut, and 8 characters of its digest distinguish it from others with the same
// beginning.
func RollbackName(run string, n int) string { return defaultRollbackName(run, n) }

func defaultRollbackName(run string, n int) string {
	suffix := "-rollback"
	if n > 1 {
		suffix += "-" + strconv.Itoa(n)
	}
	if len(run)+len(suffix) <= stages.MaxPlacementName {
		return run + suffix
	}
	sum := snapshot.Digest([]byte(run))
	sum = sum[len(sum)-8:]
	return strings.TrimRight(run[:stages.MaxPlacementName-len(suffix)-1-len(sum)], "-.") + "-" + sum + suffix
}

// rollbackName asks the host for a name. An invalid one, or the previous one again, is replaced by the
// default.
func (e *Engine) rollbackName(run, title string, n int) string {
	name := e.hostsRollbackName(run, title, n)
	if len(nameProblems(nil, name)) > 0 || n > 1 && name == e.hostsRollbackName(run, title, n-1) {
		return defaultRollbackName(run, n)
	}
	return name
}

// hostsRollbackName returns the name that the host chooses, or "".
func (e *Engine) hostsRollbackName(run, title string, n int) (name string) {
	if e.cfg.RollbackName == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			e.log.Error("Config.RollbackName panicked, the default is taken", "run", run, "panic", p)
			name = ""
		}
	}()
	return e.cfg.RollbackName(run, title, n)
}

// freeRollbackName returns a name that no run has.
func (e *Engine) freeRollbackName(ctx context.Context, run, title string) (string, error) {
	for n := 1; ; n++ {
		name := e.rollbackName(run, title, n)
		_, err := e.store.Get(ctx, record.RunKey(name))
		switch {
		case isNotFound(err):
			return name, nil
		case err != nil:
			return "", err
		}
	}
}
