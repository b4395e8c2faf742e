package httpapi

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// The types of the API that the engine does not have.
type (
	// List is a part of a list.
	List[T any] struct {
		Items []T `json:"items"`
		// Continue is the value of the parameter continue that gets the next part; empty in the
		// last part.
		Continue string `json:"continue,omitempty"`
	}

	// PlacementSummary is a placement with the number of its snapshots and runs.
	PlacementSummary struct {
		fleet.Placement
		// Snapshots and Runs are the numbers of snapshots and runs that are kept; Latest is the
		// newest snapshot.
		Snapshots int                `json:"snapshots"`
		Latest    *snapshot.Snapshot `json:"latest,omitempty"`
		Runs      int                `json:"runs"`
		// DeletingSince is the time of the request to delete the placement; zero if there is none.
		DeletingSince time.Time `json:"deletingSince,omitzero"`
		// Version identifies the declaration, for the precondition of a PUT; empty on a hub.
		Version string `json:"version,omitempty"`
	}

	// DeclaredStrategy is a strategy that was declared. Version is as in PlacementSummary.
	DeclaredStrategy struct {
		stages.Strategy
		Version string `json:"version,omitempty"`
	}

	// RunDeletion are the options to delete a run. Force also deletes a run that has not ended; see
	// [fleet.RunHandle.Delete].
	RunDeletion struct {
		Force bool `json:"force,omitempty"`
	}

	// LeaseRecord is a lease. Problem explains why the record of the run cannot be read.
	LeaseRecord struct {
		fleet.Lease
		Problem string `json:"problem,omitempty"`
	}

	// EventsPage is a part of a history. Missed is the number of earlier events that are no longer
	// kept. More reports whether there are events from Next on.
	EventsPage struct {
		fleet.History
		Missed int64 `json:"missed,omitempty"`
		More   bool  `json:"more,omitempty"`
	}

	// Progress is a run and a part of its history.
	Progress struct {
		Status fleet.Status `json:"status"`
		Events EventsPage   `json:"events"`
	}

	// DiffRequest requests the changes of a run, on all clusters of its plan or only on the named
	// clusters.
	DiffRequest struct {
		Spec     fleet.RunSpec `json:"spec"`
		Clusters []string      `json:"clusters,omitempty"`
	}

	// SnapshotObject is an object of a snapshot. Envelope names the envelope that contained the
	// object, if any.
	SnapshotObject struct {
		snapshot.ID
		Envelope *snapshot.ID `json:"envelope,omitempty"`
	}

	// SelectionRequest requests the clusters that a policy picks; nil means the policy of the
	// placement.
	SelectionRequest struct {
		Policy *placement.Policy `json:"policy,omitempty"`
	}

	// ForecastRequest requests the forecast of a run.
	ForecastRequest struct {
		Spec        fleet.RunSpec     `json:"spec"`
		Assumptions fleet.Assumptions `json:"assumptions,omitzero"`
	}

	// RunName names a run.
	RunName struct {
		Run string `json:"run"`
	}

	// CapLimit is the maximum number of clusters in flight.
	CapLimit struct {
		Limit int `json:"limit"`
	}
)

