// Package check defines the checks that a strategy measures during a rollout, and judges their
// measurements.
//
// A [Check] has a query whose answer is one number, for example in PromQL, and limits for that
// number. Its vocabulary and its phases are from Argo Rollouts metrics: Successful, Failed, Error
// and Inconclusive. A stage has checks before and after it, as tasks, checks during the stage, and
// checks for each of its clusters once the cluster is healthy.
//
// Related packages: stages decides when to measure and how a result affects the run. Package
// fleet asks a provider of the host, a [github.com/slipway-dev/slipway/backend.MetricProvider].
// This package does no I/O.
package check

import (
	"fmt"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase is the result of a measurement, or the state of a whole check.
type Phase string

// The phases.
const (
	// Running: the check needs more measurements. A measurement is never Running.
	Running Phase = "Running"
	// Successful: the number was within its bounds.
	Successful Phase = "Successful"
	// Failed: the number was outside its bounds.
	Failed Phase = "Failed"
	// Error: there is no measurement because the provider did not answer, or did not answer
	// with a single number.
	Error Phase = "Error"
	// Inconclusive: there was no number, or it was NaN. A check with more such measurements than its
	// InconclusiveLimit is not measured again, because a person must decide. Until the check expires,
	// the cluster keeps its slot or the gate delays its stage. Then the check counts as Failed. After
	// that, a retry of the cluster measures again, and a run that can be started again restarts the
	// checks of its gate. A person may skip the cluster, the group or the stage to continue at once
	// without the check; no approval makes the check Successful. A check during a stage is measured
	// again, and lets no cluster start until it is Successful.
	Inconclusive Phase = "Inconclusive"
)

// Check defines a measurement and the bounds of its number. Durations are from 0 to 365 days.
type Check struct {
	// Name is a DNS label, unique in its list.
	Name string `json:"name"`
	// Provider is the host's name of the metric provider. Empty means its only provider.
	Provider string `json:"provider,omitempty"`
	// Query is a query in the language of the provider, at most 4096 bytes, with one number
	// as its result. Words in double braces are replaced, see [Check.Resolve].
	Query string `json:"query,omitempty"`
	// Object names a check object of the snapshot, such as a test Job, in place of a query.
	// Each measurement applies the object under a new name, awaits it and removes it. Only
	// checks of tasks and of clusters may have an Object; a check of clusters applies it to
	// the cluster. The annotation [Annotation] gives an object of the snapshot this name.
	Object string `json:"object,omitempty"`
	// Cluster is the cluster to which a task's check applies its Object. It is any cluster
	// of the inventory, for example the hub if it is in the inventory; for a placement of a
	// namespace it must be a cluster of the run. If it is a cluster of the run, the gates before it
	// must be open before the check, and the run must not clean it.
	Cluster string `json:"cluster,omitempty"`
	// ClusterLabel is the label by which the query of a check of clusters returns a number
	// for each cluster, as "sum by (cluster) (…)" does. The query is then asked once for all clusters
	// that are due, and must not name a cluster. Without ClusterLabel it is asked once for each
	// cluster.
	ClusterLabel string `json:"clusterLabel,omitempty"`
	// Min and Max are the inclusive bounds of a good number. A Query needs at least one of
	// them. An Object must have none: it is good if it is healthy, and bad if waiting
	// cannot make it healthy.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// InitialDelay is the time from the beginning of the check to the first measurement, at
	// least 1 s. It should cover the time until a change shows in the measured values, for
	// example two scrape intervals.
	InitialDelay metav1.Duration `json:"initialDelay,omitzero"`
	// Interval is the time between measurements, at least 1 s if it is set. It is required
	// if Count is more than 1. Default: 10 s.
	Interval metav1.Duration `json:"interval,omitzero"`
	// Count is the number of measurements that must be Successful; default 1. A check during a
	// stage must not set it.
	Count int `json:"count,omitempty"`
	// FailureLimit is the maximum number of Failed measurements, and InconclusiveLimit the maximum
	// number of [Inconclusive] ones.
	FailureLimit      int `json:"failureLimit,omitempty"`
	InconclusiveLimit int `json:"inconclusiveLimit,omitempty"`
	// ConsecutiveErrorLimit is the maximum number of Errors in a row; default 4.
	ConsecutiveErrorLimit *int `json:"consecutiveErrorLimit,omitempty"`
	// Empty is the phase of a measurement whose answer has no number, or NaN: Successful, Failed or
	// Inconclusive (default).
	Empty Phase `json:"empty,omitempty"`
	// Expires is the time from the beginning of the check after which it has failed.
	// Default: 24 h. A check during a stage must not set it.
	Expires metav1.Duration `json:"expires,omitzero"`
}

// Annotation marks an object of a snapshot as a check object, which is applied only to make a
// measurement, see [Check].Object. Its value is the name that checks use. The object is not placed
// on clusters with the other objects, but the snapshot's digest covers it.
const Annotation = "slipway.dev/check"

// Defaults of a check.
const (
	DefaultInterval    = 10 * time.Second
	DefaultErrorLimit  = 4
	DefaultExpires     = 24 * time.Hour
	maxQuery           = 4096
	maxNumber          = math.MaxInt32
	shortestInterval   = time.Second
	shortestWindow     = time.Second
	longest            = 365 * 24 * time.Hour
	maxProviderName    = 253
	maxChecks          = 16
	maxMeasuredMessage = 160
)

// Delay returns the time from the beginning of the check to the first measurement. It is at least 1
// s, the shortest window of a query, because an earlier measurement could show the state before the
// change.
func (c *Check) Delay() time.Duration { return max(c.InitialDelay.Duration, shortestWindow) }

// Every returns the time between measurements.
func (c *Check) Every() time.Duration {
	if c.Interval.Duration > 0 {
		return c.Interval.Duration
	}
	return DefaultInterval
}

// Needed returns how many measurements must be Successful.
func (c *Check) Needed() int { return max(c.Count, 1) }

// ErrorLimit is how many measurements in a row may be an Error.
func (c *Check) ErrorLimit() int {
	if c.ConsecutiveErrorLimit != nil {
		return *c.ConsecutiveErrorLimit
	}
	return DefaultErrorLimit
}

// Lifetime returns how long the check may take.
func (c *Check) Lifetime() time.Duration {
	if c.Expires.Duration > 0 {
		return c.Expires.Duration
	}
	return DefaultExpires
}

// Answer is a provider's answer to a query.
type Answer struct {
	// Values are the numbers; there should be exactly one. For an object it is 1 if healthy
	// and 0 if failed.
	Values []float64
	// Message is the object's message for people.
	Message string
	// Err is the reason why there is no answer; empty if the provider answered.
	Err string
}

// Measurement is a judged answer.
type Measurement struct {
	Phase Phase
	// Value is the number as text because JSON has no NaN and infinities; empty if there is
	// none.
	Value string
	// Message describes the problem. It is empty if the measurement is Successful. For an object it is
	// the end of the object's message even then.
	Message string
}

// Judge turns an answer into a measurement.
func (c *Check) Judge(a Answer) Measurement {
	switch {
	case a.Err != "":
		return Measurement{Phase: Error, Message: cut(a.Err)}
	case len(a.Values) > 1:
		return Measurement{Phase: Error, Message: fmt.Sprintf("the query has %d results and must have one: aggregate them, for example by sum or max", len(a.Values))}
	case len(a.Values) == 0:
		return c.empty("", "the query has no result")
	}
	v := a.Values[0]
	m := Measurement{Phase: Successful, Value: strconv.FormatFloat(v, 'g', -1, 64)}
	if c.Object != "" {
		m.Message = cutFront(a.Message)
		if v != 1 {
			m.Phase = Failed
		}
		return m
	}
	switch {
	case math.IsNaN(v):
		return c.empty(m.Value, "the result is not a number (NaN)")
	case c.Max != nil && v > *c.Max:
		m.Phase, m.Message = Failed, m.Value+" is more than "+bound(c.Max)
	case c.Min != nil && v < *c.Min:
		m.Phase, m.Message = Failed, m.Value+" is less than "+bound(c.Min)
	}
	return m
}

func bound(v *float64) string { return strconv.FormatFloat(*v, 'g', -1, 64) }

func (c *Check) empty(value, why string) Measurement {
	m := Measurement{Phase: c.Empty, Value: value, Message: why}
	switch m.Phase {
	case Successful:
		m.Message = ""
	case "":
		m.Phase = Inconclusive
	default:
	}
	return m
}

// cut bounds a message.
func cut(m string) string {
	if len(m) <= maxMeasuredMessage {
		return m
	}
	end := maxMeasuredMessage - len("…")
	for end > 0 && m[end]&0xC0 == 0x80 {
		end--
	}
	return m[:end] + "…"
}

// cutFront bounds a message and keeps its end, which says most.
func cutFront(m string) string {
	if len(m) <= maxMeasuredMessage {
		return m
	}
	begin := len(m) - maxMeasuredMessage + len("…")
	for begin < len(m) && m[begin]&0xC0 == 0x80 {
		begin++
	}
	return "…" + m[begin:]
}
