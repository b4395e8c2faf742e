package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/drift"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/lru"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Client calls the API of an engine. Its methods and handles match the engine's. But the server
// determines the identity of the caller and ignores identities in arguments. Errors of the engine
// are of type [*Error]; other errors come from the transport. It may be used concurrently.
type Client struct {
	base  *url.URL
	via   http.RoundTripper
	as    approval.Identity
	token string
	// server is the name of the server in errors; empty means its address.
	server string
	// lost is when a request was first not answered; nil after an answer.
	lost atomic.Pointer[time.Time]
	// plans holds the plans of the last runs, so that progress is requested without the plan.
	plans *lru.Cache[string, *stages.Plan]
}

// ClientOptions are the options of a client.
type ClientOptions struct {
	// Transport carries the requests; a host may use its own or [InProcess]. nil uses a transport
	// with the settings of http.DefaultTransport. The contexts of the calls set timeouts.
	Transport http.RoundTripper
	// Token is sent as a bearer token; empty for none.
	Token string
	// As is the identity on whose behalf the client sends requests, if the server accepts that; see
	// [Impersonated].
	As approval.Identity
	// Server is the name of the server in an [UnansweredError]; empty means its address.
	Server string
}

// The headers that name an identity, as in Kubernetes' impersonation.
const (
	userHeader  = "Impersonate-User"
	groupHeader = "Impersonate-Group"
)

// plansKept is the number of plans that a client keeps: one for each run that is watched at the
// same time.
const plansKept = 16

// NewClient returns a client of the API at base: an http or https URL that precedes the paths of
// the API, or "unix:" and the path of a socket.
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
	return &Client{base: u, via: o.Transport, as: o.As, token: o.Token, server: o.Server, plans: lru.New[string, *stages.Plan](plansKept, nil)}, nil
}

// path joins literal parts and names to a path, and escapes them.
func path(parts ...string) string {
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return "/v1/" + strings.Join(parts, "/")
}

// send sends a request and returns the answer if its status is a success.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, body any, headers ...http.Header) (*http.Response, error) {
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
	for _, h := range headers {
		maps.Copy(r.Header, h)
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
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("%s %s: %w", method, c.base, err)
	case err != nil:
		since := new(time.Now())
		if earlier := c.lost.Load(); earlier != nil {
			since = earlier
		}
		c.lost.Store(since)
		return nil, &UnansweredError{Server: cmp.Or(c.server, c.base.String()), Since: *since, Err: err, named: c.server != ""}
	}
	c.lost.Store(nil)
	if answer.StatusCode >= http.StatusMultipleChoices {
		defer func() { _ = answer.Body.Close() }()
		return nil, answeredError(answer)
	}
	return answer, nil
}

// answeredError returns the error in an answer.
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

// ask sends a request and returns the value in the answer.
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

// change sends a request whose answer has no content.
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
	return url.Values{name: {value}}
}

// Placements returns all placements, ascending by name.
func (c *Client) Placements(ctx context.Context) ([]PlacementSummary, error) {
	return whole[PlacementSummary](ctx, c, path("placements"), nil)
}

// PlacementHandle has the operations on one placement on a server, like [fleet.PlacementHandle].
type PlacementHandle struct {
	c    *Client
	name string
}

// Placement returns the handle of the placement of that name. It sends nothing.
func (c *Client) Placement(name string) PlacementHandle { return PlacementHandle{c, name} }

// Get returns the placement, with the number of its snapshots and runs.
func (h PlacementHandle) Get(ctx context.Context) (PlacementSummary, error) {
	return get[PlacementSummary](ctx, h.c, path("placements", h.name), nil)
}

// PutPlacement calls [fleet.Engine.PutPlacement], or [fleet.Engine.ReplacePlacement] if o has a
// precondition.
func (c *Client) PutPlacement(ctx context.Context, p fleet.Placement, o Declaring) error {
	return c.declare(ctx, path("placements", p.Name), p, o)
}

// Strategies returns the declared strategies, ascending by name.
func (c *Client) Strategies(ctx context.Context) ([]DeclaredStrategy, error) {
	return whole[DeclaredStrategy](ctx, c, path("strategies"), nil)
}