// routes are the operations of the API. The documentation of the package lists them.
var routes = []route{ //nolint:gochecknoglobals // a constant table
	{"GET /v1/placements", false, itself, list(placements, func(p PlacementSummary) string { return p.Name })},
	{"GET /v1/placements/{placement}", false, Get, one(func(c *call) (PlacementSummary, error) {
		p, err := summaryOf(c, c.placement())
		return p, c.tag(p.Version, err)
	})},
	{"PUT /v1/placements/{placement}", true, Declare, done(putPlacement)},
	{"DELETE /v1/placements/{placement}", true, Delete, done(func(c *call, o fleet.DeleteOptions) error {
		o.By = c.by.Name
		return c.engine.Placement(c.placement()).Delete(c.ctx(), o)
	})},
	{"GET /v1/placements/{placement}/deletion", false, Get, one(func(c *call) (fleet.Deletion, error) { return c.engine.Placement(c.placement()).Deletion(c.ctx()) })},
	{"DELETE /v1/placements/{placement}/deletion", true, Delete, done(func(c *call, _ struct{}) error { return c.engine.Placement(c.placement()).ForgetDeletion(c.ctx()) })},
	{"GET /v1/placements/{placement}/snapshots", false, Get, list(snapshots, func(s snapshot.Snapshot) string { return s.Name() })},
	{"GET /v1/placements/{placement}/snapshots/{index}/objects", false, Get, list(objects, func(o SnapshotObject) string { return o.String() })},
	{"GET /v1/placements/{placement}/clusters", false, Get, list(placed, func(p fleet.PlacedCluster) string { return p.Name })},
	{"GET /v1/placements/{placement}/events", false, Get, events(
		func(c *call, after int64) (fleet.History, error) {
			return c.engine.Placement(c.placement()).History(c.ctx(), after)
		},
		func(c *call, after string) (*fleet.Follower, error) {
			return c.engine.Placement(c.placement()).Follow(after)
		})},
	{"POST /v1/placements/{placement}/preview", false, Preview, with(func(c *call, spec fleet.RunSpec) (*stages.Plan, error) {
		return planned(c, spec, func(p *fleet.Preview) (*stages.Plan, error) { return p.Plan, nil })
	})},
	{"POST /v1/placements/{placement}/diff", false, Preview, streamed(diff)},
	{"POST /v1/placements/{placement}/forecast", false, Preview, with(func(c *call, r ForecastRequest) (fleet.Forecast, error) {
		return planned(c, r.Spec, func(p *fleet.Preview) (fleet.Forecast, error) { return p.Forecast(c.ctx(), r.Assumptions) })
	})},
	{"POST /v1/placements/{placement}/selection", false, Preview, with(func(c *call, r SelectionRequest) (fleet.Resolution, error) {
		return c.engine.Placement(c.placement()).PreviewResolve(c.ctx(), r.Policy)
	})},
	{"POST /v1/placements/{placement}/drift", false, Preview, streamed(func(c *call, o fleet.DriftOptions) (iter.Seq2[drift.ClusterReport, error], error) {
		return c.engine.Placement(c.placement()).Drift(c.ctx(), o), nil
	})},

	{"GET /v1/strategies", false, Get, list(strategies, func(s DeclaredStrategy) string { return s.Name })},
	{"GET /v1/strategies/{strategy}", false, Get, one(func(c *call) (DeclaredStrategy, error) {
		s, err := c.engine.Strategy(c.ctx(), c.PathValue("strategy"))
		return DeclaredStrategy{s, version(s)}, c.tag(version(s), err)
	})},
	{"PUT /v1/strategies/{strategy}", true, Declare, done(putStrategy)},
	{"DELETE /v1/strategies/{strategy}", true, Declare, done(func(c *call, _ struct{}) error { return c.engine.DeleteStrategy(c.ctx(), c.PathValue("strategy")) })},

	{"GET /v1/runs", false, itself, list(
		summaries,
		func(r fleet.RunSummary) string { return r.Name })},
	{"POST /v1/runs", true, itself, with(createRun)},
	{"GET /v1/runs/{run}", false, Get, one(func(c *call) (fleet.Status, error) {
		s, err := c.engine.Run(c.run()).Status(c.ctx())
		return c.withoutPlan(s), err
	})},
	{"DELETE /v1/runs/{run}", true, Delete, done(func(c *call, o RunDeletion) error { return c.engine.Run(c.run()).Delete(c.ctx(), o.Force) })},
	{"GET /v1/runs/{run}/outline", false, Get, one(func(c *call) (stages.Outline, error) {
		s, err := c.engine.Run(c.run()).Status(c.ctx())
		if err != nil {
			return stages.Outline{}, err
		}
		return s.Run.Outline(s.Plan), nil
	})},
	{"GET /v1/runs/{run}/progress", false, Get, one(progress)},
	{"GET /v1/runs/{run}/events", false, Get, events(
		func(c *call, after int64) (fleet.History, error) {
			return c.engine.Run(c.run()).History(c.ctx(), after)
		},
		func(c *call, after string) (*fleet.Follower, error) { return c.engine.Run(c.run()).Follow(after) })},
	{"GET /v1/runs/{run}/approvals", false, Get, list(func(c *call) ([]approval.Request, error) { return c.engine.Run(c.run()).Requests(c.ctx()) }, requestKey)},
	{"GET /v1/runs/{run}/commands", false, Get, list(
		func(c *call) ([]stages.Command, error) { return c.engine.Run(c.run()).Recorded(c.ctx()) },
		func(cmd stages.Command) string { return cmd.At.UTC().Format(time.RFC3339Nano) + " " + cmd.ID })},
	{"POST /v1/runs/{run}/commands", true, itself, done(command(fleet.RunHandle.Command))},
	{"POST /v1/runs/{run}/commands/check", true, itself, done(command(fleet.RunHandle.CheckCommand))},
	{"GET /v1/runs/{run}/explanation", false, Get, list(waiting, func(a stages.Awaited) string { return string(a.Kind) + " " + a.Name })},
	{"GET /v1/runs/{run}/clusters/{cluster}/explanation", false, Get, one(explain)},
	{"POST /v1/runs/{run}/forecast", false, Preview, with(forecastRun)},
	{"POST /v1/runs/{run}/catch-up", true, Create, with(func(c *call, as RunName) (fleet.Status, error) {
		return c.engine.Run(c.run()).CatchUp(c.ctx(), as.Run, c.by)
	})},
	{"GET /v1/runs/{run}/rollback", false, Get, one(func(c *call) (fleet.Rollback, error) { return c.engine.Run(c.run()).RollbackStatus(c.ctx()) })},
	{"GET /v1/runs/{run}/rollback/preview", false, Preview, one(func(c *call) (*stages.Plan, error) { return c.engine.Run(c.run()).PreviewRollback(c.ctx()) })},
	{"POST /v1/runs/{run}/rollback", true, Rollback, with(func(c *call, o fleet.RollbackOptions) (RunName, error) {
		o.By = c.by
		name, err := c.engine.Run(c.run()).Rollback(c.ctx(), o)
		return RunName{name}, err
	})},

	{"GET /v1/approvals", false, itself, list(approvals, requestKey)},
	{"GET /v1/caps", false, Get, list(func(c *call) ([]stages.Cap, error) { return c.engine.Caps(c.ctx()) }, func(k stages.Cap) string { return k.Name })},
	{"PUT /v1/caps/{cap}", true, Declare, done(func(c *call, k CapLimit) error { return c.engine.SetCap(c.ctx(), c.PathValue("cap"), k.Limit) })},
	{"DELETE /v1/caps/{cap}", true, Declare, done(func(c *call, _ struct{}) error { return c.engine.DeleteCap(c.ctx(), c.PathValue("cap")) })},
	{"GET /v1/leases", false, itself, list(leases, func(l LeaseRecord) string { return l.Run })},
}

