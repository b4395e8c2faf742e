package state

import (
	"context"
	"log/slog"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/problems"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// DefaultRollbackName implements fleet.RollbackName.
func DefaultRollbackName(run string, n int) string {
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

// RollbackNames chooses the names of rollback runs.
type RollbackNames struct {
	// host is the host's function, nil for the default.
	host  func(run, title string, n int) string
	store backend.Store
	log   *slog.Logger
}

// Of asks the host for a name. It replaces an invalid name, or a repetition of the
// previous name, with the default.
func (rn *RollbackNames) Of(run, title string, n int) string {
	name := rn.hosts(run, title, n)
	if len(problems.Name(nil, name)) > 0 || n > 1 && name == rn.hosts(run, title, n-1) {
		return DefaultRollbackName(run, n)
	}
	return name
}

// hosts returns the name that the host chooses, or "".
func (rn *RollbackNames) hosts(run, title string, n int) (name string) {
	if rn.host == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			rn.log.Error("Config.RollbackName panicked, the default is taken", "run", run, "panic", p)
			name = ""
		}
	}()
	return rn.host(run, title, n)
}

// Free returns an unused name.
func (rn *RollbackNames) Free(ctx context.Context, run, title string) (string, error) {
	for n := 1; ; n++ {
		name := rn.Of(run, title, n)
		_, err := rn.store.Get(ctx, record.RunKey(name))
		switch {
		case IsNotFound(err):
			return name, nil
		case err != nil:
			return "", err
		}
	}
}
