package placement

import "slices"

// Taint keeps policies that do not tolerate it away from a cluster.
type Taint struct {
	// Key has the form of a label key.
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule; a taint with another effect is ignored.
	Effect TaintEffect `json:"effect"`
}

// TaintEffect is the effect of a taint. The term is Kubernetes'.
type TaintEffect string

// NoSchedule keeps new placements away and does not affect existing ones.
const NoSchedule TaintEffect = "NoSchedule"

// Toleration says which taints a policy tolerates.
type Toleration struct {
	// Key is the key of the taints. If it is empty, the operator must be Exists, and every key
	// matches.
	Key string `json:"key,omitempty"`
	// Operator is Equal when empty.
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value is the value of the taints for the operator Equal.
	Value string `json:"value,omitempty"`
	// Effect is the effect of the taints; empty means every effect.
	Effect TaintEffect `json:"effect,omitempty"`
}

// TolerationOperator says how a toleration compares a taint's value. The terms are Kubernetes'.
type TolerationOperator string

// The operators of a [Toleration].
const (
	// Equal tolerates taints with the key and the value.
	Equal TolerationOperator = "Equal"
	// Exists tolerates taints with the key, whatever their value.
	Exists TolerationOperator = "Exists"
)

// String returns the taint as errors and reasons print it.
func (t Taint) String() string {
	s := clip(t.Key)
	if t.Value != "" {
		s += "=" + clip(t.Value)
	}
	return s + ":" + string(t.Effect)
}

func (t Toleration) tolerates(taint Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	return t.Operator == Exists || t.Value == taint.Value
}

// repels returns the first taint of a cluster that the policy does not tolerate.
func (p Policy) repels(c *Cluster) (Taint, bool) {
	i := slices.IndexFunc(c.Taints, func(taint Taint) bool {
		tolerated := slices.ContainsFunc(p.Tolerations, func(t Toleration) bool { return t.tolerates(taint) })
		return taint.Effect == NoSchedule && !tolerated
	})
	if i < 0 {
		return Taint{}, false
	}
	return c.Taints[i], true
}
