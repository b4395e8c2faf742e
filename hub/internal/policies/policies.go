// Package policies says what answers to approval requests are worth: that depends on the admission policies of the hub
// cluster, by which the API server writes down who answers.
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

// Policies compares the admission policies of the hub cluster with those that package hub/manifests installs. Its methods
// may be called concurrently.
type Policies struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	Store    backend.Store
	Log      *slog.Logger

	// vouched is what the policies were when they were compared last.
	vouched atomic.Pointer[State]
}

// State is what the admission policies of the hub cluster make of answers.
type State struct {
	// version is that of the policies in force, "" where there are none. What was asked under another version is
	// asked again: the policies may have let anything through in between.
	Version string
	// identity reports whether the API server writes down who answers and who makes a run.
	Identity bool
	// since is from when on it has done so without a break, as far as that is known.
	since time.Time
	// lost says why no answer counts, "" where answers do.
	Lost string
	// settling is how long nothing is asked yet.
	Settling time.Duration
}

// policySettle is how long policies that are new are given until something is asked under them: an API server takes a
// policy up about a second after it was stored, and does not check what is answered until then.
const policySettle = 3 * time.Second

// policyRecord is what the hub remembers of the policies. Without it a hub whose policies were taken away could not
// be told from one that never had any, where an answer counts whose author is not known.
type policyRecord struct {
	Format int `json:"format"`
	// Validating and Mutating report whether all policies of that kind were once in force.
	Validating bool `json:"validating,omitempty"`
	Mutating   bool `json:"mutating,omitempty"`
	// Version is that of the policies that were in force last, Seen when a hub first saw it, by its clock.
	Version string    `json:"version,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
}

const (
	policyKey    = "hub/policies"
	policyFormat = 1
)

// learn is what is remembered after the policies were seen as they are now.
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

// judge says what answers are worth. A server before 1.36 has the validating policies alone, and a server on which
// nothing was ever installed has none; whatever else is not complete was taken away or changed.
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

// Now compares the policies of the hub cluster with those that were installed. What is judged by it has to be
// read before.
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
	last.Settling = 0 // which passes by itself
	p.vouched.Store(&last)
	return v, nil
}

// LastVouched is what the policies were when they were compared last, nil where they were not yet.
func (p *Policies) LastVouched() *State { return p.vouched.Load() }

// remember takes in what the policies are now, and returns what is known of them.
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

// Watch wakes the runs that have requests whenever the policies have changed, until ctx ends.
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
		case err != nil && err.Error() != failing: // which is said once
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

// VouchesFor reports whether the API server wrote into a run who made it.
func (v *State) VouchesFor(run metav1.Object) bool {
	return v.Identity && run.GetCreationTimestamp().After(v.since)
}

// Starter is who made a run, as the API server stamped it.
func (p *Policies) Starter(ctx context.Context, run *unstructured.Unstructured) (approval.Identity, error) {
	v, err := p.Now(ctx)
	if err != nil || !v.VouchesFor(run) {
		return approval.Identity{}, err
	}
	return manifests.Creator(run), nil
}
