package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// place makes a namespace with a ConfigMap, and a placement of it on all members.
func (b *bench) place(ctx context.Context, name, strategy string) error {
	return create(ctx, b.hub, strings.NewReplacer("$NAME", name, "$STRATEGY", strategy).Replace(`
{apiVersion: v1, kind: Namespace, metadata: {name: $NAME}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: $NAME}, data: {value: "0"}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: $NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: $NAME}]
  policy: {placementType: PickAll}
  strategy: $STRATEGY`))
}

const rollingUpdate = `{type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%, unavailablePeriodSeconds: 1}}`

// edit changes the ConfigMap of a placement and returns its new value.
func (b *bench) edit(ctx context.Context, name string) (string, error) {
	b.content[name]++
	text := strconv.Itoa(b.content[name])
	o := object{on: b.hub, resource: "configmaps", namespace: name, name: "cm"}
	return text, o.patch(ctx, `{"data":{"value":"`+text+`"}}`)
}

func (b *bench) copyOn(i int, name string) object {
	return object{on: b.members[i], resource: "configmaps", namespace: name, name: "cm"}
}

// run makes a staged run and returns how long it took to a condition.
func (b *bench) run(ctx context.Context, name, strategy, awaited string) (time.Duration, error) {
	begun := time.Now()
	err := create(ctx, b.hub, strings.NewReplacer("$NAME", name, "$STRATEGY", strategy).Replace(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: $NAME}
spec: {placementName: staged, stagedRolloutStrategyName: $STRATEGY, state: Run}`))
	if err == nil {
		err = b.runIs(ctx, name, awaited)
	}
	return time.Since(begun), err
}

func (b *bench) runIs(ctx context.Context, name, awaited string) error {
	o := object{on: b.hub, resource: "clusterstagedupdateruns", name: name}
	return o.await(ctx, patience, awaited, func(u *unstructured.Unstructured) bool { return condition(u, awaited, "True") })
}

const strategies = `
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: plain}
spec:
  stages:
  - {name: canary, labelSelector: {matchLabels: {env: canary}}}
  - {name: rest, labelSelector: {matchLabels: {env: prod}}}
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: asked}
spec:
  stages:
  - {name: canary, labelSelector: {matchLabels: {env: canary}}, afterStageTasks: [{type: Approval}]}
  - {name: rest, labelSelector: {matchLabels: {env: prod}}}`

// stagedRuns measures runs of a placement of strategy External, each right after a change.
func (b *bench) stagedRuns(ctx context.Context) error {
	if err := b.retried(ctx, func() error { return create(ctx, b.hub, strategies) }); err != nil {
		return err
	}
	if err := b.place(ctx, "staged", `{type: External}`); err != nil {
		return err
	}
	o := object{on: b.hub, resource: "clusterresourceplacements", name: "staged"}
	if err := o.await(ctx, patience, "scheduled", func(u *unstructured.Unstructured) bool {
		return condition(u, "ClusterResourcePlacementScheduled", "True")
	}); err != nil {
		return err
	}
	// The first run starts with empty members.
	if _, err := b.run(ctx, "first", "plain", "Succeeded"); err != nil {
		return err
	}
	for i := range b.samples {
		text, err := b.edit(ctx, "staged")
		if err != nil {
			return err
		}
		took, err := b.run(ctx, fmt.Sprint("run-", i), "plain", "Succeeded")
		if err != nil {
			return err
		}
		old := 0.0
		for i := range b.members {
			o := b.copyOn(i, "staged")
			u, err := o.get(ctx)
			if err != nil {
				return err
			}
			if value(u) != text {
				old = 1
			}
		}
		b.table.took(b.system, stagedRun, took)
		b.table.add(b.system, oldContent, old)
		b.say("staged run %v, old content %v", took, old == 1)
	}
	return nil
}

// rollingChanges measures changes of the objects of a RollingUpdate placement, and manual changes
// on a member a few seconds after each.
func (b *bench) rollingChanges(ctx context.Context) error {
	if err := b.place(ctx, "rolling", rollingUpdate); err != nil {
		return err
	}
	index, err := b.available(ctx, "rolling", "")
	if err != nil {
		return err
	}
	for i := range b.samples {
		begun := time.Now()
		text, err := b.edit(ctx, "rolling")
		if err != nil {
			return err
		}
		for i := range b.members {
			if err := b.has(ctx, i, "rolling", text); err != nil {
				return err
			}
		}
		there := time.Since(begun)
		if index, err = b.available(ctx, "rolling", index); err != nil {
			return err
		}
		told := time.Since(begun)
		b.table.took(b.system, changeThere, there)
		b.table.took(b.system, changeTold, told)
		time.Sleep(3 * time.Second)
		i %= len(b.members)
		begun = time.Now()
		o := b.copyOn(i, "rolling")
		if err := o.patch(ctx, `{"data":{"value":"by hand"}}`); err != nil {
			return err
		}
		if err := b.has(ctx, i, "rolling", text); err != nil {
			return err
		}
		b.table.took(b.system, driftBack, time.Since(begun))
		b.say("rolling change there after %v, told after %v, drift put back after %v", there, told, time.Since(begun))
	}
	return nil
}

// has waits until a member has a text in the ConfigMap of a placement.
func (b *bench) has(ctx context.Context, member int, name, text string) error {
	o := b.copyOn(member, name)
	return o.await(ctx, patience, "as placed", func(u *unstructured.Unstructured) bool { return value(u) == text })
}

// available waits until a placement reports its content as available on all members with an index
// other than but, and returns this index.
func (b *bench) available(ctx context.Context, name, but string) (index string, err error) {
	o := object{on: b.hub, resource: "clusterresourceplacements", name: name}
	err = o.await(ctx, patience, "available", func(u *unstructured.Unstructured) bool {
		index, _, _ = unstructured.NestedString(u.Object, "status", "observedResourceIndex")
		return index != but && condition(u, "ClusterResourcePlacementAvailable", "True")
	})
	return index, err
}

// approvals measures how runs begin and how a request is answered, beside other placements.
func (b *bench) approvals(ctx context.Context) error {
	if err := b.placeMany(ctx, 0, others); err != nil {
		return err
	}
	for i := range b.samples {
		if _, err := b.edit(ctx, "staged"); err != nil {
			return err
		}
		name := fmt.Sprint("asked-", i)
		began, err := b.run(ctx, name, "asked", "Initialized")
		if err != nil {
			return err
		}
		o := object{on: b.hub, resource: "clusterapprovalrequests", name: name + "-after-canary"}
		var generation int64
		if err := o.await(ctx, patience, "there", func(u *unstructured.Unstructured) bool { generation = u.GetGeneration(); return true }); err != nil {
			return err
		}
		begun := time.Now()
		if err := o.patch(ctx, fmt.Sprintf(`{"status":{"conditions":[{"type":"Approved","status":"True","reason":"lgtm","message":"lgtm","lastTransitionTime":%q,"observedGeneration":%d}]}}`,
			begun.UTC().Format(time.RFC3339), generation), "status"); err != nil {
			return err
		}
		if err := o.await(ctx, patience, "accepted", func(u *unstructured.Unstructured) bool { return condition(u, "ApprovalAccepted", "True") }); err != nil {
			return err
		}
		answered := time.Since(begun)
		b.table.took(b.system, initialized, began)
		b.table.took(b.system, accepted, answered)
		b.say("initialized after %v, accepted after %v", began, answered)
		if err := b.runIs(ctx, name, "Succeeded"); err != nil {
			return err
		}
	}
	return nil
}

// placeMany makes the placements of numbers and waits until they are available.
func (b *bench) placeMany(ctx context.Context, from, to int) error {
	for i := from; i < to; i++ {
		if err := b.place(ctx, fmt.Sprint("other-", i), rollingUpdate); err != nil {
			return err
		}
	}
	for i := from; i < to; i++ {
		if _, err := b.available(ctx, fmt.Sprint("other-", i), ""); err != nil {
			return err
		}
	}
	return nil
}
