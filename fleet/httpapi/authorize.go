package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/stages"
)

// Verb is an operation of the API, for [Options].Authorize.
type Verb string

// The verbs. The table of routes in the documentation of the package names the verb of each route.
const (
	// Get reads declarations, snapshots, runs, histories and open requests, and follows events.
	Get Verb = "get"
	// Preview computes plans, diffs, forecasts, selections and drift. It reads the source and the
	// clusters, and changes nothing.
	Preview Verb = "preview"
	// Declare declares or replaces a placement, a strategy or a cap, and deletes a strategy or a
	// cap. A placement may select everything that the engine's source gives.
	Declare Verb = "declare"
	// Create creates a run, also a catch-up run. The creator chooses the strategy, and so the
	// approvals that the run asks for.
	Create Verb = "create"
	// Operate sends a run every command except decisions: it starts, stops, skips, retries and
	// aborts, ends a wait early, and bypasses maintenance windows. To skip a stage or a group also
	// needs Approve, because that skips its approvals.
	Operate Verb = "operate"
	// Approve answers a request for an approval, with an approval or a rejection.
	Approve Verb = "approve"
	// Rollback rolls a run back.
	Rollback Verb = "rollback"
	// Delete deletes a run, or a placement with its objects on the clusters.
	Delete Verb = "delete"
)

// itself marks routes that authorize a request themselves, because its body decides about the verb
// or the placement, or because its answer is a list over several placements.
const itself Verb = "*"

// verbOf returns the verb of a command.
func verbOf(c stages.Command) Verb {
	if c.Verb == stages.Decide {
		return Approve
	}
	return Operate
}

// passesGates reports whether a command skips a stage or a group, and thus the approvals before and
// after it.
func passesGates(c stages.Command) bool {
	return c.Verb == stages.Skip && (c.Scope == stages.SkipStage || c.Scope == stages.SkipGroup)
}

// authorize returns an error unless the caller may use the verb of the route on the placement that
// the path names, or on the placement of the run that it names.
func (c *call) authorize(verb Verb) error {
	switch {
	case c.o.Authorize == nil || verb == itself:
		return nil
	case c.run() == "":
		c.scope = c.placement()
		return c.may(verb, c.scope)
	}
	placement, unread := c.placementOfRun()
	c.scope = placement
	if err := c.may(verb, placement); err != nil {
		return err
	}
	if verb == Delete {
		return nil // the engine deletes a damaged run, too
	}
	return unread
}

// placementOfRun returns the placement of the run in the path, or "" if there is no such run or if
// it cannot be read. A caller without rights thus cannot find out whether a run exists.
func (c *call) placementOfRun() (string, error) {
	s, err := c.engine.Run(c.run()).Status(c.ctx())
	if errors.Is(err, backend.ErrNotFound) {
		return "", nil
	}
	return s.Run.Placement, err
}

// may returns an error unless the caller may use a verb on a placement, or on what belongs to no
// placement if it is "".
func (c *call) may(verb Verb, placement string) error {
	if c.o.Authorize == nil {
		return nil
	}
	refusal := c.o.Authorize(c.ctx(), c.by, verb, placement)
	if refusal == nil {
		return nil
	}
	if e, is := errors.AsType[*Error](refusal); is {
		return e
	}
	object := c.object(verb, placement)
	c.o.Log.Warn("a request is forbidden", "by", c.by.Name, "verb", verb, "object", object, "placement", placement, "method", c.Method, "path", c.URL.Path, "reason", refusal)
	who := c.by.Name
	if who == "" {
		who = "a caller without an identity"
	}
	return &Error{http.StatusForbidden, "Forbidden", fmt.Sprintf("%s may not %s %s: %v", who, verb, object, refusal)}
}

// object names what a request is about. It does not name the placement of a run, because the caller
// may not know it.
func (c *call) object(verb Verb, placement string) string {
	for _, kind := range []string{"run", "strategy", "cap"} {
		if name := c.PathValue(kind); name != "" {
			return kind + " " + name
		}
	}
	switch {
	case placement == "":
		return c.URL.Path
	case verb == Create:
		return "a run of placement " + placement
	}
	return "placement " + placement
}

// visible returns the items whose placement the caller may get. Each placement is asked about
// once.
func visible[T any](c *call, items []T, err error, placement func(T) string) ([]T, error) {
	if c.o.Authorize == nil || err != nil {
		return items, err
	}
	answers := map[string]error{}
	var out []T
	for _, item := range items {
		name := placement(item)
		refusal, asked := answers[name]
		if !asked {
			refusal = c.o.Authorize(c.ctx(), c.by, Get, name)
			answers[name] = refusal
		}
		if e, is := errors.AsType[*Error](refusal); is {
			return nil, e
		}
		if refusal == nil {
			out = append(out, item)
		}
	}
	return out, nil
}

// createRun creates a run for the caller.
func createRun(c *call, spec fleet.RunSpec) (fleet.Status, error) {
	if err := c.may(Create, spec.Placement); err != nil {
		return fleet.Status{}, err
	}
	spec.Starter = c.by
	return c.engine.CreateRun(c.ctx(), spec)
}
