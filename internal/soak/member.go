package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// ledgerNamespace is where members keep what they know of a placement.
const ledgerNamespace = "slipway-system"

// ledger is what a member records of a placement, as far as it is checked
// here.
type ledger struct {
	Run      string `json:"run"`
	RunUID   string `json:"runUID"`
	Attempt  int    `json:"attempt"`
	Epoch    int64  `json:"epoch"`
	Phase    string `json:"phase"`
	Revision string `json:"revision"`
	Target   string `json:"target"`
}

// ledgerOf returns the ledger of a placement on a cluster, zero if there is
// none.
func ledgerOf(c *memory.Cluster, placed string) (l ledger) {
	if c == nil {
		return l
	}
	obj, err := c.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: ledgerNamespace, Name: placed})
	if err != nil {
		return l
	}
	text, _, _ := unstructured.NestedString(obj.Object, "data", "ledger")
	_ = json.Unmarshal([]byte(text), &l)
	return l
}

// opened is a ledger with the revision and the target that it names, which the placement's
// key opens: a member has them sealed.
func (w *environment) opened(ctx context.Context, placed string, l ledger) (ledger, error) {
	rec, err := w.engineFile.Get(ctx, "placement/"+placed)
	if err != nil {
		return l, err
	}
	var p struct {
		Key []byte `json:"key"`
	}
	if err := json.Unmarshal(rec.Value, &p); err != nil {
		return l, err
	}
	for _, revision := range []*string{&l.Revision, &l.Target} {
		if opened, ok := keyed.Open(p.Key, "revision of "+placed, *revision); ok {
			*revision = opened
		}
	}
	return l, nil
}

// inventory lists the members that are not absent.
type inventory struct{ w *environment }

func (i inventory) Clusters(ctx context.Context) iter.Seq2[placement.Cluster, error] {
	return func(yield func(placement.Cluster, error) bool) {
		for c, err := range i.w.members.Clusters(ctx) {
			if err == nil && i.w.isAbsent(c.Name) {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func (i inventory) WatchClusters(ctx context.Context) iter.Seq2[struct{}, error] {
	return i.w.members.WatchClusters(ctx)
}

// dialer opens connections that say for whom they change a member, and that
// check whether they may.
func (w *environment) dialer() backend.Dialer {
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		inner, err := w.members.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		watched, ok := inner.(backend.ConnWatcher)
		if !ok {
			return nil, fmt.Errorf("the connection to %s cannot be watched", c.Name)
		}
		return &conn{watched, w, c.Name}, nil
	})
}

type conn struct {
	backend.ConnWatcher
	w       *environment
	cluster string
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	placed, engines := strings.CutPrefix(o.Manager, "slipway/")
	if !engines || obj.GetKind() != settingKind {
		return c.ConnWatcher.Apply(ctx, obj, o)
	}
	l := ledgerOf(c.w.members.Cluster(c.cluster), placed)
	objection := c.w.mayTouch(ctx, c.cluster, l)
	by := stamp{Cluster: c.cluster, Run: l.Run, RunUID: l.RunUID, Attempt: l.Attempt, Epoch: l.Epoch}
	got, err := c.ConnWatcher.Apply(context.WithValue(ctx, stampKey{}, by), obj, o)
	if err == nil && objection != "" {
		c.w.laws.violated("%s", objection)
	}
	return got, err
}

// mayTouch says why a member must not be changed for the run in its ledger, as
// that run is committed now; "" if it may.
func (w *environment) mayTouch(ctx context.Context, cluster string, l ledger) string {
	s, err := w.eyes.Status(ctx, l.Run)
	if err != nil || s.Run.UID != l.RunUID {
		return "" // the run was deleted meanwhile
	}
	return objection(s.Plan, &s.Run, cluster)
}

// objection says why a cluster must not have been touched by a run: the gates
// before it have not been passed.
func objection(p *stages.Plan, r *stages.Run, cluster string) string {
	pos, ok := p.Position(cluster)
	if !ok {
		return fmt.Sprintf("cluster %s was touched by run %s, whose plan does not have it", cluster, r.Name)
	}
	stage, _ := p.StageOf(pos)
	for i := range stage {
		if r.Stages[i].Ended == 0 {
			return fmt.Sprintf("cluster %s of stage %s was touched by run %s before stage %s had ended with its gates", cluster, p.Stages[stage].Name, r.Name, p.Stages[i].Name)
		}
	}
	if r.Stages[stage].Started == 0 {
		return fmt.Sprintf("cluster %s was touched by run %s before its stage %s had started", cluster, r.Name, p.Stages[stage].Name)
	}
	return ""
}
