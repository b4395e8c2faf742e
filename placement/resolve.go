package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Resolve picks clusters from the inventory. The decision does not depend on
// the order of clusters, nor on the order of what a policy lists; its Index is
// 0, for package fleet to set.
//
// A policy that is not valid is an error that tells everything that is wrong
// with it, and so is an inventory. Names of a PickFixed policy that are not in
// the inventory are an error that lists all of them.
func Resolve(p Policy, clusters []Cluster) (Decision, error) {
	if err := p.Validate(); err != nil {
		return Decision{}, fmt.Errorf("placement policy: %w", err)
	}
	sorted := byName(clusters)
	if err := checkNames(sorted).ToAggregate(); err != nil {
		return Decision{}, fmt.Errorf("cluster inventory: %w", err)
	}
	picked, err := p.pick(sorted)
	if err != nil {
		return Decision{}, err
	}
	digest, err := p.digest()
	if err != nil {
		return Decision{}, err
	}
	return Decision{PolicyDigest: digest, Clusters: picked, Digest: decisionDigest(digest, picked)}, nil
}

// byName returns the clusters by name, without moving them.
func byName(clusters []Cluster) []*Cluster {
	sorted := make([]*Cluster, len(clusters))
	for i := range clusters {
		sorted[i] = &clusters[i]
	}
	slices.SortFunc(sorted, func(a, b *Cluster) int { return strings.Compare(a.Name, b.Name) })
	return sorted
}

// pick returns the names that a valid policy picks, ascending.
func (p Policy) pick(sorted []*Cluster) ([]string, error) {
	if p.Type == PickFixed {
		return p.pickFixed(sorted)
	}
	match, err := matchAny(p.Required)
	if err != nil {
		return nil, fmt.Errorf("placement policy: %w", err)
	}
	names := make([]string, 0, len(sorted))
	for _, c := range sorted {
		if len(p.Required) == 0 || match(c) {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

func (p Policy) pickFixed(sorted []*Cluster) ([]string, error) {
	names := slices.Sorted(slices.Values(p.ClusterNames))
	var missing []string
	for _, name := range names {
		_, found := slices.BinarySearchFunc(sorted, name, func(c *Cluster, n string) int { return strings.Compare(c.Name, n) })
		if !found {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("placement policy: clusterNames: not in the inventory: %s; a PickFixed policy names clusters that exist",
			strings.Join(missing, ", "))
	}
	return names, nil
}

// matchAny compiles selectors to a function that tells whether a cluster
// matches at least one of them.
func matchAny(selectors []metav1.LabelSelector) (func(*Cluster) bool, error) {
	compiled := make([]labels.Selector, len(selectors))
	for i := range selectors {
		s, err := metav1.LabelSelectorAsSelector(&selectors[i])
		if err != nil {
			return nil, fmt.Errorf("label selector %d: %w", i, err)
		}
		compiled[i] = s
	}
	return func(c *Cluster) bool {
		return slices.ContainsFunc(compiled, func(s labels.Selector) bool { return s.Matches(labels.Set(c.Labels)) })
	}, nil
}

// canonicalPolicy is what the digest of a policy covers: what it says, without
// the order in which it says it.
type canonicalPolicy struct {
	Type     Type     `json:"placementType"`
	Names    []string `json:"clusterNames,omitempty"`
	Required []string `json:"required,omitempty"`
}

// digest returns the sha256 of the policy's canonical JSON, in hex.
func (p Policy) digest() (string, error) {
	c := canonicalPolicy{Type: cmp.Or(p.Type, PickAll), Names: slices.Sorted(slices.Values(p.ClusterNames))}
	for i := range p.Required {
		b, err := json.Marshal(&p.Required[i])
		if err != nil {
			return "", fmt.Errorf("placement policy: required[%d]: %w", i, err)
		}
		c.Required = append(c.Required, string(b))
	}
	slices.Sort(c.Required)
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("placement policy: %w", err)
	}
	return hexSum(b), nil
}

// decisionDigest hashes one name a line; a name has no line break.
func decisionDigest(policy string, names []string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, policy+"\n") // a hash never fails to take bytes
	buf := make([]byte, 0, 64)
	for _, n := range names {
		buf = append(append(buf[:0], n...), '\n')
		_, _ = h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
