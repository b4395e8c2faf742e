package status

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

const (
	// memberCheck is how often a member is asked whether it can be reached, memberRecheck how often one that could not, and
	// memberJoin how often a new one that could not yet. An inventory takes a member for unhealthy whose agent was last heard of
	// 5 minutes ago: so one check may come to nothing, for whatever reason, before that.
	memberCheck   = 2 * time.Minute
	memberRecheck = 30 * time.Second
	memberJoin    = 5 * time.Second
	// memberMeasure is how often a member is measured, unless its namespaces are wanted, too: placements wait for those.
	memberMeasure = 10 * time.Minute
)

// Again is when the member is to be asked again. Spread, from 0 to 1, makes that a little earlier or later, by which members
// that were asked together come apart.
func (f *MemberFacts) Again(spread float64) time.Duration {
	switch {
	case f.joining():
		return memberJoin
	case f.Err != nil, f.Unmeasured:
		return memberRecheck
	default:
		return memberCheck*9/10 + time.Duration(spread*float64(memberCheck/5))
	}
}

// IsMeasuredAgain reports whether a member that was measured at a time is to be measured again, when it is asked.
func IsMeasuredAgain(last, now time.Time, namespaces bool) bool {
	return namespaces || now.Sub(last) >= memberMeasure-memberCheck/2
}

// MemberStatusOf is the status of a member with what the hub knows of it. What others report there stays: their conditions, their
// agents, and what the hub has not measured.
func MemberStatusOf(obj *unstructured.Unstructured, now *MemberStatus) (map[string]any, error) {
	own, err := api.ToMap(now)
	if err != nil {
		return nil, err
	}
	whole, _, _ := unstructured.NestedMap(obj.Object, "status")
	if whole == nil {
		return own, nil
	}
	keepSince(obj, own)
	if now.uncollected {
		dropNamespaces(whole)
	}
	mergeByType(whole, own, "conditions")
	mergeByType(whole, own, "agentStatus")
	for _, field := range []string{"resourceUsage", "namespaces"} {
		if v, ok := own[field]; ok {
			whole[field] = v
		}
	}
	if measured, ok := own["properties"].(map[string]any); ok {
		properties, _ := whole["properties"].(map[string]any)
		if properties == nil {
			properties = map[string]any{}
		}
		maps.Copy(properties, measured)
		whole["properties"] = properties
	}
	return whole, nil
}

// dropNamespaces takes away the namespaces that a hub wrote which collected them, as its condition says. Those of another client stay.
func dropNamespaces(whole map[string]any) {
	all, _ := whole["conditions"].([]any)
	kept := slices.DeleteFunc(slices.Clone(all), func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == api.ConditionNamespaceCollectionSucceeded && (m["message"] == allNamespaces || m["message"] == moreNamespaces)
	})
	if len(kept) < len(all) {
		whole["conditions"], whole["namespaces"] = kept, nil
	}
}

// allNamespaces and moreNamespaces are the messages of the condition about namespaces.
const (
	allNamespaces  = "All namespaces of the cluster are listed"
	moreNamespaces = "The cluster has more namespaces than are listed"
)

// keepSince leaves the time of the condition about namespaces where its status is what it was: no fact has it.
func keepSince(obj *unstructured.Unstructured, own map[string]any) {
	before := api.ConditionOf(obj, api.ConditionNamespaceCollectionSucceeded)
	all, _ := own["conditions"].([]any)
	for _, c := range all {
		if m := c.(map[string]any); m["type"] == api.ConditionNamespaceCollectionSucceeded && m["status"] == before.Status {
			m["lastTransitionTime"] = before.Since.UTC().Format(time.RFC3339)
		}
	}
}

// mergeByType puts the elements of own in front of those of whole that have another type.
func mergeByType(whole, own map[string]any, field string) {
	all, _ := own[field].([]any)
	theirs, _ := whole[field].([]any)
	for _, item := range theirs {
		m, ok := item.(map[string]any)
		same := func(mine any) bool { return mine.(map[string]any)["type"] == m["type"] }
		if ok && !slices.ContainsFunc(all, same) {
			all = append(all, m)
		}
	}
	if len(all) > 0 {
		whole[field] = all
	}
}

