package kubefleet

import (
	"math"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// RolloutType is spec.strategy.type of a placement.
type RolloutType string

// The rollout strategies of a placement.
const (
	// External leaves it to staged update runs.
	External RolloutType = "External"
	// RollingUpdate, KubeFleet's default, rolls every change out at once, a
	// part of the clusters at a time. See Rollout.Strategy.
	RollingUpdate RolloutType = "RollingUpdate"
)

// Rollout is how a placement says that its changes reach the clusters. What
// follows Type belongs to a RollingUpdate and is zero otherwise, but for ReportBack.
type Rollout struct {
	Type RolloutType
	// MaxUnavailable is how many clusters may be updated at a time, of those that
	// an update was to reach before: a number of at least 1, or a percentage from
	// 1% to 100%. 0 means the default, 25%.
	MaxUnavailable intstr.IntOrString
	// MaxSurge is read and written and has no effect: a cluster is updated in
	// place, so that there is never one more than before. By default 25%.
	MaxSurge intstr.IntOrString
	// UnavailablePeriod is how long to wait after an object has been applied of
	// whose availability cannot be known. By default a minute.
	UnavailablePeriod time.Duration
	// ReportBack is where the status of placed objects goes, whichever Type it is; empty for nowhere.
	ReportBack ReportBack
}

// ReportBack is the destination of spec.strategy.reportBackStrategy with the type Mirror.
type ReportBack string

// Where the status of placed objects goes.
const (
	// OriginalResource is the object of the hub that was placed, where the policy picks exactly one cluster. See
	// [ReportsToOriginal].
	OriginalResource ReportBack = "OriginalResource"
	// WorkAPI are the Work objects of a cluster, which KubeFleet has.
	WorkAPI ReportBack = "WorkAPI"
)

// ReportsToOriginal reports whether the status of an object on a cluster can be that of the object which was placed: a policy
// PickFixed that names one cluster, or PickN of one. KubeFleet checks the same.
func ReportsToOriginal(p placement.Policy) bool {
	switch p.Type {
	case placement.PickFixed:
		return len(p.ClusterNames) == 1
	case placement.PickN:
		return p.NumberOfClusters != nil && *p.NumberOfClusters == 1
	case placement.PickAll:
	}
	return false
}

// defaultRollout is that of a placement that does not say.
func defaultRollout() Rollout {
	quarter := intstr.FromString("25%")
	return Rollout{Type: RollingUpdate, MaxUnavailable: quarter, MaxSurge: quarter, UnavailablePeriod: time.Minute}
}

// RollingStrategyName is the name of the strategy of a rolling update, and of
// its only stage.
const RollingStrategyName = "rolling-update"

// newAtOnce is how many clusters without anything of a placement are brought up at a time.
const newAtOnce = 1000

// Strategy returns the strategy of the run that a rolling update of items is:
// one stage of all clusters by name, MaxUnavailable of them in flight, and
// clusters that leave are cleaned at the same pace. A percentage is one of the
// clusters that are updated, rounded down, at least 1, as in every stage;
// KubeFleet rounds it up. A cluster that fails keeps its slot and is tried
// again, so that a change that breaks things stops after MaxUnavailable clusters.
//
// A cluster that no run was to bring anything before has nothing that could become
// unavailable. Such clusters are a group of their own beside that of the updates, in
// which 1000 may be in flight: so the first rollout reaches all clusters at once, as
// in KubeFleet, whatever one of them refuses, and one that joins is not held up by an
// update that is stuck, and holds none up.
//
// KubeFleet waits UnavailablePeriod only for objects whose availability it does
// not track. Here a cluster waits, once it is healthy, where items hold such
// an object: one that is neither a workload, whose status tells, nor data, which
// is available as soon as it is there. Custom resources are such objects.
func (r Rollout) Strategy(items []snapshot.Item) stages.Strategy {
	r.MaxUnavailable = r.maxUnavailable()
	atOnce := intstr.FromInt32(newAtOnce)
	s := stages.Strategy{
		Name: RollingStrategyName,
		Stages: []stages.Stage{{Name: RollingStrategyName, Selector: &metav1.LabelSelector{}, Groups: []stages.Group{
			{Name: "new", New: true, MaxConcurrency: &atOnce},
			{Name: "update", Selector: &metav1.LabelSelector{}, MaxConcurrency: &r.MaxUnavailable},
		}}},
		Removal: stages.Removal{MaxConcurrency: &r.MaxUnavailable},
	}
	if slices.ContainsFunc(items, func(i snapshot.Item) bool { return !isTracked(i.Group, i.Kind) }) {
		s.MinHealthy = r.UnavailablePeriod
	}
	return s
}

// maxUnavailable is what is declared, or the default.
func (r *Rollout) maxUnavailable() intstr.IntOrString {
	if r.MaxUnavailable == (intstr.IntOrString{}) {
		return defaultRollout().MaxUnavailable
	}
	return r.MaxUnavailable
}

// AtATime is how many of so many clusters may be updated at a time, at least one.
func (r *Rollout) AtATime(clusters int) int {
	share := r.maxUnavailable()
	n, err := intstr.GetScaledValueFromIntOrPercent(&share, clusters, true)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// isTracked tells kinds of which it is known whether they are available.
func isTracked(group, kind string) bool {
	switch group {
	case "":
		return kind != "ReplicationController" && kind != "PersistentVolume" && kind != "Node"
	case "apps":
		return kind != "ControllerRevision"
	case "batch":
		return kind == "Job" || kind == "CronJob"
	case "policy", "scheduling.k8s.io", "storage.k8s.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io":
		return true
	case "networking.k8s.io":
		return kind != "Ingress"
	case "apiextensions.k8s.io":
		return kind == "CustomResourceDefinition"
	case "discovery.k8s.io":
		return kind == "EndpointSlice"
	}
	return false
}

// TracksAvailability reports whether KubeFleet's agents know of the objects of a kind whether they are available. Of a
// cluster that has others, too, they say NotAllWorkAreAvailabilityTrackable once these are applied.
func TracksAvailability(group, kind string) bool {
	return slices.Contains(trackedKinds()[group], kind)
}

// trackedKinds are the kinds whose availability KubeFleet's agents track, and those that are available as soon as they are
// there, by API group.
func trackedKinds() map[string][]string {
	return map[string][]string{
		"":                          {"ConfigMap", "LimitRange", "Namespace", "ResourceQuota", "Secret", "Service", "ServiceAccount"},
		"apiextensions.k8s.io":      {"CustomResourceDefinition"},
		"apps":                      {"ControllerRevision", "DaemonSet", "Deployment", "StatefulSet"},
		"networking.k8s.io":         {"IngressClass", "NetworkPolicy"},
		"policy":                    {"PodDisruptionBudget"},
		"rbac.authorization.k8s.io": {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
		"scheduling.k8s.io":         {"PriorityClass"},
		"storage.k8s.io":            {"CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass"},
	}
}

// rollingUpdate reads the settings of a rolling update.
func rollingUpdate(v value, r *Rollout) {
	v.Object(fields{
		"maxUnavailable": func(v value) { r.MaxUnavailable = share(v, 1) },
		"maxSurge":       func(v value) { r.MaxSurge = share(v, 0) },
		"unavailablePeriodSeconds": func(v value) {
			r.UnavailablePeriod = time.Duration(v.Integer(0, int(maxWait/time.Second))) * time.Second
		},
	})
}

// share reads a number or a percentage of the clusters, of at least 0 or 1.
func share(v value, least int32) intstr.IntOrString {
	x, ok := v.Scalar()
	if !ok {
		return intstr.IntOrString{}
	}
	switch x := x.(type) {
	case int64:
		if x >= int64(least) && x <= math.MaxInt32 {
			return intstr.FromInt32(int32(x))
		}
	case string:
		if isShare(intstr.FromString(x), least) {
			return intstr.FromString(x)
		}
	}
	v.Fail(`must be a number of at least %d, or a percentage from %d%% to 100%% in the form "25%%"`, least, least)
	return intstr.IntOrString{}
}

// isShare tells a number of at least least and a percentage from least to 100.
func isShare(x intstr.IntOrString, least int32) bool {
	if x.Type == intstr.Int {
		return x.IntVal >= least
	}
	return regexp.MustCompile(`^(100|[1-9]?[0-9])%$`).MatchString(x.StrVal) && (least == 0 || x.StrVal != "0%")
}
