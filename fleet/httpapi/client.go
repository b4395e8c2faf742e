package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Client calls the API of an engine. Its methods are the engine's, but the identity is the one that
// the server authenticates: identities in arguments are ignored. Errors of the engine are of type
// [*Error]; other errors come from the transport. It may be used concurrently.
type Client struct {
	base  *url.URL
	via   http.RoundTripper
	as    approval.Identity
	token string
	// plans are those that were received last, by digest: progress is asked for without the plan.
	plans *lru.Cache[string, *stages.Plan]
}

// ClientOptions say how to call a server.
type ClientOptions struct {
	// Transport carries the requests: that of a host, [InProcess], or nil for http.DefaultTransport's settings.
	// Timeouts are those of contexts.
	Transport http.RoundTripper
	// Token is sent as a bearer token; empty for none.
	Token string
	// As is named as the identity that asks, where the server believes it; see [Impersonated].
	As approval.Identity
}

// The headers that name an identity, as those of Kubernetes' impersonation.
const (
	userHeader  = "Impersonate-User"
	groupHeader = "Impersonate-Group"
)

// plansKept is how many plans a client keeps: one for each run that is watched at the same time.
const plansKept = 16

// NewClient returns a client of the API at base: an http or https URL under which the paths of the
// API begin, or "unix:" and the path of a socket.
func NewClient(base string, o ClientOptions) (*Client, error) {
	if socket, is := strings.CutPrefix(base, unixScheme); is && o.Transport == nil {
		base = "http://slipway"
		o.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
	}
	u, err := url.Parse(base)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.User != nil) {
		err = errors.New("want http:// or https:// with a host, or unix: with the path of a socket")
	}
	if err != nil {
		return nil, fmt.Errorf("httpapi: the address %q of the server: %w", base, err)
	}
	if o.Transport == nil {
		o.Transport = new(http.Transport)
	}
	return &Client{u, o.Transport, o.As, o.Token, lru.New[string, *stages.Plan](plansKept, nil)}, nil
}

// path makes a path of literal parts and names.
func path(parts ...string) string {
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/v1/" + strings.Join(parts, "/")
}

// send makes a request, and returns the answer if its status is a success.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any) (*http.Response, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	address := strings.TrimSuffix(c.base.String(), "/") + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.as.Name != "" {
		r.Header.Set(userHeader, c.as.Name)
		r.Header[groupHeader] = c.as.Groups
	}
	answer, err := c.via.RoundTrip(r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, c.base, err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = answer.Body.Close() }()
		return nil, answeredError(answer)
	}
	return answer, nil
}

// answeredError returns the error of an answer.
func answeredError(answer *http.Response) error {
	var e struct{ Error *Error }
	text, err := io.ReadAll(io.LimitReader(answer.Body, defaultBody))
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil || e.Error == nil {
		return &Error{answer.StatusCode, "NoRoute", "the server answers with " + answer.Status + " and is not one of this API"}
	}
	return e.Error
}

// ask returns the value of an answer.
func ask[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (v T, err error) {
	answer, err := c.send(ctx, method, path, query, body)
	if err != nil {
		return v, err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode == http.StatusNoContent {
		return v, nil
	}
	if err := json.NewDecoder(answer.Body).Decode(&v); err != nil {
		return v, fmt.Errorf("%s %s: the answer: %w", method, path, err)
	}
	return v, nil
}

func get[T any](ctx context.Context, c *Client, path string, query url.Values) (T, error) {
	return ask[T](ctx, c, http.MethodGet, path, query, nil)
}

func post[T any](ctx context.Context, c *Client, path string, body any) (T, error) {
	return ask[T](ctx, c, http.MethodPost, path, nil, body)
}

// change makes a request whose answer has no content.
func (c *Client) change(ctx context.Context, method, path string, body any) error {
	_, err := ask[struct{}](ctx, c, method, path, nil, body)
	return err
}

// whole returns all items of a list.
func whole[T any](ctx context.Context, c *Client, path string, query url.Values) (out []T, err error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(mostPage))
	for {
		page, err := get[List[T]](ctx, c, path, query)
		if err != nil {
			return nil, err
		}
		if out = append(out, page.Items...); page.Continue == "" {
			return out, nil
		}
		query.Set("continue", page.Continue)
	}
}

// items yields the items of a stream, and its error last.
func items[T any](ctx context.Context, c *Client, path string, body any) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		answer, err := c.send(ctx, http.MethodPost, path, nil, body)
		if err != nil {
			yield(none, err)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		for r, err := range records[T](answer.Body) {
			switch {
			case err != nil && ctx.Err() != nil:
				yield(none, ctx.Err())
				return
			case err != nil:
				yield(none, err)
				return
			case r.Item != nil && !yield(*r.Item, nil):
				return
			}
		}
	}
}

