package hub_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/kubeenv"
)

// get reads an object of the hub; read reads an object of any cluster.
func (s *scenario) get(what string) (*unstructured.Unstructured, error) { return s.read(s.admin, what) }

func (s *scenario) read(c dynamic.Interface, what string) (*unstructured.Unstructured, error) {
	r, name := s.on(c, what)
	return r.Get(s.Context(), name, metav1.GetOptions{})
}

func (s *scenario) delete(what string) {
	s.Helper()
	s.deleteOn(s.admin, what)
}

// patch merges into an object of the hub.
func (s *scenario) patch(what, text string) {
	s.Helper()
	if err := s.tryPatch(s.admin, what, text); err != nil {
		s.Fatalf("patching %s: %v", what, err)
	}
}

func (s *scenario) tryPatch(c dynamic.Interface, what, text string, sub ...string) error {
	j, err := yaml.YAMLToJSON([]byte(s.own(text)))
	if err != nil {
		return err
	}
	r, name := s.on(c, what)
	_, err = r.Patch(s.Context(), name, types.MergePatchType, j, metav1.PatchOptions{FieldManager: "story"}, sub...)
	return err
}

// eventually retries until there is no error.
func (s *scenario) eventually(what string, try func() error) {
	s.Helper()
	s.within(patience, what, try)
}

// within retries until there is no error, or fails after limit.
func (s *scenario) within(limit time.Duration, what string, try func() error) {
	s.Helper()
	err := try()
	pauses := breaths()
	for deadline := time.Now().Add(limit); err != nil && time.Now().Before(deadline); err = try() {
		breath(s.Context(), pauses.Step())
	}
	if err != nil {
		s.Fatalf("waiting for %s: %v\n%s", what, err, s.state())
	}
}

// stays fails if a try returns an error within d.
func (s *scenario) stays(what string, d time.Duration, try func() error) {
	s.Helper()
	for deadline := time.Now().Add(d); time.Now().Before(deadline); breath(s.Context(), 100*time.Millisecond) {
		if err := try(); err != nil {
			s.Fatalf("%s: %v\n%s", what, err, s.state())
		}
	}
}

// breath is the pause between two tries.
func breath(ctx context.Context, pause time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}

// state prints the objects of the story on the hub.
func (s *scenario) state() string {
	var b strings.Builder
	for _, short := range []string{"crp", "csur", "careq", "rp", "sur", "areq"} {
		list, err := s.admin.Resource(s.resourceOf(short)).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, u := range list.Items {
			if strings.HasPrefix(u.GetName(), s.name) || u.GetNamespace() == s.name {
				u.SetManagedFields(nil)
				text, _ := yaml.Marshal(u.Object)
				fmt.Fprintf(&b, "---\n%s", text)
			}
		}
	}
	return b.String()
}

// condition checks that a condition of an object has a status, and text in its reason or its
// message.
func (s *scenario) condition(what, kind, status, text string) func() error {
	return func() error {
		u, err := s.get(what)
		if err != nil {
			return err
		}
		got, said := conditionOf(u, kind)
		if got != status || !strings.Contains(said, s.own(text)) {
			return fmt.Errorf("condition %s of %s is %q (%s), want %q with %q", kind, what, got, said, status, s.own(text))
		}
		return nil
	}
}

// comes waits for a condition.
func (s *scenario) comes(what, kind, status, text string) {
	s.Helper()
	s.eventually(what+" to be "+kind+"="+status, s.condition(what, kind, status, text))
}

// has checks that a ConfigMap of a member has a value; "" means that it does not exist.
func (s *scenario) has(member int, cm, want string) func() error {
	c := s.member(member)
	return func() error {
		u, err := s.read(c, "cm/NAME/"+cm)
		if apierrors.IsNotFound(err) && want == "" {
			return nil
		}
		if err != nil {
			return err
		}
		if got, _, _ := unstructured.NestedString(u.Object, "data", "key"); got != want {
			return fmt.Errorf("ConfigMap %s of member %d has %q, want %q", cm, member, got, want)
		}
		return nil
	}
}

// gone checks that an object does not exist.
func (s *scenario) gone(c dynamic.Interface, what string) func() error {
	return func() error {
		u, err := s.read(c, what)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("%s is there, deletion %v, finalizers %v", what, u.GetDeletionTimestamp(), u.GetFinalizers())
		}
		return err
	}
}

// put writes the placed ConfigMap.
func (s *scenario) put(value string) {
	s.Helper()
	s.apply(`{apiVersion: v1, kind: ConfigMap, metadata: {name: config, namespace: NAME}, data: {key: "` + value + `"}}`)
}

// place creates the placement NAME of the namespace NAME on the members of the story, with the
// given strategy.
func (s *scenario) place(strategy string) {
	s.Helper()
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: {name: NAME}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: NAME}]
  policy: {placementType: PickAll, affinity: {clusterAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {clusterSelectorTerms: [{labelSelector: {matchLabels: {story: NAME}}}]}}}}
  strategy: {` + strategy + `}`)
}

// strategy creates the strategy NAME with one stage for each label, and more fields in each.
func (s *scenario) strategy(more ...string) {
	s.Helper()
	var stages []string
	for i, m := range more {
		if m != "" {
			m = ", " + m
		}
		stages = append(stages, fmt.Sprintf("{name: s%d, labelSelector: {matchLabels: {stage: s%d}}%s}", i+1, i+1, m))
	}
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: {name: NAME}
spec: {stages: [` + strings.Join(stages, ", ") + `]}`)
}