func (c *call) placement() string { return c.PathValue("placement") }

func (c *call) run() string { return c.PathValue("run") }

func requestKey(r approval.Request) string { return r.Run + " " + r.Name }

// withoutPlan omits a plan that the client says it has, because a plan never changes.
func (c *call) withoutPlan(s fleet.Status) fleet.Status {
	if s.Plan != nil && s.Plan.Digest == c.URL.Query().Get("plan") {
		s.Plan = nil
	}
	return s
}

// command passes a command of the caller to do.
func command(do func(fleet.RunHandle, context.Context, stages.Command) error) func(*call, stages.Command) error {
	return func(c *call, cmd stages.Command) error {
		cmd.By = c.by
		if err := c.authorize(verbOf(cmd)); err != nil {
			return err
		}
		if passesGates(cmd) {
			if err := c.may(Approve, c.scope); err != nil {
				return err
			}
		}
		return do(c.engine.Run(c.run()), c.ctx(), cmd)
	}
}

// planned calls do with the preview of a run of the placement in the path.
func planned[T any](c *call, spec fleet.RunSpec, do func(*fleet.Preview) (T, error)) (none T, err error) {
	if spec.Placement != "" && spec.Placement != c.placement() {
		return none, badRequest(fmt.Errorf("placement is %q in the body, and %q in the path", spec.Placement, c.placement()))
	}
	spec.Placement, spec.Starter = c.placement(), c.by
	p, err := c.engine.Preview(c.ctx(), spec)
	if err != nil {
		return none, err
	}
	return do(p)
}

func diff(c *call, r DiffRequest) (iter.Seq2[fleet.ClusterDiff, error], error) {
	return planned(c, r.Spec, func(p *fleet.Preview) (iter.Seq2[fleet.ClusterDiff, error], error) {
		return p.Diff(c.ctx(), r.Clusters...), nil
	})
}

func progress(c *call) (out Progress, err error) {
	out.Events, err = eventsPage(c, func(c *call, after int64) (fleet.History, error) {
		h, err := c.engine.Run(c.run()).History(c.ctx(), after)
		out.Status = c.withoutPlan(h.Status)
		return h, err
	})
	return out, err
}

func placements(c *call) ([]PlacementSummary, error) {
	names, err := c.engine.Placements(c.ctx())
	names, err = visible(c, names, err, func(name string) string { return name })
	return each(names, err, func(name string) ([]PlacementSummary, error) {
		p, err := summaryOf(c, name)
		return []PlacementSummary{p}, err
	})
}

// each concatenates the results for several names; a name that was deleted in between has none.
func each[T any](names []string, err error, get func(name string) ([]T, error)) (out []T, _ error) {
	for _, name := range names {
		var some []T
		if some, err = get(name); err == nil {
			out = append(out, some...)
		} else if !isNotFound(err) {
			return nil, err
		} else {
			err = nil
		}
	}
	return out, err
}

func isNotFound(err error) bool { return errorOf(err).Reason == "NotFound" }

