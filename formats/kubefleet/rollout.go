package kubefleet

import (
	"math"
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/api/placement/v1beta1"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
	"github.com/slipway-dev/slipway/stages"
)

// Rollout describes how the changes of a placement reach the clusters. The fields after Type are
// for a RollingUpdate and zero otherwise, except ReportBack and NamespaceStatus.
type Rollout struct {
	// Type is ExternalRolloutStrategyType, which leaves the rollout to staged update runs, or
	// RollingUpdateRolloutStrategyType, the default, which rolls out every change at once, to a part
	// of the clusters at a time. See [Rollout.Strategy].
	Type v1beta1.RolloutStrategyType
	// MaxUnavailable is the maximum number of clusters that are updated at a time, among the
	// clusters that already have the placement: a number of at least 1, or a percentage from 1% to
	// 100%. 0 means the default, 25%.
	MaxUnavailable intstr.IntOrString
	// MaxSurge is read and written but has no effect: a cluster is updated in place, so there is never
	// an additional cluster. The default is 25%.
	MaxSurge intstr.IntOrString
	// UnavailablePeriod is the wait after an object has been applied whose availability is unknown.
	// The default is one minute.
	UnavailablePeriod time.Duration
	// ReportBack is the destination of the status of placed objects, for every Type; empty for none.
	// For the object that was placed, the policy must pick one cluster: see [ReportsToOriginal].
	ReportBack v1beta1.ReportBackDestination
	// NamespaceStatus reports whether the status is shown in the selected namespace, too:
	// spec.statusReportingScope is NamespaceAccessible.
	NamespaceStatus bool
}

// OnlyOnHub returns the problems of a placement that is declared to an engine without a hub: its
// parts that only a hub carries out, by the paths of their fields.
func (r Rollout) OnlyOnHub() (errs field.ErrorList) {
	strategy := field.NewPath("spec", "strategy")
	if r.Type != v1beta1.ExternalRolloutStrategyType {
		errs = append(errs, field.Invalid(strategy.Child("type"), string(r.Type),
			"only a hub rolls out each change by itself, which is the default; write External, and roll out by staged update runs"))
	}
	if r.ReportBack != "" {
		errs = append(errs, field.Invalid(strategy.Child("reportBackStrategy", "destination"), string(r.ReportBack), "only a hub copies the status of objects back; leave reportBackStrategy out"))
	}
	if r.NamespaceStatus {
		errs = append(errs, field.Invalid(field.NewPath("spec", "statusReportingScope"), string(v1beta1.NamespaceAccessible), "only a hub shows the status in a namespace; leave it out"))
	}
	return errs
}

// ReportsToOriginal reports whether the status of an object on a cluster can be copied to the
// placed object. The policy must be a PickFixed that names one cluster, or a PickN of one cluster,
// as in KubeFleet.
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

// defaultRollout returns the rollout of a placement without spec.strategy.
func defaultRollout() Rollout {
	quarter := intstr.FromString("25%")
	return Rollout{Type: v1beta1.RollingUpdateRolloutStrategyType, MaxUnavailable: quarter, MaxSurge: quarter, UnavailablePeriod: time.Minute}
}

// RollingStrategyName is the name of the strategy of a rolling update, and of its only stage.
const RollingStrategyName = "rolling-update"

// newAtOnce is the maximum number of new clusters, without anything of a placement, in flight.
const newAtOnce = 1000

// Strategy returns the strategy of the run for a rolling update of items. It has one stage of all
// clusters by name, with at most MaxUnavailable of them in flight. Clusters that leave are cleaned
// at the same pace. A percentage is resolved over the clusters that are updated, rounded down but
// at least 1, as in every stage; KubeFleet rounds it up. A cluster that fails keeps its slot and is
// retried, so that a harmful change stops after MaxUnavailable clusters.
//
// On a cluster that has nothing of the placement yet, nothing can become unavailable. Such new
// clusters are a group of their own with up to 1000 clusters in flight. So the first rollout
// reaches all clusters at once, as in KubeFleet, even if one of them fails. A cluster that joins
// does not wait for an update that is stuck, and does not delay updates.
//
// The update begins with the clusters that an earlier run changed and did not prove to be healthy,
// because they may be unavailable. While MaxUnavailable of these clusters may be unavailable, no
// other cluster is changed, also if they cannot be reached. A cluster that becomes unavailable by
// itself is not counted.
//
// KubeFleet waits UnavailablePeriod only for objects whose availability it does not track. The
// strategy keeps a healthy cluster waiting for UnavailablePeriod if items contain an object whose
// availability it does not track. These are custom resources only: workloads have a status, and
// data is available as soon as it exists.
func (r Rollout) Strategy(items []snapshot.Item) stages.Strategy {
	r.MaxUnavailable = r.maxUnavailable()
	atOnce := intstr.FromInt32(newAtOnce)
	s := stages.Strategy{
		Name: RollingStrategyName,
		Stages: []stages.Stage{{Name: RollingStrategyName, Selector: &metav1.LabelSelector{}, Groups: []stages.Group{
			{Name: "new", New: true, MaxConcurrency: &atOnce},
			{Name: "update", Selector: &metav1.LabelSelector{}, MaxConcurrency: &r.MaxUnavailable, UnprovenFirst: true},
		}}},
		Removal: stages.Removal{MaxConcurrency: &r.MaxUnavailable},
	}
	if slices.ContainsFunc(items, func(i snapshot.Item) bool { return !isTracked(i.Group, i.Kind) }) {
		s.MinHealthy.Duration = r.UnavailablePeriod
	}
	return s
}

// maxUnavailable returns the declared value, or the default.
func (r *Rollout) maxUnavailable() intstr.IntOrString {
	if r.MaxUnavailable == (intstr.IntOrString{}) {
		return defaultRollout().MaxUnavailable
	}
	return r.MaxUnavailable
}

// AtATime returns the number of clusters, among the given number, that may be updated at a time. It
// resolves MaxUnavailable as the plan of [Rollout.Strategy] does.
func (r *Rollout) AtATime(clusters int) int {
	share := r.maxUnavailable()
	n, err := intstr.GetScaledValueFromIntOrPercent(&share, clusters, false)
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// isTracked reports whether the availability of objects of the kind is known.
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

// TracksAvailability reports whether KubeFleet's agents track the availability of objects of a
// kind. If a cluster also has objects of other kinds, the agents report
// NotAllWorkAreAvailabilityTrackable once these objects are applied.
func TracksAvailability(group, kind string) bool {
	return slices.Contains(trackedKinds()[group], kind)
}

// trackedKinds returns the kinds whose availability KubeFleet's agents track, and the kinds that
// are available as soon as they exist, by API group.
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

// share reads a number or a percentage of the clusters. The minimum least is 0 or 1.
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

// isShare reports whether x is a number of at least least, or a percentage from least to 100.
func isShare(x intstr.IntOrString, least int32) bool {
	if x.Type == intstr.Int {
		return x.IntVal >= least
	}
	return regexp.MustCompile(`^(100|[1-9]?[0-9])%$`).MatchString(x.StrVal) && (least == 0 || x.StrVal != "0%")
}
