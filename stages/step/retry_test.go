package step

import (
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/stages"
)

// Skipped clusters alone are not retried while more clusters have failed than the budget allows,
// because nothing could start.
func TestRetryOfSkippedClustersNeedsABudget(t *testing.T) {
	w := fourClusters("maxFailures: 0", "profile: ClusterUpdate")
	w.say("skip cluster m4", "observe m1 failed")
	if got := w.say("retry only=Skipped by=ann"); !strings.Contains(got, "CommandRefused Retry") || !strings.Contains(got, "retry those too, or skip them") {
		t.Error(got)
	}
	w.says(t, "Running: apply m1#2", "retry by=ann")
}

// A cluster that has failed and then left is not retried, and its failure no longer counts.
func TestRetrySkipsRemovedClusters(t *testing.T) {
	w := fourClusters("maxFailures: 0, maxConcurrency: 2", "profile: ClusterUpdate")
	w.say("observe m1 failed", "gone m1", "observe m2 failed")
	if got := w.say("retry by=ann"); !strings.Contains(got, `ClusterSkipped all m1 "Removed:`) || !strings.HasSuffix(got, "Running: apply m2#2 apply m3#1\n") {
		t.Error(got)
	}
	w.says(t, "Completed", "auto")
}

// The windows of retried clusters count too, as the current calendar has them: a change of the
// calendar or a bypass lets them start at once.
func TestRetriedClustersWaitForTheirWindows(t *testing.T) {
	w := fourClusters("maxFailures: 4, maxConcurrency: 3", "attempts: 1")
	w.say("skip cluster m4", "observe m1 failed m2 pointless")
	w.setCalendar("m1\nm2 5h-6h\nm3\nm4 5h-6h\n")
	w.says(t, "Running: apply m3#1 wake 5h0m0s", "retry")
	w.says(t, "Running: apply m3#1 wake 5h0m0s", "step t=1h")
	w.says(t, "Running: apply m2#2 apply m4#1 apply m3#1", "step t=4h")
	w.says(t, "Running: apply m2#2 apply m4#1", "observe m3 healthy")
	w.setCalendar("m1 20h-21h\n")
	w.says(t, "Running: apply m2#2 apply m4#1 wake 20h0m0s", "step")
	w.says(t, "Running: apply m2#2 apply m4#1 apply m1#2", "bypass by=ann msg=now until=6h")
}

// A report that there is nothing to do has no effect on a cluster that may have been changed, or
// that could not be reached.
func TestChangedClustersAreNotSkipped(t *testing.T) {
	w := fourClusters("maxConcurrency: 1", "minHealthy: 1m")
	w.says(t, "Running: observe m1#1 wake 1m0s", "observe m1 healthy")
	w.says(t, "Running: observe m1#1 wake 1m0s", "observe m1 pointless")
	w.says(t, "Running: observe m1#1", "step t=1m")
	o := w.cur.observation("m1", "pointless")
	o.Unreachable = true
	w = fourClusters("maxConcurrency: 1")
	w.step(stages.Input{Observations: []stages.Observation{o}})
	if got := w.say("state"); !strings.HasPrefix(got, "all Running: m1=Pending m2=Running") {
		t.Error(got)
	}
}

// Retry in a removal restarts the deadline of a cluster.
func TestRetryOfARemoval(t *testing.T) {
	w := newScriptEnv()
	w.setStrategy("stages: [{name: all, labelSelector: {}}]\nremoval: {deadline: 10m}")
	w.say("plan remove=old1,old2", "start", "observe old1 sent")
	w.says(t, "Running: remove old2#1 wake 20m0s", "step t=10m")
	w.says(t, "Running: remove old2#1 wake 20m0s", "retry")
	w.says(t, "Running: remove old1#2 wake 20m0s", "observe old2 removed t=1m")
}
