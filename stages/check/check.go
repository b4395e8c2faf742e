// Package check says what a strategy measures while it rolls out, and what a measurement comes to.
//
// A [Check] asks a question that has one number as its answer, such as a query of PromQL, and says between which bounds the
// number has to be. Its words are those of an Argo Rollouts metric, and so are its phases: Successful, Failed, Error and
// Inconclusive. A stage has checks before it and after it, as tasks; while it goes on; and for each of its clusters, once
// that is healthy.
//
// Neighbours: package stages decides when to measure, and what follows; package fleet asks a provider of the host, which is a
// [github.com/slipway-dev/slipway/backend.MetricProvider]. This package does no I/O.
package check

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Phase is what a measurement, or a check as a whole, has come to.
type Phase string

// The phases.
const (
	// Running: more has to be measured. Only a check is.
	Running Phase = "Running"
	// Successful: the number was within its bounds.
	Successful Phase = "Successful"
	// Failed: it was not.
	Failed Phase = "Failed"
	// Error: nothing was measured, because the provider did not answer, or answered with something else than one number.
	Error Phase = "Error"
	// Inconclusive: there was no number, or it was NaN. A check that has come to it, by more such measurements than its
	// InconclusiveLimit, is not measured again: it is for a person to decide. Until it expires, what it is about waits: a
	// cluster keeps its slot, a gate holds its stage. Then it has failed, as a check that is Failed has: the cluster, which a
	// retry measures again, or the run, which begins the checks of its gate again where it can be started again. A skip of the
	// cluster, the group or the stage goes on without it at once; no approval makes it Successful. A check that goes on for as
	// long as its stage does is measured again, and lets no cluster start until it is Successful.
	Inconclusive Phase = "Inconclusive"
)

// Check is what has to be measured, and what the number has to be. Durations are from 0 to 365 days.
type Check struct {
	// Name is a DNS label, unique in its list.
	Name string `json:"name"`
	// Provider is the name by which the host knows what is asked. Empty is the only one that it has.
	Provider string `json:"provider,omitempty"`
	// Query is in the provider's language, at most 4096 bytes, and comes to one number. What stands in double braces is
	// replaced, see [Check.Resolve].
	Query string `json:"query,omitempty"`
	// Object is the name of a check object of the snapshot, such as a Job that tests something, instead of a query: it is
	// applied, awaited and removed; each measurement applies it under a name of its own. Only checks of clusters, which apply it to the
	// cluster, and of tasks have one. What the snapshot has by that name is what the annotation [Annotation] says.
	Object string `json:"object,omitempty"`
	// Cluster, of a task's check with an Object, is the cluster of the inventory to which it is applied: one of the
	// placement or another one, for example the hub where it is in the inventory. A placement of a namespace has one of the
	// run's own. A cluster of the run must have its gates opened before the check, and must not be cleaned by the run.
	Cluster string `json:"cluster,omitempty"`
	// ClusterLabel, of a check of clusters, is the label by which the query has a number for each of them, as
	// "sum by (cluster) (…)" has: it is asked once for all clusters that are due, and names none. Without it the query is
	// asked for each cluster.
	ClusterLabel string `json:"clusterLabel,omitempty"`
	// Min and Max are the bounds, which a good number may have. At least one is set with a Query, none with an Object, which
	// is good when it is healthy, and bad when waiting will not make it so.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// InitialDelay is how long after its beginning the first measurement is made, 1 s where it is less. It should be as long as it
	// takes until a change shows in what is measured, for example two scrape intervals.
	InitialDelay time.Duration `json:"initialDelay,omitempty"`
	// Interval is the time between measurements, at least 1 s where it is set, and needed where Count is more than 1. Default:
	// 10 s.
	Interval time.Duration `json:"interval,omitempty"`
	// Count is how many measurements have to be Successful; default 1. A check that goes on for as long as its stage does has
	// none.
	Count int `json:"count,omitempty"`
	// FailureLimit is how many measurements may be Failed. InconclusiveLimit is how many may be [Inconclusive].
	FailureLimit      int `json:"failureLimit,omitempty"`
	InconclusiveLimit int `json:"inconclusiveLimit,omitempty"`
	// ConsecutiveErrorLimit is how many in a row may be an Error; default 4.
	ConsecutiveErrorLimit *int `json:"consecutiveErrorLimit,omitempty"`
	// Empty is what a measurement without a number, or with NaN, comes to: Successful, Failed or Inconclusive, which is the
	// default.
	Empty Phase `json:"empty,omitempty"`
	// Expires is how long the check may take, from its beginning: past it, it has failed. Default: 24 h. A check that goes on
	// for as long as its stage does has none.
	Expires time.Duration `json:"expires,omitempty"`
}

// Annotation marks an object of a snapshot as a check object; its value is the name by which checks know it. It is not placed
// on clusters with the rest, and is part of the snapshot's digest as the rest is.
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

// Delay is the time until the first measurement: at least 1 s, the shortest window of a query, because an earlier
// measurement could be of the state before.
func (c *Check) Delay() time.Duration { return max(c.InitialDelay, shortestWindow) }

// Every is the time between measurements.
func (c *Check) Every() time.Duration {
	if c.Interval > 0 {
		return c.Interval
	}
	return DefaultInterval
}

// Needed is how many measurements have to be Successful.
func (c *Check) Needed() int { return max(c.Count, 1) }

// ErrorLimit is how many measurements in a row may be an Error.
func (c *Check) ErrorLimit() int {
	if c.ConsecutiveErrorLimit != nil {
		return *c.ConsecutiveErrorLimit
	}
	return DefaultErrorLimit
}

// Lifetime is how long the check may take.
func (c *Check) Lifetime() time.Duration {
	if c.Expires > 0 {
		return c.Expires
	}
	return DefaultExpires
}

// Answer is what a provider said to a query.
type Answer struct {
	// Values are the numbers, of which there should be one. Of an object it is 1 where it is healthy, and 0 where it has failed.
	Values []float64
	// Message is what an object says, for people.
	Message string
	// Err says why there is none, "" where the provider answered.
	Err string
}

// Measurement is what an answer comes to.
type Measurement struct {
	Phase Phase
	// Value is the number as text, since NaN and infinities are none in JSON; "" where there is none.
	Value string
	// Message says what is wrong with it; "" of a Successful one, but of an object, whose end of what it says is kept.
	Message string
}

// Judge says what an answer comes to.
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

// cutFront bounds a message of which the end says most.
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
