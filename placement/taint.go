package placement

import "slices"

// Taint keeps policies that do not tolerate it away from a cluster.
type Taint struct {
	// Key is a name as labels have it.
	Key   string `json:"key"`
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule; a taint with another one keeps nothing away.
	Effect TaintEffect `json:"effect"`
}

// TaintEffect says what a taint does. The word is Kubernetes'.
type TaintEffect string

// NoSchedule keeps new placements away and leaves those that are there.
const NoSchedule TaintEffect = "NoSchedule"

// Toleration says which taints a policy tolerates.
type Toleration struct {
	// Key is that of the taints; empty, with the operator Exists, means every
	// key.
	Key string `json:"key,omitempty"`
	// Operator is Equal when empty.
	Operator TolerationOperator `json:"operator,omitempty"`
	// Value is that of the taints where the operator is Equal.
	Value string `json:"value,omitempty"`
	// Effect is that of the taints; empty means every effect.
	Effect TaintEffect `json:"effect,omitempty"`
}

// TolerationOperator says how a toleration compares a taint's value. The words are Kubernetes'.
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
