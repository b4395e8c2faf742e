package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/memory"
	"github.com/slipway-dev/slipway/internal/keyed"
	"github.com/slipway-dev/slipway/internal/soak/laws"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// LedgerNamespace is the namespace of the ledgers on a member.
const LedgerNamespace = "slipway-system"

// Ledger is the checked part of a member's record of a placement.
type Ledger struct {
	Run      string `json:"run"`
	RunUID   string `json:"runUID"`
	Attempt  int    `json:"attempt"`
	Epoch    int64  `json:"epoch"`
	Phase    string `json:"phase"`
	Revision string `json:"revision"`
	Target   string `json:"target"`
}

// LedgerOf returns the ledger of a placement on a cluster, zero if there is
// none.
func LedgerOf(c *memory.Cluster, placed string) (l Ledger) {
	if c == nil {
		return l
	}
	obj, err := c.Get(snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: LedgerNamespace, Name: placed})
	if err != nil {
		return l
	}
	text, _, _ := unstructured.NestedString(obj.Object, "data", "ledger")
	_ = json.Unmarshal([]byte(text), &l)
	return l
}

// OpenLedger returns a ledger with its revision and target in plain text. On a member they are
// sealed with the key of the placement. The error matches backend.ErrNotFound if the placement is
// deleted.
func (env *Environment) OpenLedger(ctx context.Context, placed string, l Ledger) (Ledger, error) {
	rec, err := env.Store.Get(ctx, "placement/"+placed)
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

// dialer opens connections that audit each apply and check it against the laws.
func (env *Environment) dialer() backend.Dialer {
	return backend.DialerFunc(func(ctx context.Context, c placement.Cluster) (backend.Conn, error) {
		inner, err := env.Members.Dial(ctx, c)
		if err != nil {
			return nil, err
		}
		watched, ok := inner.(backend.ConnWatcher)
		if !ok {
			return nil, fmt.Errorf("the connection to %s cannot be watched", c.Name)
		}
		return &conn{watched, env, c.Name}, nil
	})
}

type conn struct {
	backend.ConnWatcher
	env     *Environment
	cluster string
}

func (c *conn) Apply(ctx context.Context, obj *unstructured.Unstructured, o backend.ApplyOptions) (*unstructured.Unstructured, error) {
	placed, engines := strings.CutPrefix(o.Manager, "slipway/")
	if !engines || obj.GetKind() != SettingKind {
		return c.ConnWatcher.Apply(ctx, obj, o)
	}
	l := LedgerOf(c.env.Members.Cluster(c.cluster), placed)
	problem := c.env.touchProblem(ctx, c.cluster, l)
	by := stamp{Cluster: c.cluster, Run: l.Run, RunUID: l.RunUID, Attempt: l.Attempt, Epoch: l.Epoch}
	got, err := c.ConnWatcher.Apply(context.WithValue(ctx, stampKey{}, by), obj, o)
	if err == nil && problem != "" {
		c.env.Violations.Add("%s", problem)
	}
	return got, err
}

// touchProblem returns why a member must not be changed for the run in its ledger, as
// that run is committed now; "" if it may.
func (env *Environment) touchProblem(ctx context.Context, cluster string, l Ledger) string {
	s, err := env.Observer.Run(l.Run).Status(ctx)
	if err != nil || s.Run.UID != l.RunUID {
		return "" // the run was deleted
	}
	return laws.TouchProblem(s.Plan, &s.Run, cluster)
}
