// Package examine applies the check objects of runs to clusters, awaits their verdicts and removes
// them. For example, Jobs test the objects that were rolled out.
//
// A check object is written like the objects of a placement: under its own ledger and the fence of
// the run's epoch. Its name is unique for each measurement, so that the verdict of an earlier
// measurement is never reused. The record of the object is saved before the object is applied, and
// deleted once the object is gone. As long as a run waits for the verdict, the object stays, so
// that an engine which takes over the run finds it; then it is removed. Any engine that finds the
// record of a run that has ended removes the object.
//
// Neighbours: package stages decides which measurements are due and when; package runner, the only
// user, hands its questions to this package.
package examine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet/internal/member"
	"github.com/slipway-dev/slipway/fleet/internal/record"
	"github.com/slipway-dev/slipway/fleet/internal/state"
	"github.com/slipway-dev/slipway/health"
	"github.com/slipway-dev/slipway/internal/backoff"
	"github.com/slipway-dev/slipway/internal/reconcile"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/stages/check"
)

const (
	// failsFor is the time that a cluster may be unreachable before that becomes the answer.
	failsFor = time.Minute
	// pollFirst is the wait before the first read of a verdict, pollMost the longest wait between
	// reads.
	pollFirst, pollMost = time.Second, 10 * time.Second
	// retryMost is the longest wait after an error, because a cluster may be away for weeks.
	retryMost = time.Minute
	// atOnce is the number of objects that are reconciled concurrently.
	atOnce = 32
)

// Options configure an [Examiner]. All fields except Queues are required.
type Options struct {
	Store   backend.Store
	State   *state.State
	Applier *member.Applier
	// Load returns revisions of placements.
	Load        member.Loader
	Limiter     *member.Limiter
	Poll, Lease time.Duration
	// Queues measures the queue; it may be nil.
	Queues reconcile.Metrics
	Log    *slog.Logger
}

// Examiner reconciles the check objects of all runs. It has one level-triggered queue, of the keys
// of their records.
type Examiner struct {
	o     Options
	queue *reconcile.Queue[string]

	mu sync.Mutex
	// runs are the runs that this engine drives, by uid.
	runs map[string]*Run
}

// New returns an examiner; it works while Run runs.
func New(o Options) *Examiner {
	e := &Examiner{o: o, runs: map[string]*Run{}}
	e.queue = reconcile.New(reconcile.Options[string]{
		Reconcile: e.reconcile, First: member.ReachFirst, Most: retryMost, Workers: atOnce, Name: "checks", Metrics: o.Queues,
		Failed: func(_ context.Context, key string, err error) {
			o.Log.Warn("a check object is tried again", "record", key, "error", err)
		},
	})
	return e
}

// Run works until ctx ends. It must be called once.
func (e *Examiner) Run(ctx context.Context) { e.queue.Run(ctx) }

// Changed enqueues a new or changed record.
func (e *Examiner) Changed(key string) { e.queue.Add(key) }

// Run is the examiner's view of a run that this engine drives.
type Run struct {
	Placement, Name, UID string
	Epoch                int64
	// Key is the placement's key, Health its rules.
	Key    []byte
	Health []health.Rule
	// Answered receives verdicts.
	Answered func([]check.Measured)

	e *Examiner
	// wanted are the questions of the run that are due, by the key of the record; nil until the first
	// call of Want.
	wanted map[string]*examination
}

// Question is a measurement by a check object.
type Question struct {
	check.Where
	// Object is the name of the check object in the snapshot, Revision the digest of the revision that
	// has it.
	Object, Revision string
	Cluster          placement.Cluster
}

// examination is a question and the state of its answer. Only the reconcile of its key uses the
// fields other than the question.
type examination struct {
	run *Run
	Question
	pause    *backoff.Backoff
	failing  time.Time
	answered bool
}

// Begin starts answering the questions of a run, until [Run.End].
func (e *Examiner) Begin(r *Run) *Run {
	r.e = e
	e.mu.Lock()
	defer e.mu.Unlock()
	e.runs[r.UID] = r
	return r
}

// Want sets the questions that are due. The objects of earlier questions are removed.
func (r *Run) Want(questions []Question) {
	e := r.e
	e.mu.Lock()
	before := r.wanted
	r.wanted = make(map[string]*examination, len(questions))
	for _, q := range questions {
		key := record.CheckObjectKey(r.Placement, q.Cluster.Name, slot(r.Placement, q.Where))
		if x := before[key]; x != nil && x.Where == q.Where && x.Cluster.UID == q.Cluster.UID {
			r.wanted[key] = x
		} else {
			r.wanted[key] = &examination{run: r, Question: q, pause: backoff.New(pollFirst, pollMost)}
		}
	}
	var changed []string
	for key, x := range r.wanted {
		if before[key] != x {
			changed = append(changed, key)
		}
	}
	for key := range before {
		if r.wanted[key] == nil {
			changed = append(changed, key)
		}
	}
	e.mu.Unlock()
	for _, key := range changed {
		e.queue.AddNow(key)
	}
}

// End leaves the open questions of the run to the engine that drives it next.
func (r *Run) End() {
	e := r.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs[r.UID] != r {
		return
	}
	delete(e.runs, r.UID)
	for key := range r.wanted {
		e.queue.Add(key)
	}
}

// slot returns a text that identifies a check within a placement.
func slot(placement string, w check.Where) string {
	return digest(placement, w.Stage, w.Group, w.When, w.Name)
}