// Strategy calls [fleet.Engine.Strategy].
func (c *Client) Strategy(ctx context.Context, name string) (DeclaredStrategy, error) {
	return get[DeclaredStrategy](ctx, c, path("strategies", name), nil)
}

// PutStrategy calls [fleet.Engine.PutStrategy], or [fleet.Engine.ReplaceStrategy] if o has a
// precondition.
func (c *Client) PutStrategy(ctx context.Context, s stages.Strategy, o Declaring) error {
	return c.declare(ctx, path("strategies", s.Name), s, o)
}

// DeleteStrategy calls [fleet.Engine.DeleteStrategy].
func (c *Client) DeleteStrategy(ctx context.Context, name string) error {
	return c.change(ctx, http.MethodDelete, path("strategies", name), nil)
}

// declare sends a declaration.
func (c *Client) declare(ctx context.Context, path string, declaration any, o Declaring) error {
	var query url.Values
	if o.DryRun {
		query = of("dryRun", "true")
	}
	answer, err := c.send(ctx, http.MethodPut, path, query, declaration, o.header())
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// Delete calls [fleet.PlacementHandle.Delete].
func (h PlacementHandle) Delete(ctx context.Context, o fleet.DeleteOptions) error {
	return h.c.change(ctx, http.MethodDelete, path("placements", h.name), o)
}

// Deletion calls [fleet.PlacementHandle.Deletion].
func (h PlacementHandle) Deletion(ctx context.Context) (fleet.Deletion, error) {
	return get[fleet.Deletion](ctx, h.c, path("placements", h.name, "deletion"), nil)
}

// ForgetDeletion calls [fleet.PlacementHandle.ForgetDeletion].
func (h PlacementHandle) ForgetDeletion(ctx context.Context) error {
	return h.c.change(ctx, http.MethodDelete, path("placements", h.name, "deletion"), nil)
}

// Snapshots returns the snapshots of the placement that are kept, ascending by index.
func (h PlacementHandle) Snapshots(ctx context.Context) ([]snapshot.Snapshot, error) {
	return whole[snapshot.Snapshot](ctx, h.c, path("placements", h.name, "snapshots"), nil)
}

// SnapshotObjects returns the objects of a kept snapshot, in the order of application. Overrides
// may change them for a cluster.
func (h PlacementHandle) SnapshotObjects(ctx context.Context, index int) ([]SnapshotObject, error) {
	return whole[SnapshotObject](ctx, h.c, path("placements", h.name, "snapshots", strconv.Itoa(index), "objects"), nil)
}

// Placed returns the recorded state of the placement's clusters, ascending by name.
func (h PlacementHandle) Placed(ctx context.Context) ([]fleet.PlacedCluster, error) {
	return whole[fleet.PlacedCluster](ctx, h.c, path("placements", h.name, "clusters"), nil)
}

// Preview returns the plan of the run of spec; see [fleet.Engine.Preview].
func (c *Client) Preview(ctx context.Context, spec fleet.RunSpec) (*stages.Plan, error) {
	return post[*stages.Plan](ctx, c, path("placements", spec.Placement, "preview"), spec)
}

// Diff yields the changes that the run of spec would make on the clusters of its plan, or on the
// named ones only; see [fleet.Preview.Diff].
func (c *Client) Diff(ctx context.Context, spec fleet.RunSpec, clusters ...string) iter.Seq2[fleet.ClusterDiff, error] {
	return items[fleet.ClusterDiff](ctx, c, path("placements", spec.Placement, "diff"), DiffRequest{spec, clusters})
}

// Forecast forecasts the run of spec; see [fleet.Preview.Forecast].
func (c *Client) Forecast(ctx context.Context, spec fleet.RunSpec, a fleet.Assumptions) (fleet.Forecast, error) {
	return post[fleet.Forecast](ctx, c, path("placements", spec.Placement, "forecast"), ForecastRequest{spec, a})
}

// PreviewResolve calls [fleet.PlacementHandle.PreviewResolve].
func (h PlacementHandle) PreviewResolve(ctx context.Context, policy *placement.Policy) (fleet.Resolution, error) {
	return post[fleet.Resolution](ctx, h.c, path("placements", h.name, "selection"), SelectionRequest{policy})
}

// Drift calls [fleet.PlacementHandle.Drift].
func (h PlacementHandle) Drift(ctx context.Context, o fleet.DriftOptions) iter.Seq2[drift.ClusterReport, error] {
	return items[drift.ClusterReport](ctx, h.c, path("placements", h.name, "drift"), o)
}

// Runs calls [fleet.Engine.Runs].
func (c *Client) Runs(ctx context.Context) ([]fleet.RunSummary, error) {
	return whole[fleet.RunSummary](ctx, c, path("runs"), nil)
}

// Runs calls [fleet.PlacementHandle.Runs].
func (h PlacementHandle) Runs(ctx context.Context) ([]fleet.RunSummary, error) {
	return whole[fleet.RunSummary](ctx, h.c, path("runs"), of("placement", h.name))
}

// CreateRun calls [fleet.Engine.CreateRun].
func (c *Client) CreateRun(ctx context.Context, spec fleet.RunSpec) (fleet.Status, error) {
	return post[fleet.Status](ctx, c, path("runs"), spec)
}

// RunHandle has the operations on one run on a server, like [fleet.RunHandle].
type RunHandle struct {
	c    *Client
	name string
}

// Run returns the handle of the run of that name. It sends nothing.
func (c *Client) Run(name string) RunHandle { return RunHandle{c, name} }

// Status calls [fleet.RunHandle.Status]. The plan is shared.
func (h RunHandle) Status(ctx context.Context) (fleet.Status, error) {
	var s fleet.Status
	err := h.c.withPlan(h.name, &s, func(known url.Values) (err error) {
		s, err = get[fleet.Status](ctx, h.c, path("runs", h.name), known)
		return err
	})
	return s, err
}

// withPlan gets the status of a run and adds its plan. It does not request the plan if the client
// has it.
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

// Outline returns the states of the run, its stages, groups and gates; see [step.Run.Outline].
func (h RunHandle) Outline(ctx context.Context) (stages.Outline, error) {
	return get[stages.Outline](ctx, h.c, path("runs", h.name, "outline"), nil)
}

// Delete calls [fleet.RunHandle.Delete].
func (h RunHandle) Delete(ctx context.Context, force bool) error {
	return h.c.change(ctx, http.MethodDelete, path("runs", h.name), RunDeletion{Force: force})
}

// History calls [fleet.RunHandle.History]. The plan of the status is shared.
func (h RunHandle) History(ctx context.Context, after int64) (fleet.History, error) {
	var p Progress
	err := h.c.withPlan(h.name, &p.Status, func(query url.Values) (err error) {
		query.Set("after", strconv.FormatInt(after, 10))
		p, err = get[Progress](ctx, h.c, path("runs", h.name, "progress"), query)
		return err
	})
	out := p.Events.History
	out.Status = p.Status
	if err != nil || !p.Events.More {
		return out, err
	}
	rest, err := h.c.history(ctx, path("runs", h.name, "events"), "", out.Next)
	out.Events, out.Next = append(out.Events, rest.Events...), rest.Next
	return out, err
}

// History calls [fleet.PlacementHandle.History]; if older events are not kept, it returns
// events and a [*fleet.MissedError].
func (h PlacementHandle) History(ctx context.Context, after int64) (fleet.History, error) {
	return h.c.history(ctx, path("placements", h.name, "events"), h.name, after)
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
		case page.UID != h.UID: // deleted and created again in between
			return h, missed
		default:
			h.Events, h.Next = append(h.Events, page.Events...), page.Next
		}
		if next = page.Next; !page.More {
			return h, missed
		}
	}
}