func summaryOf(c *call, name string) (s PlacementSummary, err error) {
	if s.Placement, err = c.engine.Placement(name).Get(c.ctx()); err != nil {
		return s, err
	}
	s.Version = version(s.Placement)
	view, err := c.engine.Placement(name).View(c.ctx())
	if err != nil {
		return s, err
	}
	s.DeletingSince = view.DeletingSince()
	taken := view.Snapshots()
	if s.Snapshots = len(taken); s.Snapshots > 0 {
		s.Latest = &taken[s.Snapshots-1]
	}
	runs, err := c.engine.Placement(name).RunNames(c.ctx())
	s.Runs = len(runs)
	return s, err
}

func snapshots(c *call) ([]snapshot.Snapshot, error) {
	view, err := c.engine.Placement(c.placement()).View(c.ctx())
	if err != nil {
		return nil, err
	}
	return view.Snapshots(), nil
}

// objects returns the objects of a snapshot. They have no digests, because a digest would help to
// guess the content of a Secret.
func objects(c *call) ([]SnapshotObject, error) {
	index, err := strconv.Atoi(c.PathValue("index"))
	if err != nil {
		return nil, fmt.Errorf("the index of a snapshot is a number: %w", backend.ErrNotFound)
	}
	view, err := c.engine.Placement(c.placement()).View(c.ctx())
	if err != nil {
		return nil, err
	}
	items, err := view.Items(c.ctx(), index)
	out := make([]SnapshotObject, 0, len(items))
	for _, item := range items {
		out = append(out, SnapshotObject{item.ID, item.Envelope})
	}
	return out, err
}

func placed(c *call) ([]fleet.PlacedCluster, error) {
	view, err := c.engine.Placement(c.placement()).View(c.ctx())
	if err != nil {
		return nil, err
	}
	return collect(view.Placed(c.ctx()))
}

func collect[T any](all iter.Seq2[T, error]) (out []T, err error) {
	for one, err := range all {
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// explain explains the state of a cluster. It names the runs of other placements that share a cap
// if the caller may read caps.
func explain(c *call) (stages.Explanation, error) {
	x, err := c.engine.Run(c.run()).Explain(c.ctx(), c.PathValue("cluster"))
	if err != nil || c.o.Authorize == nil || c.o.Authorize(c.ctx(), c.by, Get, "") == nil {
		return x, err
	}
	for i := range x.Waiting {
		if a := &x.Waiting[i]; a.Kind == stages.AwaitCap {
			a.Message = "waits for cap " + a.Name + ", which other runs use"
		}
	}
	return x, nil
}

func waiting(c *call) ([]stages.Awaited, error) {
	s, err := c.engine.Run(c.run()).Status(c.ctx())
	if err != nil {
		return nil, err
	}
	return step.Waiting(s.Plan, &s.Run), nil
}

// summaries returns all runs, or the runs of one placement.
func summaries(c *call) ([]fleet.RunSummary, error) {
	if name := c.URL.Query().Get("placement"); name != "" {
		if err := c.may(Get, name); err != nil {
			return nil, err
		}
		of, err := c.engine.Placement(name).Runs(c.ctx())
		return visible(c, of, err, func(r fleet.RunSummary) string { return r.Placement })
	}
	all, err := c.engine.Runs(c.ctx())
	return visible(c, all, err, func(r fleet.RunSummary) string { return r.Placement })
}

// approvals returns the open approval requests of all runs, or of the runs of one placement.
func approvals(c *call) ([]approval.Request, error) {
	runs, err := summaries(c)
	if err != nil {
		return nil, err
	}
	var going []string
	for i := range runs {
		switch runs[i].State {
		case stages.Completed, stages.Failed, stages.Aborted, stages.Superseded:
		default:
			going = append(going, runs[i].Name)
		}
	}
	return each(going, nil, func(run string) ([]approval.Request, error) { return c.engine.Run(run).Requests(c.ctx()) })
}

func leases(c *call) ([]LeaseRecord, error) {
	all, err := c.engine.Leases(c.ctx())
	all, err = visible(c, all, err, func(l fleet.Lease) string { return l.Placement })
	out := make([]LeaseRecord, len(all))
	for i := range all {
		out[i].Lease = all[i]
		if all[i].Err != nil {
			out[i].Problem = all[i].Err.Error()
		}
	}
	return out, err
}

func forecastRun(c *call, a fleet.Assumptions) (fleet.Forecast, error) {
	brief, err := c.flag("brief")
	if err != nil {
		return fleet.Forecast{}, err
	}
	f, err := c.engine.Run(c.run()).Forecast(c.ctx(), a)
	if brief {
		f.Plan, f.Events, f.End.Clusters, f.End.Run = nil, nil, nil, step.Run{}
	}
	return f, err
}