// suffix returns a text that identifies the object of one measurement.
func suffix(runUID string, w check.Where) string {
	return digest(runUID, w.Stage, w.Group, w.When, w.Name, strconv.Itoa(w.Attempt), strconv.Itoa(w.Number))[:8]
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// reconcile applies or removes the check object of a record, as its run demands.
func (e *Examiner) reconcile(ctx context.Context, key string) (time.Duration, error) {
	stored, err := e.o.Store.Get(ctx, key)
	if err != nil && !state.IsNotFound(err) {
		return 0, err
	}
	stored.Key = key
	var rec record.CheckObject
	if err == nil {
		if err := record.Decode(stored, &rec); err != nil {
			return 0, err
		}
	}
	e.mu.Lock()
	var wanted *examination
	for _, r := range e.runs {
		if x := r.wanted[key]; x != nil {
			wanted = x
		}
	}
	run := e.runs[rec.RunUID]
	undecided := run != nil && run.wanted == nil
	e.mu.Unlock()
	switch {
	case wanted != nil && wanted.answered:
		return 0, nil
	case wanted != nil:
		return e.examine(ctx, wanted, stored, &rec)
	case stored.Revision == "":
		return 0, nil
	case undecided:
		return e.o.Poll, nil
	case run == nil:
		switch isActive, err := e.isActive(ctx, &rec); {
		case err != nil:
			return 0, err
		case isActive:
			return e.o.Lease, nil // the engine that drives it takes care of it
		}
	}
	return e.remove(ctx, stored, &rec, run)
}

// isActive reports whether the run of a record has not ended.
func (e *Examiner) isActive(ctx context.Context, rec *record.CheckObject) (bool, error) {
	run, _, err := e.o.State.Run(ctx, rec.Run)
	if state.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return run.Run.UID == rec.RunUID && !run.Run.IsEnded(), nil
}

// examine applies the object of a question, and answers once there is a verdict.
func (e *Examiner) examine(ctx context.Context, x *examination, stored backend.Record, rec *record.CheckObject) (time.Duration, error) {
	verdict, err := e.verdict(ctx, x, stored, rec)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if err != nil && !errors.Is(err, backend.ErrPermanent) {
		if x.failing.IsZero() {
			x.failing = time.Now()
		}
		if errors.Is(err, backend.ErrFenced) || time.Since(x.failing) < failsFor {
			return 0, err
		}
	}
	answer := check.Answer{Message: verdict.Message, Values: []float64{1}}
	switch {
	case err != nil:
		answer = check.Answer{Err: err.Error()}
	case verdict.Gone:
		answer = check.Answer{Err: "the object was removed before it had ended: " + verdict.Message}
	case !verdict.Ended:
		x.failing = time.Time{}
		return x.pause.Next(), nil
	case verdict.Failed:
		answer.Values[0] = 0
	}
	x.answered = true
	x.run.Answered([]check.Measured{{Where: x.Where, Query: "object " + x.Object + " on cluster " + x.Cluster.Name, Answer: answer}})
	return 0, nil
}

func (e *Examiner) verdict(ctx context.Context, x *examination, stored backend.Record, rec *record.CheckObject) (member.Verdict, error) {
	r := x.run
	revision, err := e.o.Load(ctx, r.Placement, x.Revision)
	if err != nil {
		return member.Verdict{}, err
	}
	next := record.CheckObject{
		Format: record.Format, Run: r.Name, RunUID: r.UID, Epoch: r.Epoch, Cluster: x.Cluster.Name, ClusterUID: x.Cluster.UID, Check: x.Name,
	}
	a := assignment(slot(r.Placement, x.Where), &next)
	a.Cluster, a.Attempt, a.Strategy.Health = x.Cluster, x.Attempt, r.Health
	object, err := revision.CheckObject(x.Object, a.Placement, suffix(r.UID, x.Where))
	if err != nil {
		return member.Verdict{}, fmt.Errorf("%w: %w", err, backend.ErrPermanent)
	}
	if *rec != next {
		if _, err := e.o.Store.Put(ctx, stored.Key, record.Encode(next), stored.Revision); err != nil {
			return member.Verdict{}, err
		}
	}
	leave, err := e.o.Limiter.Enter(ctx, x.Cluster.Name)
	if err != nil {
		return member.Verdict{}, err
	}
	verdict, err := e.o.Applier.Examine(ctx, member.WithCheck(member.WithKey(a, r.Key), object))
	leave(err)
	return verdict, err
}

// assignment returns the assignment of a cluster for a check, which has its own ledger.
func assignment(slot string, rec *record.CheckObject) backend.Assignment {
	return backend.Assignment{
		Placement: "check-" + slot, Run: rec.Run, RunUID: rec.RunUID, Epoch: rec.Epoch,
		Cluster: placement.Cluster{Name: rec.Cluster, UID: rec.ClusterUID},
	}
}

// remove removes the object of a record, its ledger and then the record. If the cluster is no
// longer in the inventory, it removes only the record.
func (e *Examiner) remove(ctx context.Context, stored backend.Record, rec *record.CheckObject, run *Run) (time.Duration, error) {
	clusters, err := e.o.State.World.Inventory(ctx)
	if err != nil {
		return 0, err
	}
	if c, known := clusters[rec.Cluster]; known && c.UID == rec.ClusterUID {
		a := assignment(path.Base(stored.Key), rec)
		if run != nil {
			a.Epoch = max(a.Epoch, run.Epoch)
		}
		leave, err := e.o.Limiter.Enter(ctx, rec.Cluster)
		if err != nil {
			return 0, err
		}
		proof, err := e.o.Applier.Update(ctx, member.WithoutCheck(a))
		leave(err)
		if err != nil {
			return 0, err
		}
		if !proof.Current {
			return e.o.Poll, nil
		}
	}
	err = e.o.Store.Delete(ctx, stored.Key, stored.Revision)
	if state.IsNotFound(err) {
		err = nil
	}
	return 0, err
}
