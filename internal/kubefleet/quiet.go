package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// idle measures a system without changes.
func (b *bench) idle(ctx context.Context) error {
	// In addition to the placements of the runs and of the changes.
	if err := b.placeMany(ctx, others, all-2); err != nil {
		return err
	}
	before, from, err := b.quiet(ctx, idleHub, idleMember)
	if err != nil {
		return err
	}
	after, err := processorTime(b.programs)
	b.table.add(b.system, idleTime, (after-before).Seconds()/time.Since(from).Minutes())
	return err
}

// quiet counts requests for some minutes, after a pause without counting. It returns the
// processor time before the count, and the start of the count.
func (b *bench) quiet(ctx context.Context, ofHub, ofMember string) (processor time.Duration, from time.Time, err error) {
	if err := pause(ctx, calm); err != nil {
		return 0, from, err
	}
	if processor, err = processorTime(b.programs); err != nil {
		return 0, from, err
	}
	from = time.Now()
	for range windows {
		begun := time.Now()
		if err := pause(ctx, time.Minute); err != nil {
			return 0, from, err
		}
		if err := b.count(begun, ofHub, ofMember); err != nil {
			return 0, from, err
		}
	}
	return processor, from, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// count adds the requests of the minute from a time.
func (b *bench) count(from time.Time, ofHub, ofMember string) error {
	for _, server := range append(memberNames(), hubName) {
		n, about, err := requests(b.servers.env, server, from, from.Add(time.Minute))
		if err != nil {
			return err
		}
		row := ofMember
		if server == hubName {
			row = ofHub
		}
		b.table.add(b.system, row, float64(n))
		b.say("%d requests a minute to %s: %s", n, server, most(about))
	}
	return nil
}

// most names the most frequent ones.
func most(about map[string]int) string {
	names := slices.SortedFunc(maps.Keys(about), func(a, b string) int { return about[b] - about[a] })
	var parts []string
	for _, name := range names[:min(len(names), 12)] {
		parts = append(parts, fmt.Sprint(about[name], " ", name))
	}
	return strings.Join(parts, ", ")
}

// stuck makes five placements that cannot come further, and measures again: of a kind that does
// not exist, to a cluster that does not, to a member that was never reached, of an object that a
// member refuses, and of a Deployment that never becomes available.
func (b *bench) stuck(ctx context.Context) error {
	const namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: refused}}\n---\n"
	if err := create(ctx, b.members[0], namespace+"{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: refused}, data: {value: other}, immutable: true}"); err != nil {
		return err
	}
	if err := create(ctx, b.hub, namespace+`{apiVersion: v1, kind: ConfigMap, metadata: {name: cm, namespace: refused}, data: {value: "1"}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: never}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: never}, spec: {replicas: 1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: untagged}]}}}}`); err != nil {
		return err
	}
	for name, spec := range map[string]string{
		"selector": `{resourceSelectors: [{group: nope.example.com, version: v1, kind: Widget, name: x}], policy: {placementType: PickAll}}`,
		"missing":  `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: other-0}], policy: {placementType: PickFixed, clusterNames: [nobody]}}`,
		"gone":     `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: other-1}], policy: {placementType: PickFixed, clusterNames: [` + gone + `]}}`,
		"refused":  `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: refused}], policy: {placementType: PickFixed, clusterNames: [kind-cluster-1]}}`,
		"never":    `{resourceSelectors: [{group: "", version: v1, kind: Namespace, name: never}], policy: {placementType: PickFixed, clusterNames: [kind-cluster-2]}}`,
	} {
		if err := create(ctx, b.hub, "{apiVersion: placement.kubernetes-fleet.io/v1beta1, kind: ClusterResourcePlacement, metadata: {name: "+name+"}, spec: "+spec+"}"); err != nil {
			return err
		}
	}
	_, _, err := b.quiet(ctx, stuckHub, stuckMember)
	return err
}
