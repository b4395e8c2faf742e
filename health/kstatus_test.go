package health_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/health"
)

// verdictCase is an object and its health; message is a part of the text, "" for none at all.
type verdictCase struct {
	object, want, message string
}

func checkVerdicts(t *testing.T, cases map[string]verdictCase) {
	t.Helper()
	for name, c := range cases {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(c.object), &obj.Object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		whole(obj.Object)
		before := obj.DeepCopy()
		ready, failed, message := health.Kstatus(obj)
		got := map[[2]bool]string{{true, false}: "ready", {false, true}: "failed", {false, false}: "waits"}[[2]bool{ready, failed}]
		if got != c.want || !strings.Contains(message, c.message) || c.message == "" && message != "" {
			t.Errorf("%s: got %s, %q; want %s, %q", name, got, message, c.want, c.message)
		}
		if !equalJSON(t, before, obj) {
			t.Errorf("%s: the object was changed", name)
		}
	}
}

// whole converts numbers of YAML to the types of a cluster: whole numbers are int64. Because 1.0
// would become one, too, it is written as 1.5e0*2.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = whole(e)
		}
	case []any:
		for i, e := range v {
			v[i] = whole(e)
		}
	case float64:
		if n := int64(v); float64(n) == v && v < 1e15 && v > -1e15 {
			return n
		}
	}
	return v
}