// Follow returns a follower of the events of the placement and its runs; see
// [fleet.PlacementHandle.Follow]. It begins after the cursor of another follower; "" begins with
// the oldest event that is kept.
func (h PlacementHandle) Follow(after string) *Follower {
	return &Follower{h.c, path("placements", h.name, "events"), after}
}

// Follow returns a follower of the events of the run, which ends when the run has ended; see
// [fleet.RunHandle.Follow].
func (h RunHandle) Follow(after string) *Follower {
	return &Follower{h.c, path("runs", h.name, "events"), after}
}

// Follower reads events in their order. It must not be used concurrently.
type Follower struct {
	c      *Client
	path   string
	cursor string
}

// Cursor returns the position of the follower: after the last event that it yielded.
func (f *Follower) Cursor() string { return f.cursor }

// Events yields the events after the cursor as they are committed. It ends with the run, or with
// ctx, whose error it then yields last. It also ends after an error that matches [ErrCut] and after
// an error of the transport; then Events may be called again. After other errors it continues.
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

// Requests returns the open approval requests of the run.
func (h RunHandle) Requests(ctx context.Context) ([]approval.Request, error) {
	return whole[approval.Request](ctx, h.c, path("runs", h.name, "approvals"), nil)
}

// Requests returns the open approval requests of the runs of the placement.
func (h PlacementHandle) Requests(ctx context.Context) ([]approval.Request, error) {
	return whole[approval.Request](ctx, h.c, path("approvals"), of("placement", h.name))
}

