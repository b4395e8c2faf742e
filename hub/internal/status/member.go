package status

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/api/cluster/v1beta1"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
)

const (
	// memberCheck is the interval between checks whether a member can be reached, memberRecheck the
	// interval for an unreachable member, and memberJoin the interval for a new member that was
	// never reached. An inventory treats a member as unhealthy if its last heartbeat is 5 minutes
	// old, so one check may fail for any reason before that happens.
	memberCheck   = 2 * time.Minute
	memberRecheck = 30 * time.Second
	memberJoin    = 5 * time.Second
	// memberMeasure is the interval between measurements of a member. A hub that writes namespaces
	// measures at every check, because placements wait for namespaces.
	memberMeasure = 10 * time.Minute
)

// Again returns the time until the next check of the member. A spread from 0 to 1 shortens or
// extends the normal interval by up to 10%, so that members that were checked together separate.
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

// IsMeasuredAgain reports whether a check at now also measures the member, whose last measurement
// was at last. If namespaces are written, every check does.
func IsMeasuredAgain(last, now time.Time, namespaces bool) bool {
	return namespaces || now.Sub(last) >= memberMeasure-memberCheck/2
}

// MemberStatusOf returns the status of a member, updated with the facts of the hub. It keeps the
// conditions and agents of other clients, and all fields that the hub did not measure.
func MemberStatusOf(obj *unstructured.Unstructured, f *MemberFacts) (map[string]any, error) {
	own, err := api.ToMap(Member(f))
	if err != nil {
		return nil, err
	}
	whole, _, _ := unstructured.NestedMap(obj.Object, "status")
	if whole == nil {
		return own, nil
	}
	keepSince(obj, own)
	if f.Uncollected {
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

// dropNamespaces removes the namespaces that a hub collected, which it recognizes by the message of
// the condition. It keeps namespaces of other clients.
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

// keepSince keeps the time of the condition about namespaces if its status has not changed, because
// no fact records that time.
func keepSince(obj *unstructured.Unstructured, own map[string]any) {
	before := api.ConditionOf(obj, api.ConditionNamespaceCollectionSucceeded)
	all, _ := own["conditions"].([]any)
	for _, c := range all {
		if m := c.(map[string]any); m["type"] == api.ConditionNamespaceCollectionSucceeded && m["status"] == before.Status {
			m["lastTransitionTime"] = before.Since.UTC().Format(time.RFC3339)
		}
	}
}

// mergeByType sets the field of whole to the elements of own, followed by the elements of whole
// that have other types.
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

// MemberFactsOf returns the facts of a member that was checked at now with the result err. The
// times of joining, of the last change and of the last heartbeat come from its status.
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

// heartbeatOf returns the last heartbeat in the status of a member, zero if it has none.
func heartbeatOf(obj *unstructured.Unstructured) (at time.Time) {
	for _, a := range api.Status[v1beta1.MemberClusterStatus](obj).AgentStatus {
		if a.Type == v1beta1.MemberAgent {
			at = a.LastReceivedHeartbeat.Time
		}
	}
	return at
}

// MemberFacts are the input of [Member].
type MemberFacts struct {
	Generation int64
	Created    time.Time
	// Joined is when the cluster was first reached; zero if it never was.
	Joined time.Time
	// Err is the result of the last check at Now: why the cluster was unreachable, nil if it was
	// reached. Since is when that result began; zero if the cluster was never checked.
	Err        error
	Since, Now time.Time
	// Heartbeat is when the cluster was last reached; zero if it never was.
	Heartbeat time.Time
	// Uncollected reports whether the hub lists no namespaces. Then it removes namespaces that a
	// hub listed before.
	Uncollected bool
	// Measured is a new measurement, without the fields that other clients write; nil keeps the
	// measurement in the status.
	Measured *MemberMeasurement
	// Unmeasured reports whether reading the namespaces of the member was necessary and failed.
	Unmeasured bool
}

// MemberMeasurement is a measurement of a member. A field is nil if it is unknown or another client
// writes it.
type MemberMeasurement struct {
	Nodes                            *int
	Capacity, Allocatable, Available map[string]resource.Quantity
	// Namespaces are namespaces of the member; MoreNamespaces reports whether it has more.
	Namespaces     []string
	MoreNamespaces bool
}

// memberJoins is the time that a new member may be unreachable before it counts as not
// joined.
const memberJoins = time.Minute

// joining reports whether a member was never reached, but for less than memberJoins.
func (f *MemberFacts) joining() bool {
	return f.Joined.IsZero() && f.Err != nil && f.Now.Before(f.Since.Add(memberJoins))
}

// NodeCount is the property for the number of nodes of a member.
const NodeCount = "kubernetes-fleet.io/node-count"

// Member returns the status of a member. There is no agent on the member, so the hub writes the
// report of the agent. The member has joined once the hub has reached it with its credentials, and
// is healthy while the hub can reach it.
func Member(f *MemberFacts) *v1beta1.MemberClusterStatus {
	t := conditions{observedGeneration: f.Generation, created: max(stages.At(f.Created), 1)}
	out := &v1beta1.MemberClusterStatus{Conditions: []metav1.Condition{
		t.isTrue(api.ConditionReadyToJoin, api.ReasonReadyToJoin, "The hub takes the cluster as a member", 0),
		f.joined(t), f.healthy(t),
	}}
	if !f.Joined.IsZero() && !f.Heartbeat.IsZero() {
		out.AgentStatus = []v1beta1.AgentStatus{f.agent(t)}
	}
	if f.Measured != nil {
		f.measured(t, out)
	}
	return out
}

// agent returns the report that the agent of a joined member would write.
func (f *MemberFacts) agent(t conditions) v1beta1.AgentStatus {
	joined := t.isTrue(api.ConditionJoined, api.ReasonAgentJoined, "", stages.At(f.Joined))
	healthy := t.isTrue(api.ConditionHealthy, api.ReasonAgentHealthy, "", stages.At(f.Since))
	if f.Err != nil {
		healthy = t.isFalse(api.ConditionHealthy, api.ReasonAgentUnhealthy, f.Err.Error(), stages.At(f.Since))
	}
	return v1beta1.AgentStatus{
		Type: v1beta1.MemberAgent, Conditions: []metav1.Condition{joined, healthy}, LastReceivedHeartbeat: api.Seconds(stages.At(f.Heartbeat)),
	}
}

// measured adds the measurement to out.
func (f *MemberFacts) measured(t conditions, out *v1beta1.MemberClusterStatus) {
	m, at := f.Measured, api.Seconds(stages.At(f.Now))
	if m.Nodes != nil {
		out.Properties = map[v1beta1.PropertyName]v1beta1.PropertyValue{NodeCount: {Value: strconv.Itoa(*m.Nodes), ObservationTime: at}}
	}
	if m.Capacity != nil {
		out.ResourceUsage = v1beta1.ResourceUsage{
			Capacity: m.Capacity, Allocatable: m.Allocatable, Available: m.Available, ObservationTime: at,
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
