// Package policies decides whether answers to approval requests count and whether their authors
// are known. Both depend on the admission policies of the hub cluster, because these make the API
// server record the author.
package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/hub/manifests"
)

// Policies compares the admission policies of the hub cluster with the policies that package
// hub/manifests installs. Its methods may be called concurrently.
type Policies struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	Store    backend.Store
	Log      *slog.Logger

	// vouched is the result of the last comparison.
	vouched atomic.Pointer[State]
}

// State is the verdict of a comparison: whether answers count, and whether their authors are
// known.
type State struct {
	// Version is the version of the policies in force, "" if there are none. A request from
	// another version is asked again, because the policies may have let any answer through in
	// between.
	Version string
	// Identity reports whether the API server records the author of an answer and the creator of
	// a run.
	Identity bool
	// since is the time from which the API server has recorded them without a known break.
	since time.Time
	// Lost is the reason why no answer counts, "" if answers do.
	Lost string
	// Settling is the time until requests may be made.
	Settling time.Duration
}

// policySettle is the delay between new policies and the first request under them. An API server
// applies a policy about a second after it was stored, and does not check answers before.
const policySettle = 3 * time.Second

// policyRecord is the hub's memory of the policies. Without it, a hub whose policies were removed
// would look like a hub that never had any, and there answers of unknown authors count.
type policyRecord struct {
	Format int `json:"format"`
	// Validating and Mutating report whether all policies of that kind were once in force.
	Validating bool `json:"validating,omitempty"`
	Mutating   bool `json:"mutating,omitempty"`
	// Version is the version of the policies that were in force last, Seen the time when a hub
	// first saw it, by the hub's clock.
	Version string    `json:"version,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
}

const (
	policyKey    = "hub/policies"
	policyFormat = 1
)

// learn returns the record after a comparison.
func (r policyRecord) learn(now manifests.Standing, at time.Time) policyRecord {
	if now.Validating != manifests.Complete {
		return r
	}
	r.Validating = true
	r.Mutating = r.Mutating || now.Mutating == manifests.Complete
	if r.Version != now.Version {
		r.Version, r.Seen = now.Version, at.UTC()
	}
	return r
}

// judge decides whether answers count. Two incomplete states are valid: a server before 1.36 has
// the validating policies alone, and a server without any installation has none. In every other
// incomplete state policies were removed or changed.
func (r policyRecord) judge(now manifests.Standing, at time.Time) State {
	switch {
	case now.Validating == manifests.None && now.Mutating == manifests.None && !r.Validating && !r.Mutating:
		return State{}
	case now.Validating != manifests.Complete || now.Mutating == manifests.Partial || now.Mutating == manifests.None && r.Mutating:
		return State{Lost: "no answer counts: " + strings.Join(now.Problems, "; ") +
			"; install the admission policies and the roles of package hub/manifests again (by Install, or by kubectl replace --force -f hub/manifests/policies), and answer the request that is made then"}
	}
	v := State{Version: now.Version, Identity: now.Identity(), since: now.Created}
	if now.Changed {
		v.since = r.Seen
	}
	fresh := r.Seen // the clock of the API server may be ahead
	if v.since.Before(fresh) {
		fresh = v.since
	}
	v.Settling = max(0, fresh.Add(policySettle).Sub(at))
	return v
}

// Now compares the policies of the hub cluster with the installed ones. The caller must read the
// objects that it judges by the result before it calls Now.
func (p *Policies) Now(ctx context.Context) (State, error) {
	now, err := manifests.Inspect(ctx, p.Kube)
	if err != nil {
		return State{}, err
	}
	at := time.Now()
	known, err := p.remember(ctx, now, at)
	if err != nil {
		return State{}, err
	}
	v := known.judge(now, at)
	last := v
	last.Settling = 0 // Settling ends by itself
	p.vouched.Store(&last)
	return v, nil
}

// LastVouched returns the result of the last comparison, nil if there was none.
func (p *Policies) LastVouched() *State { return p.vouched.Load() }

// remember adds a comparison to the record in the store, and returns the record.
func (p *Policies) remember(ctx context.Context, now manifests.Standing, at time.Time) (policyRecord, error) {
	for {
		known := policyRecord{Format: policyFormat}
		rec, err := p.Store.Get(ctx, policyKey)
		switch {
		case errors.Is(err, backend.ErrNotFound):
		case err != nil:
			return known, err
		default:
			if err := json.Unmarshal(rec.Value, &known); err != nil || known.Format != policyFormat {
				return known, fmt.Errorf("record %s is none of format %d, which this hub knows: no answer counts until it is, or is deleted: %w", policyKey, policyFormat, backend.ErrPermanent)
			}
		}
		next := known.learn(now, at)
		if next == known {
			return next, nil
		}
		value, err := json.Marshal(next)
		if err != nil {
			return known, err
		}
		if _, err = p.Store.Put(ctx, policyKey, value, rec.Revision); !errors.Is(err, backend.ErrConflict) {
			return next, err
		}
	}
}

// Watch calls changed whenever the result of the comparison has changed, until ctx ends.
func (p *Policies) Watch(ctx context.Context, changed func()) {
	var told State
	failing := ""
	watch := newPolicyWatch(p.Metadata)
	defer watch.start(ctx)()
	for {
		now, err := p.Now(ctx)
		now.Settling = 0
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && err.Error() != failing: // logged once
			p.Log.Warn("the admission policies could not be compared, will be tried again", "error", err)
			failing = err.Error()
		case err != nil:
		case now != told:
			if now.Lost != "" {
				p.Log.Warn("approvals do not count", "reason", now.Lost)
			}
			changed()
			told, failing = now, ""
		default:
			failing = ""
		}
		if !watch.await(ctx, err != nil) {
			return
		}
	}
}

// VouchesFor reports whether the API server recorded the creator of a run.
func (v *State) VouchesFor(run metav1.Object) bool {
	return v.Identity && run.GetCreationTimestamp().After(v.since)
}

// Starter returns the creator of a run, as the API server stamped it, or the zero identity if the
// policies do not vouch for it.
func (p *Policies) Starter(ctx context.Context, run *unstructured.Unstructured) (approval.Identity, error) {
	v, err := p.Now(ctx)
	if err != nil || !v.VouchesFor(run) {
		return approval.Identity{}, err
	}
	return manifests.Creator(run), nil
}