func equalJSON(t *testing.T, a, b *unstructured.Unstructured) bool {
	t.Helper()
	x, err := a.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	y, err := b.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

func custom(status string) string {
	return "{apiVersion: example.io/v1, kind: Thing, metadata: {name: x, generation: 2}, status: " + status + "}"
}

// A condition that was written for an older generation proves nothing, for or against an object.
func TestConditionsOfAnOlderGeneration(t *testing.T) {
	const old = "its condition Ready is of generation 1, and the object of 2"
	checkVerdicts(t, map[string]verdictCase{
		"ready before":              {custom("{conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}"), "waits", old},
		"ready now":                 {custom("{conditions: [{type: Ready, status: 'True', observedGeneration: 2}]}"), "ready", ""},
		"ready, not dated":          {custom("{conditions: [{type: Ready, status: 'True'}]}"), "ready", ""},
		"as text":                   {custom("{conditions: [{type: Ready, status: 'True', observedGeneration: '1'}]}"), "waits", old},
		"the status is of now":      {custom("{observedGeneration: 2, conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}"), "waits", old},
		"stalled before":            {custom("{conditions: [{type: Stalled, status: 'True', observedGeneration: 1}]}"), "waits", "Stalled is of generation 1"},
		"failed before":             {custom("{conditions: [{type: Failed, status: 'True', observedGeneration: 1}]}"), "waits", "Failed is of generation 1"},
		"reconciling before, ready": {custom("{conditions: [{type: Reconciling, status: 'True', observedGeneration: 1}, {type: Ready, status: 'True', observedGeneration: 2}]}"), "ready", ""},
		"an unknown type before":    {custom("{conditions: [{type: Synchronised, status: 'True', observedGeneration: 1}]}"), "waits", "Synchronised is of generation 1"},
		"an old one beside Ready":   {custom("{conditions: [{type: Issuing, status: 'False', observedGeneration: 1}, {type: Ready, status: 'True', observedGeneration: 2}]}"), "ready", ""},
		"Available beside Ready":    {custom("{conditions: [{type: Available, status: 'True', observedGeneration: 1}, {type: Ready, status: 'True', observedGeneration: 2}]}"), "ready", ""},
		"Available without Ready":   {custom("{conditions: [{type: Available, status: 'True', observedGeneration: 1}, {type: Other, status: 'True', observedGeneration: 2}]}"), "waits", "Available is of generation 1"},
		"Ready, another is of now":  {custom("{conditions: [{type: Ready, status: 'True', observedGeneration: 1}, {type: Other, status: 'True', observedGeneration: 2}]}"), "waits", old},
		"a newer generation":        {custom("{conditions: [{type: Ready, status: 'True', observedGeneration: 3}]}"), "ready", ""},
		"a Deployment": {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: {replicas: 1}, status: {observedGeneration: 2, replicas: 1," +
			" updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1, conditions: [{type: Available, status: 'True', observedGeneration: 1}]}}", "waits", "Deployment not Available"},
		"a Pod": {"{apiVersion: v1, kind: Pod, metadata: {generation: 2}, status: {phase: Running, conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}}", "waits", "not Ready"},
		"a Service": {"{apiVersion: v1, kind: Service, metadata: {generation: 2}, spec: {clusterIP: 10.0.0.1}," +
			" status: {conditions: [{type: LoadBalancerPortsError, status: 'False', observedGeneration: 1}]}}", "ready", ""},
		"an object without generation": {"{apiVersion: example.io/v1, kind: Thing, status: {conditions: [{type: Ready, status: 'True', observedGeneration: 1}]}}", "ready", ""},
	})
}

func gateway(kind, spec, status string) string {
	return "{apiVersion: gateway.networking.k8s.io/v1, kind: " + kind + ", metadata: {generation: 2}, spec: " + spec + ", status: " + status + "}"
}

// Conditions of parts of an object count by the conventions of the Gateway API.
func TestConditionsOfParts(t *testing.T) {
	parent := func(status string, generation string) string {
		return "{parents: [{controllerName: c, conditions: [{type: Accepted, status: '" + status + "', observedGeneration: " + generation + "}]}]}"
	}
	up := "conditions: [{type: Accepted, status: 'True', observedGeneration: 2}, {type: Programmed, status: 'True', observedGeneration: 2}]"
	checkVerdicts(t, map[string]verdictCase{
		"a route":                    {gateway("HTTPRoute", "{parentRefs: [{name: g}]}", parent("True", "2")), "ready", ""},
		"a route, before":            {gateway("HTTPRoute", "{parentRefs: [{name: g}]}", parent("True", "1")), "waits", "status.parents[0]: its condition Accepted is of generation 1, and the object of 2"},
		"a route, refused":           {gateway("GRPCRoute", "{parentRefs: [{name: g}]}", parent("False", "2")), "waits", "status.parents[0]: Accepted is False"},
		"a route, refused before":    {gateway("GRPCRoute", "{parentRefs: [{name: g}]}", parent("False", "1")), "waits", "of generation 1"},
		"a route that nothing took":  {gateway("TLSRoute", "{parentRefs: [{name: g}]}", "{parents: []}"), "waits", "status.parents is empty"},
		"a route without parents":    {gateway("TCPRoute", "{}", "{parents: []}"), "ready", ""},
		"a route, the second":        {gateway("UDPRoute", "{}", "{parents: [{controllerName: c}, {controllerName: d, conditions: [{type: ResolvedRefs, status: 'False', message: nope}]}]}"), "waits", "status.parents[1]: ResolvedRefs is False: nope"},
		"a policy":                   {gateway("BackendTLSPolicy", "{}", "{ancestors: [{controllerName: c, conditions: [{type: Accepted, status: 'True', observedGeneration: 1}]}]}"), "waits", "status.ancestors[0]"},
		"a gateway":                  {gateway("Gateway", "{}", "{"+up+", listeners: [{name: a, conditions: [{type: Programmed, status: 'True', observedGeneration: 2}]}]}"), "ready", ""},
		"a listener":                 {gateway("Gateway", "{}", "{"+up+", listeners: [{name: a, conditions: [{type: Programmed, status: 'False', reason: Invalid, observedGeneration: 2}]}]}"), "waits", "status.listeners[0]: Programmed is False: Invalid"},
		"a listener, before":         {gateway("Gateway", "{}", "{"+up+", listeners: [{name: a, conditions: [{type: Programmed, status: 'True', observedGeneration: 1}]}]}"), "waits", "status.listeners[0]"},
		"parents of something else":  {custom("{parents: [{conditions: [{type: Accepted, status: 'False', observedGeneration: 1}]}]}"), "ready", ""},
		"parents of a wrong shape":   {gateway("HTTPRoute", "{parentRefs: [{name: g}]}", "{parents: [x, {controllerName: c, conditions: true}]}"), "ready", "conditions is a bool and not a list"},
		"listeners of a wrong shape": {gateway("Gateway", "{}", "{"+up+", listeners: 7}"), "ready", ""},
	})
}

// A status that cannot be read is left out, and the object is judged by the rest.
func TestStatusesOfAnyShape(t *testing.T) {
	const isReady, notReady = "{type: Ready, status: 'True'}", "{type: Ready, status: 'False', message: nope}"
	both := "[" + isReady + ", " + notReady + "]"
	checkVerdicts(t, map[string]verdictCase{
		"true":                        {custom("true"), "ready", "judged by the rest, because status is a bool and not an object"},
		"text":                        {custom("up"), "ready", "status is text"},
		"a list":                      {custom("[]"), "ready", "status is a list"},
		"a number":                    {custom("7"), "ready", "status is the number 7"},
		"null":                        {custom("null"), "ready", ""},
		"a Deployment's is true":      {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, status: true}", "waits", "Replicas: 0/1; judged by the rest, because status is a bool"},
		"a DaemonSet's is text":       {"{apiVersion: apps/v1, kind: DaemonSet, metadata: {generation: 2}, spec: {updateStrategy: {type: OnDelete}}, status: x}", "waits", "status is text"},
		"generation as text":          {custom("{observedGeneration: '2', conditions: [" + isReady + "]}"), "ready", ""},
		"generation as older text":    {custom("{observedGeneration: '1', conditions: [" + isReady + "]}"), "waits", "its status is of generation 1, and the object of 2"},
		"generation as words":         {custom("{observedGeneration: two, conditions: [" + isReady + "]}"), "ready", "status.observedGeneration is text and not a whole number"},
		"generation as words, false":  {custom("{observedGeneration: two, conditions: [" + notReady + "]}"), "waits", "nope; judged by the rest"},
		"generation with spaces":      {custom("{observedGeneration: ' 1 '}"), "waits", "its status is of generation 1"},
		"empty generation":            {custom("{observedGeneration: ''}"), "ready", "not a whole number"},
		"a negative generation":       {custom("{observedGeneration: -1}"), "waits", "its status is of generation -1"},
		"a fraction":                  {custom("{observedGeneration: 1.5}"), "ready", "the number 1.5 and not a whole number"},
		"null generation":             {custom("{observedGeneration: null, conditions: [" + isReady + "]}"), "ready", ""},
		"a huge generation":           {custom("{observedGeneration: 1e300}"), "ready", "not a whole number"},
		"a huge generation as text":   {custom("{observedGeneration: '99999999999999999999'}"), "ready", "not a whole number"},
		"a generation that is to be":  {custom("{observedGeneration: 7, conditions: [" + notReady + "]}"), "waits", "nope; judged by the rest, because status.observedGeneration is 7"},
		"a bool generation":           {custom("{observedGeneration: true}"), "ready", "a bool and not a whole number"},
		"a list generation":           {custom("{observedGeneration: [2]}"), "ready", "a list and not a whole number"},
		"conditions by type":          {custom("{conditions: {Ready: {status: 'False', message: nope}}}"), "waits", "nope; judged by the rest, because status.conditions is an object and not a list"},
		"conditions by type, true":    {custom("{conditions: {Ready: {status: 'True'}}}"), "ready", "status.conditions is an object"},
		"conditions by type, text":    {custom("{conditions: {Ready: 'False'}}"), "waits", "status.conditions is an object"},
		"conditions by type, bool":    {custom("{conditions: {Ready: false}}"), "waits", "the status of Ready is a bool"},
		"conditions by type, before":  {custom("{conditions: {Ready: {status: 'True', observedGeneration: '1'}}}"), "waits", "its condition Ready is of generation 1"},
		"one condition, no list":      {custom("{conditions: {type: Ready, status: 'False', message: nope}}"), "waits", "nope; judged by the rest"},
		"a list of texts":             {custom("{conditions: [Ready]}"), "ready", "status.conditions has an entry without a type"},
		"a list of lists":             {custom("{conditions: [[]]}"), "ready", "an entry without a type"},
		"a list of nulls":             {custom("{conditions: [null, " + notReady + "]}"), "waits", "nope; judged by the rest"},
		"conditions as text":          {custom("{conditions: none}"), "ready", "status.conditions is text and not a list"},
		"conditions are null":         {custom("{conditions: null}"), "ready", ""},
		"a condition with true":       {custom("{conditions: [{type: Ready, status: true}]}"), "ready", "the status of Ready is a bool and not text"},
		"a condition with false":      {custom("{conditions: [{type: Ready, status: false, message: 7}]}"), "waits", "the status of Ready is a bool"},
		"a condition in small":        {custom("{conditions: [{type: Ready, status: 'false', message: nope}]}"), "waits", "nope"},
		"a condition without status":  {custom("{conditions: [{type: Available}]}"), "waits", "Available is empty"},
		"a condition with a list":     {custom("{conditions: [{type: Available, status: []}]}"), "waits", "a list and not text"},
		"a type that is a number":     {custom("{conditions: [{type: 7, status: 'True'}]}"), "ready", "an entry without a type"},
		"Ready twice":                 {custom("{conditions: " + both + "}"), "waits", "nope; judged by the rest, because status.conditions has Ready twice"},
		"Ready twice, the other way":  {custom("{conditions: [" + notReady + ", " + isReady + "]}"), "waits", "Ready twice"},
		"Ready twice, the later":      {custom("{conditions: [{type: Ready, status: 'False', lastTransitionTime: '2026-01-01T00:00:00Z'}, {type: Ready, status: 'True', lastTransitionTime: '2026-01-02T00:00:00Z'}]}"), "ready", "Ready twice"},
		"Ready twice, one is old":     {custom("{conditions: [{type: Ready, status: 'False', observedGeneration: 1}, {type: Ready, status: 'True', observedGeneration: 2}]}"), "ready", ""},
		"the object's generation":     {"{apiVersion: example.io/v1, kind: Thing, metadata: {generation: two}, status: {observedGeneration: 1}}", "ready", "metadata.generation is text"},
		"a deletionTimestamp of 7":    {"{apiVersion: example.io/v1, kind: Thing, metadata: {deletionTimestamp: 7}}", "ready", ""},
		"is being deleted":            {"{apiVersion: example.io/v1, kind: Thing, metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, status: true}", "waits", "scheduled for deletion"},
		"containers of any shape":     {"{apiVersion: v1, kind: Pod, status: {phase: Running, containerStatuses: [x]}}", "waits", "not Ready"},
		"waiting containers of any":   {"{apiVersion: v1, kind: Pod, status: {phase: Running, containerStatuses: [{name: 7, state: {waiting: []}}]}}", "waits", "not Ready"},
		"a Pod in an unknown phase":   {"{apiVersion: v1, kind: Pod, status: {phase: Weird}}", "waits", "unknown phase Weird"},
		"an Istio route":              {"{apiVersion: networking.istio.io/v1, kind: VirtualService, metadata: {generation: 3}, status: {observedGeneration: '3', validationMessages: [], conditions: [{type: Reconciled, status: 'True', observedGeneration: '3'}]}}", "ready", ""},
		"an Argo rollout that is old": {"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {generation: 5}, status: {observedGeneration: '4', phase: Healthy}}", "waits", "its status is of generation 4"},
	})
	obj := &unstructured.Unstructured{Object: map[string]any{"metadata": 7, "spec": true, "status": map[string]any{"conditions": []any{7, nil}}}}
	if ready, _, _ := health.Kstatus(obj); !ready {
		t.Error("an object whose metadata is a number is not ready")
	}
	if ready, _, _ := health.Kstatus(&unstructured.Unstructured{}); !ready {
		t.Error("an empty object is not ready")
	}
}

func deployment(spec, status string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: " + spec + ", status: " + status + "}"
}

func statefulSet(spec, status string) string {
	return strings.Replace(deployment(spec, status), "kind: Deployment", "kind: StatefulSet", 1)
}

func daemonSet(spec, status string) string {
	return strings.Replace(deployment(spec, status), "kind: Deployment", "kind: DaemonSet", 1)
}

// A workload whose controller is told not to replace Pods is ready with Pods of older templates,
// and not without Pods.
func TestWorkloadsThatKeepOldPods(t *testing.T) {
	const onDelete = "{replicas: 3, updateStrategy: {type: OnDelete}}"
	partition := func(n string) string {
		return "{replicas: 3, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: " + n + "}}}"
	}
	set := func(ready, updated string) string {
		return "{observedGeneration: 2, replicas: 3, readyReplicas: " + ready + ", currentReplicas: 3, updatedReplicas: " + updated + ", currentRevision: a, updateRevision: b}"
	}
	daemons := func(observed, updated, available string) string {
		return "{observedGeneration: " + observed + ", desiredNumberScheduled: 3, currentNumberScheduled: 3, updatedNumberScheduled: " + updated +
			", numberReady: " + available + ", numberAvailable: " + available + "}"
	}
	paused := func(observed, updated, available string) string {
		return "{observedGeneration: " + observed + ", replicas: 4, updatedReplicas: " + updated + ", readyReplicas: " + available + ", availableReplicas: " + available +
			", conditions: [{type: Available, status: 'True'}, {type: Progressing, status: Unknown, reason: DeploymentPaused}]}"
	}
	checkVerdicts(t, map[string]verdictCase{
		"DaemonSet OnDelete":                {daemonSet(onDelete, daemons("2", "0", "3")), "ready", ""},
		"DaemonSet OnDelete, not seen":      {daemonSet(onDelete, daemons("1", "3", "3")), "waits", "its status is of generation 1"},
		"DaemonSet OnDelete, new":           {daemonSet(onDelete, "{}"), "waits", "observedGeneration not found"},
		"DaemonSet OnDelete, down":          {daemonSet(onDelete, daemons("2", "0", "2")), "waits", "Available: 2/3"},
		"DaemonSet OnDelete, no status":     {daemonSet(onDelete, "null"), "waits", "observedGeneration not found"},
		"DaemonSet OnDelete, without field": {daemonSet(onDelete, "{observedGeneration: 2, desiredNumberScheduled: 3, currentNumberScheduled: 3, numberReady: 3, numberAvailable: 3}"), "ready", ""},
		"DaemonSet RollingUpdate":           {daemonSet("{}", daemons("2", "0", "3")), "waits", "Updated: 0/3"},
		"StatefulSet OnDelete":              {statefulSet(onDelete, set("3", "0")), "ready", ""},
		"StatefulSet OnDelete, down":        {statefulSet(onDelete, set("0", "0")), "waits", "Ready: 0/3"},
		"StatefulSet OnDelete, gone":        {statefulSet(onDelete, "{observedGeneration: 2, replicas: 0}"), "waits", "Replicas: 0/3"},
		"StatefulSet OnDelete, one of two":  {statefulSet(onDelete, set("2", "3")), "waits", "Ready: 2/3"},
		"StatefulSet OnDelete, no status":   {statefulSet(onDelete, "null"), "waits", "Replicas: 0/3"},
		"StatefulSet OnDelete, too many":    {statefulSet("{replicas: 2, updateStrategy: {type: OnDelete}}", set("3", "0")), "waits", "Pending termination: 1"},
		"StatefulSet partition":             {statefulSet(partition("2"), set("3", "1")), "ready", ""},
		"StatefulSet partition, before":     {statefulSet(partition("1"), set("3", "1")), "waits", "updated: 1/2"},
		"StatefulSet partition, down":       {statefulSet(partition("3"), set("2", "0")), "waits", "Ready: 2/3"},
		"StatefulSet partition above all":   {statefulSet(partition("9"), set("3", "0")), "ready", ""},
		"StatefulSet RollingUpdate":         {statefulSet("{replicas: 3}", set("3", "0")), "waits", "Waiting for updated revision"},
		"Deployment paused, new template":   {deployment("{replicas: 3, paused: true}", paused("2", "0", "3")), "ready", "it is paused: 0 of 3 replicas are of its template"},
		"Deployment paused halfway":         {deployment("{replicas: 3, paused: true}", paused("2", "1", "4")), "ready", "it is paused: 1 of 3"},
		"Deployment paused, not seen":       {deployment("{replicas: 3, paused: true}", paused("1", "0", "3")), "waits", "its status is of generation 1"},
		"Deployment paused, down":           {deployment("{replicas: 3, paused: true}", paused("2", "0", "2")), "waits", "it is paused, and 2 of 3 replicas are available"},
		"Deployment paused, new":            {deployment("{paused: true}", "{}"), "waits", "its controller has not seen it"},
		"Deployment paused, no Pods wanted": {deployment("{replicas: 0, paused: true}", "{observedGeneration: 2}"), "ready", "it is paused: 0 of 0"},
		"Deployment not paused":             {deployment("{replicas: 3, paused: false}", paused("2", "0", "3")), "waits", "Updated: 0/3"},
		"a controller of replicas":          {"{apiVersion: v1, kind: ReplicationController, spec: {replicas: 2}, status: {replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 1, availableReplicas: 1}}", "waits", "Available: 1/2"},
		"a controller of replicas, up":      {"{apiVersion: v1, kind: ReplicationController, spec: {replicas: 2}, status: {replicas: 2, fullyLabeledReplicas: 2, readyReplicas: 2, availableReplicas: 2}}", "ready", ""},
	})
}

func TestKindsAndConditionsThatKstatusDoesNotKnow(t *testing.T) {
	of := func(apiVersion, kind, rest string) string {
		return "{apiVersion: " + apiVersion + ", kind: " + kind + ", metadata: {generation: 2}, " + rest + "}"
	}
	annotated := func(apiVersion, annotation, status string) string {
		return "{apiVersion: " + apiVersion + ", kind: Thing, metadata: {generation: 2, annotations: {" + annotation + "}}, status: " + status + "}"
	}
	is := func(kind, status string) string {
		return custom("{conditions: [{type: " + kind + ", status: '" + status + "', message: because}]}")
	}
	const vm, flux = "kubevirt.io/v1", "kustomize.toolkit.fluxcd.io/v1"
	stopped := "status: {created: false, printableStatus: Stopped, conditions: [{type: Ready, status: 'False', reason: VMINotExists}]}"
	checkVerdicts(t, map[string]verdictCase{
		"Strimzi":                    {of("kafka.strimzi.io/v1", "Kafka", "status: {observedGeneration: 2, conditions: [{type: NotReady, status: 'True', reason: FatalProblem, message: nope}]}"), "waits", "NotReady is True: FatalProblem: nope"},
		"Strimzi, ready":             {of("kafka.strimzi.io/v1", "Kafka", "status: {observedGeneration: 2, conditions: [{type: Ready, status: 'True'}]}"), "ready", ""},
		"NotReady beside Ready":      {custom("{conditions: [{type: Ready, status: 'True'}, {type: NotReady, status: 'True'}]}"), "waits", "NotReady is True"},
		"a Gateway":                  {gateway("Gateway", "{}", "{conditions: [{type: Accepted, status: 'True'}, {type: Programmed, status: Unknown, reason: Pending}]}"), "waits", "Programmed is Unknown: Pending"},
		"a Gateway not seen":         {gateway("Gateway", "{}", "{}"), "waits", "it has no condition Accepted"},
		"a Gateway half seen":        {gateway("Gateway", "{}", "{conditions: [{type: Accepted, status: 'True'}]}"), "waits", "it has no condition Programmed"},
		"a GatewayClass":             {gateway("GatewayClass", "{}", "{conditions: [{type: Accepted, status: Unknown, message: Waiting for controller}]}"), "waits", "Accepted is Unknown: Waiting"},
		"an APIService":              {of("apiregistration.k8s.io/v1", "APIService", "status: {conditions: [{type: Available, status: 'False', reason: MissingEndpoints}]}"), "waits", "Available is False: MissingEndpoints"},
		"an APIService, new":         {of("apiregistration.k8s.io/v1", "APIService", "spec: {}"), "waits", "it has no condition Available"},
		"an APIService, up":          {of("apiregistration.k8s.io/v1", "APIService", "status: {conditions: [{type: Available, status: 'True'}]}"), "ready", ""},
		"a failed Pod":               {of("v1", "Pod", "status: {phase: Failed, reason: Evicted, message: low on memory}"), "failed", "the Pod has failed: Evicted: low on memory"},
		"a failed volume":            {of("v1", "PersistentVolume", "status: {phase: Failed, message: no deletable volume plugin}"), "failed", "the volume has failed: no deletable volume plugin"},
		"a bound volume":             {of("v1", "PersistentVolume", "status: {phase: Bound}"), "ready", ""},
		"a paused Rollout":           {of("argoproj.io/v1alpha1", "Rollout", "spec: {paused: true}, status: {phase: Paused, conditions: [{type: Available, status: 'False'}]}"), "ready", "its spec suspends it"},
		"a paused Cluster":           {of("cluster.x-k8s.io/v1beta1", "Cluster", "spec: {paused: true}, status: {conditions: [{type: Ready, status: 'False'}]}"), "ready", "its spec suspends it"},
		"paused elsewhere":           {of("example.io/v1", "Thing", "spec: {paused: true}, status: {conditions: [{type: Ready, status: 'False'}]}"), "waits", ""},
		"Crossplane, paused":         {custom("{conditions: [{type: Synced, status: 'False', reason: ReconcilePaused}]}"), "ready", "its annotation crossplane.io/paused suspends it"},
		"Crossplane, not yet paused": {annotated("example.io/v1", "crossplane.io/paused: 'true'", "{conditions: [{type: Synced, status: 'False', reason: ReconcileError}]}"), "waits", "Synced is False"},
		"Strimzi, paused":            {annotated("kafka.strimzi.io/v1", "strimzi.io/pause-reconciliation: 'true'", "{conditions: [{type: ReconciliationPaused, status: 'True'}, {type: NotReady, status: 'True'}]}"), "ready", "suspends it"},
		"KEDA, paused":               {annotated("keda.sh/v1alpha1", "autoscaling.keda.sh/paused-replicas: '0'", "{conditions: [{type: Ready, status: 'False'}]}"), "ready", "suspends it"},
		"ECK, unmanaged":             {annotated("elasticsearch.k8s.elastic.co/v1", "eck.k8s.elastic.co/managed: 'false'", "{conditions: [{type: Ready, status: 'False'}]}"), "ready", "suspends it"},
		"Cluster API, paused":        {annotated("infrastructure.cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/paused: ''", "{conditions: [{type: Ready, status: 'False'}]}"), "ready", "suspends it"},
		"another's annotation":       {annotated("example.io/v1", "strimzi.io/pause-reconciliation: 'true'", "{conditions: [{type: Ready, status: 'False'}]}"), "waits", ""},
		"a Pod that ended":           {of("v1", "Pod", "status: {phase: Succeeded}"), "ready", ""},
		"a Pod of another group":     {of("example.io/v1", "Pod", "status: {phase: Failed}"), "ready", ""},
		"a stopped machine":          {of(vm, "VirtualMachine", "spec: {running: false}, "+stopped), "ready", "it is stopped"},
		"a halted machine":           {of(vm, "VirtualMachine", "spec: {runStrategy: Halted}, "+stopped), "ready", "it is stopped"},
		"a manual machine":           {of(vm, "VirtualMachine", "spec: {runStrategy: Manual}, "+stopped), "ready", "it is stopped"},
		"a machine that must run":    {of(vm, "VirtualMachine", "spec: {running: true}, "+stopped), "waits", ""},
		"a machine that always runs": {of(vm, "VirtualMachine", "spec: {runStrategy: Always}, "+stopped), "waits", ""},
		"a machine that stops":       {of(vm, "VirtualMachine", "spec: {runStrategy: Halted}, status: {printableStatus: Stopping, conditions: [{type: Ready, status: 'True'}]}"), "waits", `its status is "Stopping"`},
		"a machine stopped before":   {of(vm, "VirtualMachine", "spec: {runStrategy: Halted}, status: {observedGeneration: 1, printableStatus: Stopped}"), "waits", "of generation 1"},
		"a machine that runs":        {of(vm, "VirtualMachine", "spec: {running: true}, status: {printableStatus: Running, conditions: [{type: Ready, status: 'True'}, {type: LiveMigratable, status: 'False'}]}"), "ready", ""},
		"suspended by Flux":          {of(flux, "Kustomization", "spec: {suspend: true}, status: {observedGeneration: 1, conditions: [{type: Ready, status: 'False'}]}"), "ready", "its spec suspends it"},
		"of Flux":                    {of(flux, "Kustomization", "spec: {suspend: false}, status: {observedGeneration: 1}"), "waits", "of generation 1"},
		"suspended, another group":   {of("example.io/v1", "Kustomization", "spec: {suspend: true}, status: {observedGeneration: 1}"), "waits", "of generation 1"},
		"Degraded":                   {is("Degraded", "True"), "waits", "Degraded is True: because"},
		"not Degraded":               {is("Degraded", "False"), "ready", ""},
		"Degraded, but Ready":        {custom("{conditions: [{type: Ready, status: 'True'}, {type: Degraded, status: 'True'}]}"), "ready", ""},
		"not Available":              {is("Available", "False"), "waits", "Available is False: because"},
		"partly Available":           {is("Available", "Degraded"), "waits", "Available is Degraded"},
		"not Healthy":                {is("Healthy", "Unknown"), "waits", "Healthy is Unknown"},
		"not Synced":                 {is("Synced", "False"), "waits", "Synced is False"},
		"Failed":                     {is("Failed", "True"), "failed", "Failed is True: because"},
		"not Failed":                 {is("Failed", "False"), "ready", ""},
		"Failure":                    {is("Failure", "True"), "waits", "Failure is True"},
		"did not succeed":            {is("Succeeded", "False"), "failed", "Succeeded is False"},
		"may succeed":                {is("Succeeded", "Unknown"), "ready", ""},
		"unknown":                    {is("Fancy", "False"), "ready", ""},
	})
}

// Evidence omits conditions that prove nothing, in every form of conditions, and does not change
// the object.
func TestEvidence(t *testing.T) {
	for name, c := range map[string]struct{ status, want, outdated string }{
		"nothing old":     {"{conditions: [{type: Ready, status: 'True'}]}", `{"conditions":[{"status":"True","type":"Ready"}]}`, ""},
		"an old one":      {"{a: 1, conditions: [{type: Ready, observedGeneration: 2}, {type: Issuing, observedGeneration: 1}]}", `{"a":1,"conditions":[{"observedGeneration":2,"type":"Ready"}]}`, ""},
		"a map":           {"{conditions: {Ready: {observedGeneration: 2}, Other: {observedGeneration: '1'}}}", `{"conditions":{"Ready":{"observedGeneration":2}}}`, ""},
		"Ready is old":    {"{conditions: [{type: Ready, observedGeneration: 1}, {type: Other, observedGeneration: 2}]}", "", "its condition Ready is of generation 1, and the object of 2"},
		"all are old":     {"{conditions: [{type: Other, observedGeneration: 1}]}", "", "its condition Other is of generation 1, and the object of 2"},
		"the status is":   {"{observedGeneration: '1'}", "", "its status is of generation 1, and the object of 2"},
		"a hostile shape": {"7", "7", ""},
		"an old part":     {"{parents: [{controllerName: c, conditions: [{type: Accepted, observedGeneration: 1}]}]}", "", "status.parents[0]: its condition Accepted is of generation 1, and the object of 2"},
		"an old one of a part": {
			"{ancestors: [{controllerName: c, conditions: [{type: Accepted, status: 'True', observedGeneration: 2}, {type: Conflicted, observedGeneration: 1}]}, {conditions: [{type: Own, observedGeneration: 1}]}]}",
			`{"ancestors":[{"conditions":[{"observedGeneration":2,"status":"True","type":"Accepted"}],"controllerName":"c"},{"conditions":[{"observedGeneration":1,"type":"Own"}]}]}`, "",
		},
	} {
		obj := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(custom(c.status)), &obj.Object); err != nil {
			t.Fatal(err)
		}
		whole(obj.Object)
		before := obj.DeepCopy()
		fresh, outdated := health.Evidence(obj)
		if outdated != c.outdated || !equalJSON(t, before, obj) {
			t.Errorf("%s: outdated is %q, want %q; the object is now %v", name, outdated, c.outdated, obj)
		}
		if c.want == "" {
			continue
		}
		got, err := yaml.Marshal(fresh.Object["status"])
		if err != nil {
			t.Fatal(err)
		}
		if text, err := yaml.YAMLToJSON(got); err != nil || string(text) != c.want {
			t.Errorf("%s: got %s, want %s: %v", name, text, c.want, err)
		}
	}
}

// FuzzKstatus asks for the health of objects of any shape.
func FuzzKstatus(f *testing.F) {
	for _, kind := range []string{"Thing", "Pod", "Deployment", "DaemonSet", "StatefulSet", "Job", "Service", "Gateway", "HTTPRoute", "VirtualMachine"} {
		f.Add("apps/v1", kind, `{"conditions":[{"type":"Ready","status":"True","observedGeneration":1}],"parents":[{"controllerName":"c"}]}`, `{"paused":true}`)
		f.Add("v1", kind, `{"phase":"Running","containerStatuses":[7]}`, `{"updateStrategy":{"type":"OnDelete"}}`)
	}
	f.Fuzz(func(t *testing.T, apiVersion, kind, status, spec string) {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"generation": int64(2)}}}
		for field, text := range map[string]string{"status": status, "spec": spec} {
			var v any
			if yaml.Unmarshal([]byte(text), &v) == nil {
				obj.Object[field] = whole(v)
			}
		}
		before := obj.DeepCopy()
		if ready, failed, _ := health.Kstatus(obj); ready && failed {
			t.Error("it is ready and failed")
		}
		health.Evidence(obj)
		if !equalJSON(t, before, obj) {
			t.Error("the object was changed")
		}
	})
}
