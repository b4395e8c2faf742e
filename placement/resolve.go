package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Resolve picks clusters from the inventory by a PickAll or PickFixed policy. The selection does
// not depend on the order of clusters, nor on the order of lists in the policy. Its Index is 0;
// package fleet sets it.
//
// The error of an invalid policy or inventory lists all of its problems. Names of a PickFixed
// policy that are not in the inventory are ignored; [Decide] has a verdict on each.
//
// Resolve does not know the clusters of the last selection. So it ignores taints and health,
// which only keep new clusters away, and refuses a PickN policy; see [Decide].
func Resolve(p Policy, clusters []Cluster) (Selection, error) {
	sorted, digest, err := p.check(clusters)
	if err != nil {
		return Selection{}, err
	}
	if p.Type == PickN {
		return Selection{}, errors.New("placement policy: placementType: a PickN policy depends on what is placed already, which Resolve does not know")
	}
	picked, err := p.pick(sorted)
	if err != nil {
		return Selection{}, err
	}
	return newSelection(digest, picked), nil
}

// check validates a policy and an inventory, and returns the clusters by name
// and the digest of the policy.
func (p Policy) check(clusters []Cluster) (sorted []*Cluster, digest string, err error) {
	var problems []error
	if err := p.Validate(); err != nil {
		problems = append(problems, fmt.Errorf("placement policy: %w", err))
	}
	sorted = byName(clusters)
	if err := checkNames(sorted).ToAggregate(); err != nil {
		problems = append(problems, fmt.Errorf("cluster inventory: %w", err))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, "", err
	}
	digest, err = p.digest()
	return sorted, digest, err
}

func newSelection(policy string, picked []string) Selection {
	return Selection{PolicyDigest: policy, Clusters: picked, Digest: selectionDigest(policy, picked)}
}

// pick returns the names that a valid PickAll or PickFixed policy picks, ascending.
func (p Policy) pick(sorted []*Cluster) ([]string, error) {
	match, err := p.terms()
	if err != nil {
		return nil, fmt.Errorf("placement policy: %w", err)
	}
	x := matcher{Policy: p, names: slices.Sorted(slices.Values(p.ClusterNames)), match: match}
	names := make([]string, 0, len(sorted))
	for _, c := range sorted {
		if x.expels(c) == "" {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// missing returns the verdicts on the clusters that the policy names and the inventory does not
// have.
func (p Policy) missing(sorted []*Cluster) []Evaluation {
	var out []Evaluation
	for _, name := range p.ClusterNames {
		_, found := slices.BinarySearchFunc(sorted, name, func(c *Cluster, n string) int { return strings.Compare(c.Name, n) })
		if !found {
			out = append(out, Evaluation{Cluster: name, Reason: "it is not in the inventory"})
		}
	}
	return out
}

// selectionDigest hashes the names, one per line; a name has no line break.
func selectionDigest(policy string, names []string) string {
	h := sha256.New()
	_, _ = io.WriteString(h, policy+"\n") // a hash never fails to take bytes
	buf := make([]byte, 0, 64)
	for _, n := range names {
		buf = append(append(buf[:0], n...), '\n')
		_, _ = h.Write(buf)
	}
	return hex.EncodeToString(h.Sum(nil))
}