// MemberFactsOf is what is known of a member that was asked at now: when it joined, since when it is as it is and when it was
// last heard of stands in its status.
func MemberFactsOf(obj *unstructured.Unstructured, err error, now time.Time) *MemberFacts {
	f := &MemberFacts{
		Generation: obj.GetGeneration(), Created: obj.GetCreationTimestamp().Time, Err: err, Since: now, Now: now, Heartbeat: now,
	}
	if joined := api.ConditionOf(obj, api.ConditionJoined); joined.Status == "True" {
		f.Joined = joined.Since
	} else if err == nil {
		f.Joined = now
	}
	if healthy := api.ConditionOf(obj, api.ConditionHealthy); healthy.Status != "" && (healthy.Status == "True") == (err == nil) {
		f.Since = healthy.Since
	}
	if err != nil {
		f.Heartbeat = heartbeatOf(obj)
	}
	return f
}

// heartbeatOf is when the agent of a member was last heard of by its status, zero for never.
func heartbeatOf(obj *unstructured.Unstructured) (at time.Time) {
	agents, _, _ := unstructured.NestedSlice(obj.Object, "status", "agentStatus")
	for _, a := range agents {
		if m, ok := a.(map[string]any); ok && m["type"] == memberAgent {
			text, _ := m["lastReceivedHeartbeat"].(string)
			at, _ = time.Parse(time.RFC3339, text)
		}
	}
	return at
}

// MemberFacts are what the status of a MemberCluster is made of.
type MemberFacts struct {
	Generation int64
	Created    time.Time
	// Joined is when the cluster was first reached; zero for never.
	Joined time.Time
	// Err is why it could not be reached the last time, which was at Now, nil where
	// it could, and Since is since when that is so; zero where it was never tried.
	Err        error
	Since, Now time.Time
	// Heartbeat is when it was last reached, zero for never.
	Heartbeat time.Time
	// Uncollected reports whether namespaces are not to be listed: those that a hub listed before go.
	Uncollected bool
	// Measured is what it is made of, where that was just read and is the hub's to say; nil leaves what the status has.
	Measured *MemberMeasurement
	// Unmeasured reports whether the namespaces of the member were asked for and could not be read.
	Unmeasured bool
}

// MemberMeasurement is what was measured of a member, each part nil where it is not known, or others report it.
type MemberMeasurement struct {
	Nodes                            *int
	Capacity, Allocatable, Available map[string]resource.Quantity
	// Namespaces are those of the member; MoreNamespaces reports whether it has more.
	Namespaces     []string
	MoreNamespaces bool
}

// memberJoins is how long a new member may not be reached before it counts as one
// that has not joined.
const memberJoins = time.Minute

// joining reports whether a member was never reached, and not for long.
func (f *MemberFacts) joining() bool {
	return f.Joined.IsZero() && f.Err != nil && f.Now.Before(f.Since.Add(memberJoins))
}

// MemberStatus is the status of a MemberCluster, as far as the hub writes it.
type MemberStatus struct {
	Conditions    []metav1.Condition        `json:"conditions,omitempty"`
	AgentStatus   []MemberAgentStatus       `json:"agentStatus,omitempty"`
	Properties    map[string]MemberProperty `json:"properties,omitempty"`
	ResourceUsage *MemberUsage              `json:"resourceUsage,omitempty"`
	// Namespaces are those of the member, each with the work that it came from, which this hub has none of.
	Namespaces map[string]string `json:"namespaces,omitempty"`

	// uncollected is not part of the document: Merge drops the namespaces of the object if it is set.
	uncollected bool `json:"-"`
}

// MemberAgentStatus is what an agent reports of itself. Here the hub says it for one that is not there.
type MemberAgentStatus struct {
	Type                  string             `json:"type"`
	Conditions            []metav1.Condition `json:"conditions,omitempty"`
	LastReceivedHeartbeat metav1.Time        `json:"lastReceivedHeartbeat,omitzero"`
}

// MemberProperty is a property of a member.
type MemberProperty struct {
	Value           string      `json:"value"`
	ObservationTime metav1.Time `json:"observationTime"`
}

// MemberUsage is what a member has and what is left of it, by resource.
type MemberUsage struct {
	Capacity        map[string]string `json:"capacity,omitempty"`
	Allocatable     map[string]string `json:"allocatable,omitempty"`
	Available       map[string]string `json:"available,omitempty"`
	ObservationTime metav1.Time       `json:"observationTime"`
}

// NodeCount is the property that says how many nodes a member has.
const NodeCount = "kubernetes-fleet.io/node-count"

// memberAgent is the type of the agent that speaks for a member.
const memberAgent = "MemberAgent"