func of(name, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{name: {value}}
}

// Placements returns all placements, ascending by name.
func (c *Client) Placements(ctx context.Context) ([]PlacementSummary, error) {
	return whole[PlacementSummary](ctx, c, path("placements"), nil)
}

// Placement returns one placement.
func (c *Client) Placement(ctx context.Context, name string) (PlacementSummary, error) {
	return get[PlacementSummary](ctx, c, path("placements", name), nil)
}

// DeletePlacement calls [fleet.Engine.DeletePlacement].
func (c *Client) DeletePlacement(ctx context.Context, name string, o fleet.DeleteOptions) error {
	return c.change(ctx, http.MethodDelete, path("placements", name), o)
}

// Deletion calls [fleet.Engine.Deletion].
func (c *Client) Deletion(ctx context.Context, placement string) (fleet.Deletion, error) {
	return get[fleet.Deletion](ctx, c, path("placements", placement, "deletion"), nil)
}

// ForgetDeletion calls [fleet.Engine.ForgetDeletion].
func (c *Client) ForgetDeletion(ctx context.Context, placement string) error {
	return c.change(ctx, http.MethodDelete, path("placements", placement, "deletion"), nil)
}

// Snapshots returns the snapshots of a placement that are kept, ascending by index.
func (c *Client) Snapshots(ctx context.Context, placement string) ([]snapshot.Snapshot, error) {
	return whole[snapshot.Snapshot](ctx, c, path("placements", placement, "snapshots"), nil)
}

// SnapshotObjects returns the objects of a kept snapshot, in the order of application. Overrides
// may change them for a cluster.
func (c *Client) SnapshotObjects(ctx context.Context, placement string, index int) ([]SnapshotObject, error) {
	return whole[SnapshotObject](ctx, c, path("placements", placement, "snapshots", strconv.Itoa(index), "objects"), nil)
}

// Placed returns the recorded state of the placement's clusters, ascending by name.
func (c *Client) Placed(ctx context.Context, placement string) ([]fleet.PlacedCluster, error) {
	return whole[fleet.PlacedCluster](ctx, c, path("placements", placement, "clusters"), nil)
}

// Preview calls [fleet.Engine.Preview].
func (c *Client) Preview(ctx context.Context, spec fleet.RunSpec) (*stages.Plan, error) {
	return post[*stages.Plan](ctx, c, path("placements", spec.Placement, "preview"), spec)
}

// Diff yields the changes that the run of spec would make on the clusters of its plan, or on the
// named ones only; see [fleet.Diff.Clusters].
func (c *Client) Diff(ctx context.Context, spec fleet.RunSpec, clusters ...string) iter.Seq2[fleet.ClusterDiff, error] {
	return items[fleet.ClusterDiff](ctx, c, path("placements", spec.Placement, "diff"), DiffRequest{spec, clusters})
}

// Forecast calls [fleet.Engine.Forecast].
func (c *Client) Forecast(ctx context.Context, spec fleet.RunSpec, a fleet.Assumptions) (fleet.Forecast, error) {
	return post[fleet.Forecast](ctx, c, path("placements", spec.Placement, "forecast"), ForecastRequest{spec, a})
}

// PreviewSelection calls [fleet.Engine.PreviewSelection].
func (c *Client) PreviewSelection(ctx context.Context, name string, policy *placement.Policy) (fleet.Resolution, error) {
	return post[fleet.Resolution](ctx, c, path("placements", name, "selection"), SelectionRequest{policy})
}

// Drift calls [fleet.Engine.Drift].
func (c *Client) Drift(ctx context.Context, name string, o fleet.DriftOptions) iter.Seq2[drift.ClusterReport, error] {
	return items[drift.ClusterReport](ctx, c, path("placements", name, "drift"), o)
}

// RunSummaries calls [fleet.Engine.RunSummaries].
func (c *Client) RunSummaries(ctx context.Context, placement string) ([]fleet.RunSummary, error) {
	return whole[fleet.RunSummary](ctx, c, path("runs"), of("placement", placement))
}

// CreateRun calls [fleet.Engine.CreateRun].
func (c *Client) CreateRun(ctx context.Context, spec fleet.RunSpec) (fleet.Status, error) {
	return post[fleet.Status](ctx, c, path("runs"), spec)
}

// Status calls [fleet.Engine.Status]. The plan is shared.
func (c *Client) Status(ctx context.Context, run string) (fleet.Status, error) {
	var s fleet.Status
	err := c.withPlan(run, &s, func(known url.Values) (err error) {
		s, err = get[fleet.Status](ctx, c, path("runs", run), known)
		return err
	})
	return s, err
}