// run creates the run NAME-name with more fields in its spec. It runs unless these contain another
// state.
func (s *scenario) run(name, more string) {
	s.Helper()
	if more != "" {
		more = ", " + more
	}
	if !strings.Contains(more, "state: ") {
		more += ", state: Run"
	}
	s.apply(`
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata: {name: NAME-` + name + `}
spec: {placementName: NAME, stagedRolloutStrategyName: NAME` + more + `}`)
}

// scheduled waits until the clusters of the placement NAME are picked. A run then takes the first
// snapshot.
func (s *scenario) scheduled() {
	s.Helper()
	s.comes("crp/NAME", "ClusterResourcePlacementScheduled", "True", "")
}

// snapshots waits for the placement to have snapshot objects of these indexes.
func (s *scenario) snapshots(want ...string) {
	s.Helper()
	s.eventually("snapshots "+strings.Join(want, ","), func() error {
		if got := s.indexes(); !slices.Equal(got, want) {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

func (s *scenario) indexes() []string {
	list, err := s.admin.Resource(s.resourceOf("crs")).List(s.Context(), metav1.ListOptions{LabelSelector: "kubernetes-fleet.io/parent-CRP=" + s.name})
	if err != nil {
		return []string{err.Error()}
	}
	got := map[string]bool{}
	for _, u := range list.Items {
		got[u.GetLabels()["kubernetes-fleet.io/resource-index"]] = true
	}
	return slices.Sorted(maps.Keys(got))
}

// approvalFile is the tutorial's approval.json.
const approvalFile = `{"status":{"conditions":[{"lastTransitionTime":"2025-07-22T21:30:00Z","message":"lgtm","observedGeneration":1,"reason":"testPassed","status":"True","type":"Approved"}]}}`

func (s *scenario) approve(c dynamic.Interface, what string) error {
	return s.tryPatch(c, what, approvalFile, "status")
}

// approved waits for a request and approves it as administrator.
func (s *scenario) approved(what string) {
	s.Helper()
	s.eventually(what, func() error { return s.approve(s.admin, what) })
}

// kubectl runs kubectl against the hub.
func (s *scenario) kubectl(args ...string) (string, error) { return kubectl(s.T, s.server, args...) }

// kubectl runs the real kubectl with the server's kubeconfig.
func kubectl(t testing.TB, server *kubeenv.Server, args ...string) (string, error) {
	t.Helper()
	program, err := kubeenv.Binary("kubectl")
	if err != nil {
		return "", err
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, server.Kubeconfig(), 0o600); err != nil {
		return "", err
	}
	out, err := exec.CommandContext(t.Context(), program, append([]string{"--kubeconfig", file, "--cache-dir", dir}, args...)...).CombinedOutput()
	return string(out), err
}

func (s *scenario) writeStatus(c dynamic.Interface, what string, u *unstructured.Unstructured) error {
	r, _ := s.on(c, what)
	_, err := r.UpdateStatus(s.Context(), u, metav1.UpdateOptions{FieldManager: "story"})
	return err
}

// events returns the messages of the Kubernetes Events about an object with a reason; an empty
// reason returns all.
func (s *scenario) events(what, reason string) (out []string) {
	s.Helper()
	parts := strings.Split(s.own(what), "/")
	list, err := s.admin.Resource(s.resourceOf("event")).List(s.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + parts[len(parts)-1]})
	if err != nil {
		s.Fatal(err)
	}
	for _, u := range list.Items {
		got, _, _ := unstructured.NestedString(u.Object, "reason")
		message, _, _ := unstructured.NestedString(u.Object, "message")
		if reason == "" || got == reason {
			out = append(out, got+": "+message)
		}
	}
	return out
}

// countEvents returns how often the hub reported a reason about an object.
func (s *scenario) countEvents(what, reason string) (n int64) {
	s.Helper()
	parts := strings.Split(s.own(what), "/")
	list, err := s.admin.Resource(s.resourceOf("event")).List(s.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason + ",involvedObject.name=" + parts[len(parts)-1]})
	if err != nil {
		s.Fatal(err)
	}
	for _, u := range list.Items {
		count, _, _ := unstructured.NestedInt64(u.Object, "count")
		n += count
	}
	return n
}

// hasFinalizers returns a condition: an object has exactly these finalizers.
func (s *scenario) hasFinalizers(what string, want ...string) func() error {
	return func() error {
		u, err := s.get(what)
		if err == nil && !slices.Equal(u.GetFinalizers(), want) {
			err = fmt.Errorf("%s has the finalizers %q, want %q", what, u.GetFinalizers(), want)
		}
		return err
	}
}

func (s *scenario) deleteOn(c dynamic.Interface, what string) {
	s.Helper()
	r, name := s.on(c, what)
	if err := r.Delete(s.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.Fatalf("deleting %s: %v", what, err)
	}
}
