package member

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/api"
	"github.com/slipway-dev/slipway/placement"
)

// Limits of a measurement. A cluster with more pods has no known available resources, a cluster
// with more nodes no known resources at all.
const (
	mostNamespaces = 200
	nodePage       = 100
	nodePages      = 50
	podPages       = 8
)

// errTooMany reports a list beyond the limits.
var errTooMany = errors.New("there are more than are read")

// Measure lists namespaces, nodes and unfinished pods: page by page, within the limits of the
// connection.
func (c *conn) Measure(ctx context.Context) (out backend.Measurement, err error) {
	if err := c.usable(ctx); err != nil {
		return out, api.Classify("measure", "the cluster", err)
	}
	out.Namespaces, out.MoreNamespaces, err = c.client.namespaces(ctx)
	if !isLeftOut(err) {
		return out, api.Classify("measure", "namespaces", err)
	}
	if err := c.client.measureNodes(ctx, &out); err != nil {
		out.Nodes, out.Capacity, out.Allocatable = 0, nil, nil
		if isLeftOut(err) {
			return out, nil
		}
		return out, api.Classify("measure", "nodes", err)
	}
	if out.Available, err = c.client.available(ctx, out.Allocatable); !isLeftOut(err) {
		return out, api.Classify("measure", "pods", err)
	}
	return out, nil
}

// isLeftOut reports whether a part of a measurement can be left out: err is nil, a missing right
// or errTooMany.
func isLeftOut(err error) bool {
	return err == nil || api.IsForbidden(err) || errors.Is(err, errTooMany)
}

// namespaces returns the names of the namespaces that are not being deleted.
func (c *client) namespaces(ctx context.Context) (names []string, more bool, err error) {
	type item struct {
		Metadata struct {
			Name    string       `json:"name"`
			Deleted *metav1.Time `json:"deletionTimestamp"`
		} `json:"metadata"`
	}
	names = []string{}
	err = eachOf(ctx, c, "/api/v1/namespaces", metav1.ListOptions{Limit: mostNamespaces + 1}, listType, listPages, func(ns *item) bool {
		if ns.Metadata.Deleted != nil {
			return true
		}
		if more = len(names) == mostNamespaces; !more {
			names = append(names, ns.Metadata.Name)
		}
		return !more
	})
	if err != nil {
		return nil, false, err
	}
	slices.Sort(names)
	return names, more, nil
}

// amounts are the resources in an object.
type amounts map[string]string

// measureNodes adds up the resources of the nodes.
func (c *client) measureNodes(ctx context.Context, out *backend.Measurement) error {
	type item struct {
		Status struct {
			Capacity    amounts `json:"capacity"`
			Allocatable amounts `json:"allocatable"`
		} `json:"status"`
	}
	out.Capacity, out.Allocatable = map[string]resource.Quantity{}, map[string]resource.Quantity{}
	for _, name := range measured() {
		out.Capacity[name], out.Allocatable[name] = resource.Quantity{}, resource.Quantity{}
	}
	return eachOf(ctx, c, "/api/v1/nodes", metav1.ListOptions{Limit: nodePage}, "", nodePages, func(n *item) bool {
		out.Nodes++
		n.Status.Capacity.addTo(out.Capacity, 1)
		n.Status.Allocatable.addTo(out.Allocatable, 1)
		return true
	})
}

// available returns allocatable minus the requests of unfinished pods on a node, and at least
// zero.
func (c *client) available(ctx context.Context, allocatable map[string]resource.Quantity) (map[string]resource.Quantity, error) {
	type item struct {
		Spec struct {
			NodeName   string `json:"nodeName"`
			Containers []struct {
				Resources struct {
					Requests amounts `json:"requests"`
				} `json:"resources"`
			} `json:"containers"`
		} `json:"spec"`
	}
	left := map[string]resource.Quantity{}
	for name, q := range allocatable {
		left[name] = q.DeepCopy()
	}
	o := metav1.ListOptions{Limit: listPage, FieldSelector: "status.phase!=Succeeded,status.phase!=Failed"}
	err := eachOf(ctx, c, "/api/v1/pods", o, "", podPages, func(p *item) bool {
		for _, container := range p.Spec.Containers {
			if p.Spec.NodeName != "" {
				container.Resources.Requests.addTo(left, -1)
			}
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	for name, q := range left {
		if q.Sign() < 0 {
			left[name] = resource.Quantity{}
		}
	}
	return left, nil
}

// measured are the resources that are added up. They are the same as in KubeFleet.
func measured() []string { return []string{"cpu", "memory"} }

// addTo adds the amounts to a sum, or subtracts them. An invalid quantity counts as zero.
func (a amounts) addTo(sum map[string]resource.Quantity, sign int) {
	for _, name := range measured() {
		q, err := placement.ParseQuantity(a[name])
		if err != nil {
			continue
		}
		total := sum[name]
		if sign < 0 {
			total.Sub(q)
		} else {
			total.Add(q)
		}
		sum[name] = total
	}
}

// eachOf calls do with each object of a list, until do returns false. A list of more than so many
// pages is errTooMany.
func eachOf[T any](ctx context.Context, c *client, path string, o metav1.ListOptions, form string, pages int, do func(*T) bool) error {
	for range pages {
		var page metaPage[T]
		if err := c.readPageAs(ctx, path, o, form, &page); err != nil {
			return err
		}
		for i := range page.Items {
			if !do(&page.Items[i]) {
				return nil
			}
		}
		if o.Continue = page.Metadata.Continue; o.Continue == "" {
			return nil
		}
	}
	return errTooMany
}