// withPlan gets the status of a run, without its plan if the client has the plan, and completes it.
func (c *Client) withPlan(run string, s *fleet.Status, get func(url.Values) error) error {
	last, have := c.plans.Get(run)
	known := url.Values{}
	if have {
		known.Set("plan", last.Digest)
	}
	if err := get(known); err != nil {
		return err
	}
	switch {
	case s.Plan != nil:
		c.plans.Add(run, s.Plan)
	case have && last.Digest == s.Run.Plan:
		s.Plan = last
	default:
		return fmt.Errorf("run %s: the answer has no plan", run)
	}
	return nil
}

// Outline returns the states of a run, its stages, groups and gates; see [stages.Derive].
func (c *Client) Outline(ctx context.Context, run string) (stages.Outline, error) {
	return get[stages.Outline](ctx, c, path("runs", run, "outline"), nil)
}

// DeleteRun calls [fleet.Engine.DeleteRun].
func (c *Client) DeleteRun(ctx context.Context, run string, force bool) error {
	return c.change(ctx, http.MethodDelete, path("runs", run), RunDeletion{Force: force})
}

// Progress calls [fleet.Engine.Progress]. The plan is shared.
func (c *Client) Progress(ctx context.Context, run string, after int64) (fleet.Status, fleet.History, error) {
	var p Progress
	err := c.withPlan(run, &p.Status, func(query url.Values) (err error) {
		query.Set("after", strconv.FormatInt(after, 10))
		p, err = get[Progress](ctx, c, path("runs", run, "progress"), query)
		return err
	})
	if err != nil || !p.Events.More {
		return p.Status, p.Events.History, err
	}
	rest, err := c.History(ctx, run, p.Events.Next)
	p.Events.Events, p.Events.Next = append(p.Events.Events, rest.Events...), rest.Next
	return p.Status, p.Events.History, err
}

// History calls [fleet.Engine.History].
func (c *Client) History(ctx context.Context, run string, after int64) (fleet.History, error) {
	return c.history(ctx, path("runs", run, "events"), "", after)
}

// PlacementHistory calls [fleet.Engine.PlacementHistory]; if older events are not kept, it returns
// events and a [*fleet.MissedError].
func (c *Client) PlacementHistory(ctx context.Context, placement string, after int64) (fleet.History, error) {
	return c.history(ctx, path("placements", placement, "events"), placement, after)
}

func (c *Client) history(ctx context.Context, path, placement string, after int64) (h fleet.History, err error) {
	var missed error
	for next, first := after, true; ; first = false {
		page, err := get[EventsPage](ctx, c, path, url.Values{"after": {strconv.FormatInt(next, 10)}})
		switch {
		case err != nil:
			return h, err
		case first:
			h = page.History
			if page.Missed > 0 {
				missed = &fleet.MissedError{Placement: placement, Events: page.Missed}
			}
		case page.UID != h.UID: // deleted and made again meanwhile
			return h, missed
		default:
			h.Events, h.Next = append(h.Events, page.Events...), page.Next
		}
		if next = page.Next; !page.More {
			return h, missed
		}
	}
}

// Follow returns a follower of the events of a placement and its runs; see [fleet.Engine.Follow].
// It begins after the cursor of another follower; "" begins with the oldest event that is kept.
func (c *Client) Follow(placement, after string) *Follower {
	return &Follower{c, path("placements", placement, "events"), after}
}

// FollowRun returns a follower of the events of a run, which ends when the run has; see [fleet.Engine.FollowRun].
func (c *Client) FollowRun(run, after string) *Follower {
	return &Follower{c, path("runs", run, "events"), after}
}

// Follower reads events in their order. It must not be used concurrently.
type Follower struct {
	c      *Client
	path   string
	cursor string
}

// Cursor returns the position of the follower: after the last event that it yielded.
func (f *Follower) Cursor() string { return f.cursor }