// Member is the status of a member. There is no agent on it that would report: it has joined once it could be reached with the
// credentials that the hub has for it, and is healthy as long as it can. What an agent would report the hub does, from then on.
func Member(f *MemberFacts) *MemberStatus {
	t := conditions{observedGeneration: f.Generation, created: max(stages.At(f.Created), 1)}
	out := &MemberStatus{Conditions: []metav1.Condition{
		t.isTrue(api.ConditionReadyToJoin, api.ReasonReadyToJoin, "The hub takes the cluster as a member", 0),
		f.joined(t), f.healthy(t),
	}}
	if !f.Joined.IsZero() && !f.Heartbeat.IsZero() {
		out.AgentStatus = []MemberAgentStatus{f.agent(t)}
	}
	out.uncollected = f.Uncollected
	if f.Measured != nil {
		f.measured(t, out)
	}
	return out
}

// agent is what the agent of a member would report that has joined.
func (f *MemberFacts) agent(t conditions) MemberAgentStatus {
	joined := t.isTrue(api.ConditionJoined, api.ReasonAgentJoined, "", stages.At(f.Joined))
	healthy := t.isTrue(api.ConditionHealthy, api.ReasonAgentHealthy, "", stages.At(f.Since))
	if f.Err != nil {
		healthy = t.isFalse(api.ConditionHealthy, api.ReasonAgentUnhealthy, f.Err.Error(), stages.At(f.Since))
	}
	return MemberAgentStatus{
		Type: memberAgent, Conditions: []metav1.Condition{joined, healthy}, LastReceivedHeartbeat: api.Seconds(stages.At(f.Heartbeat)),
	}
}

// measured adds what was measured.
func (f *MemberFacts) measured(t conditions, out *MemberStatus) {
	m, at := f.Measured, api.Seconds(stages.At(f.Now))
	if m.Nodes != nil {
		out.Properties = map[string]MemberProperty{NodeCount: {Value: strconv.Itoa(*m.Nodes), ObservationTime: at}}
	}
	if m.Capacity != nil {
		out.ResourceUsage = &MemberUsage{
			Capacity: texts(m.Capacity), Allocatable: texts(m.Allocatable), Available: texts(m.Available), ObservationTime: at,
		}
	}
	if m.Namespaces == nil {
		return
	}
	out.Namespaces = map[string]string{}
	for _, name := range m.Namespaces {
		out.Namespaces[name] = ""
	}
	const kind = api.ConditionNamespaceCollectionSucceeded
	if m.MoreNamespaces {
		out.Conditions = append(out.Conditions, t.isFalse(kind, api.ReasonNamespacesDegraded, moreNamespaces, stages.At(f.Now)))
		return
	}
	out.Conditions = append(out.Conditions, t.isTrue(kind, api.ReasonNamespacesCollected, allNamespaces, stages.At(f.Now)))
}

func texts(amounts map[string]resource.Quantity) map[string]string {
	out := map[string]string{}
	for name, q := range amounts {
		out[name] = q.String()
	}
	return out
}

func (f *MemberFacts) joined(t conditions) metav1.Condition {
	switch {
	case !f.Joined.IsZero():
		return t.isTrue(api.ConditionJoined, api.ReasonJoined, "The API server of the cluster was reached", stages.At(f.Joined))
	case f.joining():
		return t.isUnknown(api.ConditionJoined, api.ReasonNotReached, "The API server of the cluster has not been reached yet: "+f.Err.Error(), stages.At(f.Since))
	case f.Err != nil:
		return t.isFalse(api.ConditionJoined, api.ReasonUnreachable, f.Err.Error(), stages.At(f.Since.Add(memberJoins)))
	default:
		return t.isUnknown(api.ConditionJoined, api.ReasonNotReached, "The API server of the cluster has not been asked yet", 0)
	}
}

func (f *MemberFacts) healthy(t conditions) metav1.Condition {
	switch {
	case f.Err != nil:
		return t.isFalse(api.ConditionHealthy, api.ReasonUnreachable, f.Err.Error(), stages.At(f.Since))
	case f.Since.IsZero():
		return t.isUnknown(api.ConditionHealthy, api.ReasonNotReached, "The API server of the cluster has not been asked yet", 0)
	default:
		return t.isTrue(api.ConditionHealthy, api.ReasonHealthy, "The API server of the cluster answers", stages.At(f.Since))
	}
}