// Requests returns the open approval requests of all runs.
func (c *Client) Requests(ctx context.Context) ([]approval.Request, error) {
	return whole[approval.Request](ctx, c, path("approvals"), nil)
}

// Command calls [fleet.RunHandle.Command].
func (h RunHandle) Command(ctx context.Context, cmd stages.Command) error {
	return h.c.change(ctx, http.MethodPost, path("runs", h.name, "commands"), cmd)
}

// CheckCommand calls [fleet.RunHandle.CheckCommand].
func (h RunHandle) CheckCommand(ctx context.Context, cmd stages.Command) error {
	return h.c.change(ctx, http.MethodPost, path("runs", h.name, "commands", "check"), cmd)
}

// Recorded calls [fleet.RunHandle.Recorded].
func (h RunHandle) Recorded(ctx context.Context) ([]stages.Command, error) {
	return whole[stages.Command](ctx, h.c, path("runs", h.name, "commands"), nil)
}

// Waiting returns everything that the run waits for; see [step.Waiting].
func (h RunHandle) Waiting(ctx context.Context) ([]stages.Awaited, error) {
	return whole[stages.Awaited](ctx, h.c, path("runs", h.name, "explanation"), nil)
}

// Explain calls [fleet.RunHandle.Explain].
func (h RunHandle) Explain(ctx context.Context, cluster string) (stages.Explanation, error) {
	return get[stages.Explanation](ctx, h.c, path("runs", h.name, "clusters", cluster, "explanation"), nil)
}

// Forecast calls [fleet.RunHandle.Forecast].
func (h RunHandle) Forecast(ctx context.Context, a fleet.Assumptions) (fleet.Forecast, error) {
	return post[fleet.Forecast](ctx, h.c, path("runs", h.name, "forecast"), a)
}

// ForecastEnd is Forecast without the parts that grow with the number of clusters: the plan, the
// events, and the clusters and the run of End.
func (h RunHandle) ForecastEnd(ctx context.Context, a fleet.Assumptions) (fleet.Forecast, error) {
	return post[fleet.Forecast](ctx, h.c, path("runs", h.name, "forecast")+"?brief=true", a)
}

// CatchUp calls [fleet.RunHandle.CatchUp].
func (h RunHandle) CatchUp(ctx context.Context, name string) (fleet.Status, error) {
	return post[fleet.Status](ctx, h.c, path("runs", h.name, "catch-up"), RunName{name})
}

// RollbackStatus calls [fleet.RunHandle.RollbackStatus].
func (h RunHandle) RollbackStatus(ctx context.Context) (fleet.Rollback, error) {
	return get[fleet.Rollback](ctx, h.c, path("runs", h.name, "rollback"), nil)
}

// PreviewRollback calls [fleet.RunHandle.PreviewRollback].
func (h RunHandle) PreviewRollback(ctx context.Context) (*stages.Plan, error) {
	return get[*stages.Plan](ctx, h.c, path("runs", h.name, "rollback", "preview"), nil)
}

// Rollback calls [fleet.RunHandle.Rollback].
func (h RunHandle) Rollback(ctx context.Context, o fleet.RollbackOptions) (string, error) {
	by, err := post[RunName](ctx, h.c, path("runs", h.name, "rollback"), o)
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