// Events yields the events after the cursor as they are committed, up to the end of the run or of
// ctx, whose error it yields last. It ends after an error that matches [ErrCut] and after an error
// of the transport; then Events may be called again. After other errors it continues.
func (f *Follower) Events(ctx context.Context) iter.Seq2[stages.Event, error] {
	return func(yield func(stages.Event, error) bool) {
		answer, err := f.c.send(ctx, http.MethodGet, f.path, url.Values{"follow": {"true"}, "cursor": {f.cursor}}, nil)
		if err != nil {
			yield(stages.Event{}, err)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		for r, err := range records[stages.Event](answer.Body) {
			var item stages.Event
			switch {
			case err != nil && ctx.Err() != nil:
				err = ctx.Err()
			case err != nil:
			case r.Problem != nil:
				err = r.Problem
			case r.Item == nil:
				continue
			default:
				item, f.cursor = *r.Item, r.Cursor
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

// Requests returns the open approval requests of a run.
func (c *Client) Requests(ctx context.Context, run string) ([]approval.Request, error) {
	return whole[approval.Request](ctx, c, path("runs", run, "approvals"), nil)
}

// AllRequests returns the open approval requests of all runs, or of one placement's runs if
// placement is not "".
func (c *Client) AllRequests(ctx context.Context, placement string) ([]approval.Request, error) {
	return whole[approval.Request](ctx, c, path("approvals"), of("placement", placement))
}

// Decide calls [fleet.Engine.Decide].
func (c *Client) Decide(ctx context.Context, run string, a fleet.Answer) error {
	return c.change(ctx, http.MethodPost, path("runs", run, "decisions"), a)
}

// Command calls [fleet.Engine.Command].
func (c *Client) Command(ctx context.Context, run string, cmd stages.Command) error {
	return c.change(ctx, http.MethodPost, path("runs", run, "commands"), cmd)
}

// Waiting returns everything that a run waits for; see [step.Waiting].
func (c *Client) Waiting(ctx context.Context, run string) ([]stages.Awaited, error) {
	return whole[stages.Awaited](ctx, c, path("runs", run, "explanation"), nil)
}

// Explain calls [fleet.Engine.Explain].
func (c *Client) Explain(ctx context.Context, run, cluster string) (stages.Explanation, error) {
	return get[stages.Explanation](ctx, c, path("runs", run, "clusters", cluster, "explanation"), nil)
}

// ForecastRun calls [fleet.Engine.ForecastRun]. The server keeps the data that it has read of a
// run, so that repeated calls cost as much as [fleet.Forecaster.Forecast].
func (c *Client) ForecastRun(ctx context.Context, run string, a fleet.Assumptions) (fleet.Forecast, error) {
	return post[fleet.Forecast](ctx, c, path("runs", run, "forecast"), a)
}

// ForecastEnd is ForecastRun without the parts that grow with the number of clusters: the plan, the
// events, and the clusters and the run of End.
func (c *Client) ForecastEnd(ctx context.Context, run string, a fleet.Assumptions) (fleet.Forecast, error) {
	return post[fleet.Forecast](ctx, c, path("runs", run, "forecast")+"?brief=true", a)
}

// CatchUp calls [fleet.Engine.CatchUp].
func (c *Client) CatchUp(ctx context.Context, run, name string) (fleet.Status, error) {
	return post[fleet.Status](ctx, c, path("runs", run, "catch-up"), RunName{name})
}

// RollbackOf calls [fleet.Engine.RollbackOf].
func (c *Client) RollbackOf(ctx context.Context, run string) (fleet.Rollback, error) {
	return get[fleet.Rollback](ctx, c, path("runs", run, "rollback"), nil)
}

// PreviewRollback calls [fleet.Engine.PreviewRollback].
func (c *Client) PreviewRollback(ctx context.Context, run string) (*stages.Plan, error) {
	return get[*stages.Plan](ctx, c, path("runs", run, "rollback", "preview"), nil)
}

// Rollback calls [fleet.Engine.Rollback].
func (c *Client) Rollback(ctx context.Context, run string, o fleet.RollbackOptions) (string, error) {
	by, err := post[RunName](ctx, c, path("runs", run, "rollback"), o)
	return by.Run, err
}

// Caps calls [fleet.Engine.Caps].
func (c *Client) Caps(ctx context.Context) ([]stages.Cap, error) {
	return whole[stages.Cap](ctx, c, path("caps"), nil)
}

// SetCap calls [fleet.Engine.SetCap].
func (c *Client) SetCap(ctx context.Context, name string, limit int) error {
	return c.change(ctx, http.MethodPut, path("caps", name), CapLimit{limit})
}

// DeleteCap calls [fleet.Engine.DeleteCap].
func (c *Client) DeleteCap(ctx context.Context, name string) error {
	return c.change(ctx, http.MethodDelete, path("caps", name), nil)
}

// Leases calls [fleet.Engine.Leases]; Err of a lease has no specific type.
func (c *Client) Leases(ctx context.Context) ([]fleet.Lease, error) {
	all, err := whole[LeaseRecord](ctx, c, path("leases"), nil)
	var out []fleet.Lease
	for _, l := range all {
		if l.Problem != "" {
			l.Err = errors.New(l.Problem)
		}
		out = append(out, l.Lease)
	}
	return out, err
}
