package placement

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// canonicalPolicy is the content of a policy that its digest covers, without the order of its
// lists and without the number of clusters.
type canonicalPolicy struct {
	Type        Type     `json:"placementType"`
	Names       []string `json:"clusterNames,omitempty"`
	Required    []string `json:"required,omitempty"`
	Preferred   []string `json:"preferred,omitempty"`
	Spread      []string `json:"topologySpreadConstraints,omitempty"`
	Tolerations []string `json:"tolerations,omitempty"`
}

// digest returns the sha256 of the policy's canonical JSON, in hex.
func (p Policy) digest() (string, error) {
	c := canonicalPolicy{Type: cmp.Or(p.Type, PickAll), Names: slices.Sorted(slices.Values(p.ClusterNames))}
	var errs [4]error
	c.Required, errs[0] = jsonSet("required", mapped(p.Required, Term.sorted))
	c.Preferred, errs[1] = jsonSet("preferred", p.Preferred)
	c.Spread, errs[2] = jsonSet("topologySpreadConstraints", mapped(p.Spread, SpreadConstraint.defaulted))
	c.Tolerations, errs[3] = jsonSet("tolerations", mapped(p.Tolerations, Toleration.defaulted))
	if err := errors.Join(errs[:]...); err != nil {
		return "", fmt.Errorf("placement policy: %w", err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("placement policy: %w", err)
	}
	return hexSum(b), nil
}

// jsonSet returns the JSON of each element, ascending.
func jsonSet[T any](name string, list []T) ([]string, error) {
	var out []string
	for i := range list {
		b, err := json.Marshal(&list[i])
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, err)
		}
		out = append(out, string(b))
	}
	slices.Sort(out)
	return out, nil
}

func mapped[T any](list []T, f func(T) T) []T {
	out := slices.Clone(list)
	for i := range out {
		out[i] = f(out[i])
	}
	return out
}

// sorted returns the term with its properties in a canonical order.
func (t Term) sorted() Term {
	t.Properties = slices.Clone(t.Properties)
	slices.SortFunc(t.Properties, func(a, b PropertyRequirement) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Operator), string(b.Operator)), a.Value.Cmp(b.Value))
	})
	return t
}

func (t Toleration) defaulted() Toleration {
	t.Operator = cmp.Or(t.Operator, Equal)
	return t
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// defaulted returns the constraint with its defaults in place.
func (s SpreadConstraint) defaulted() SpreadConstraint {
	s.MaxSkew = cmp.Or(s.MaxSkew, 1)
	s.WhenUnsatisfiable = cmp.Or(s.WhenUnsatisfiable, DoNotSchedule)
	return s
}
