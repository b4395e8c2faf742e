package state

import (
	"context"
	"strconv"
	"strings"

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

// RollbackName asks the host for a name. It replaces an invalid name, or a repetition of the
// previous name, with the default.
func (st *State) RollbackName(run, title string, n int) string {
	name := st.hostsRollbackName(run, title, n)
	if len(problems.Name(nil, name)) > 0 || n > 1 && name == st.hostsRollbackName(run, title, n-1) {
		return DefaultRollbackName(run, n)
	}
	return name
}

// hostsRollbackName returns the name that the host chooses, or "".
func (st *State) hostsRollbackName(run, title string, n int) (name string) {
	if st.cfg.RollbackName == nil {
		return ""
	}
	defer func() {
		if p := recover(); p != nil {
			st.log.Error("Config.RollbackName panicked, the default is taken", "run", run, "panic", p)
			name = ""
		}
	}()
	return st.cfg.RollbackName(run, title, n)
}

// FreeRollbackName returns an unused name.
func (st *State) FreeRollbackName(ctx context.Context, run, title string) (string, error) {
	for n := 1; ; n++ {
		name := st.RollbackName(run, title, n)
		_, err := st.store.Get(ctx, record.RunKey(name))
		switch {
		case IsNotFound(err):
			return name, nil
		case err != nil:
			return "", err
		}
	}
}
