package hub_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/hub"
)

// A placement that is deleted while a member is down disappears after the deadline. Its status, an
// Event and the log name the remaining objects and their clusters. When the member returns, nothing
// is applied there again.
func TestAPlacementIsDeletedWhileAMemberIsDown(t *testing.T) {
	t.Parallel()
	t.Run("without a controller manager", func(t *testing.T) {
		t.Parallel()
		deleteWithAMemberDown(t, newHubEnv(t, 2))
	})
	t.Run("with one", func(t *testing.T) {
		t.Parallel()
		startControllers(t, "hubgc")
		deleteWithAMemberDown(t, newHubEnvOn(t, "hubgc", 2))
	})
}

// startControllers starts the controllers of a hub server, once.
func startControllers(t *testing.T, name string) {
	t.Helper()
	s := startServers(t, name)[0]
	once, _ := controllers.LoadOrStore(name, sync.OnceValue(func() error {
		return s.StartControllerManager(withoutCancel(t))
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatal(err)
	}
}

// controllers has the servers that run controllers, by name.
var controllers sync.Map

func deleteWithAMemberDown(t *testing.T, w *hubEnv) {
	var log record
	w.start("one", func(c *hub.Config) {
		c.DeleteDeadline = deleteDeadline
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
	})
	w.place("v1")
	w.staged("")
	w.await("crp", w.name, "ClusterResourcePlacementScheduled", "True")
	w.run(w.name, "")
	w.await("csur", w.name, "Succeeded", "True")
	up, down := w.members[0], w.members[1]
	w.downUntilTheEnd(down)
	begun := time.Now()
	if err := w.at("crp").Delete(t.Context(), w.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the status to tell of the member that is down", func() error { return w.saysOf(down.name) })
	if told := time.Since(begun); told > deleteDeadline {
		t.Errorf("the status told of the member after %v", told)
	}
	w.eventually("the placement to be gone", func() error {
		_, err := w.at("crp").Get(t.Context(), w.name, getOptions())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there: %w", err)
	})
	t.Logf("it took %v", time.Since(begun))
	w.eventually("the other member to be clean", func() error { return w.holds(up, "") })
	w.eventually("the Event", func() error { return w.leftBehind(down.name) })
	if text := log.String(); !strings.Contains(text, "left behind") || !strings.Contains(text, down.name) {
		t.Errorf("the log does not tell of what was left on %s:\n%s", down.name, text)
	}
	if err := down.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.lawOfRest(down)
}

// downUntilTheEnd kills a member's API server. It is started again at the end of the test at the
// latest.
func (w *hubEnv) downUntilTheEnd(m *member) {
	w.t.Helper()
	w.t.Cleanup(func() {
		if _, err := m.client.Resource(w.kindOf("ns").gvr).Get(withoutCancel(w.t), "default", getOptions()); err != nil {
			_ = m.server.Restart(withoutCancel(w.t))
		}
	})
	if err := m.server.Kill(); err != nil {
		w.t.Fatal(err)
	}
}

// saysOf returns an error unless the status of the placement reports its deletion and names the
// cluster.
func (w *hubEnv) saysOf(cluster string) error {
	obj, err := w.at("crp").Get(w.t.Context(), w.name, getOptions())
	if err != nil {
		return err
	}
	told, _, _ := unstructured.NestedMap(obj.Object, "status", "deletion")
	list, _, _ := unstructured.NestedSlice(told, "clusters")
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["clusterName"] == cluster && c["message"] != "" {
			return nil
		}
	}
	return fmt.Errorf("status.deletion is %v", told)
}

// leftBehind returns an error unless an Event reports that objects were left on a cluster.
func (w *hubEnv) leftBehind(cluster string) error {
	events, err := w.kube.CoreV1().Events("").List(w.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + w.name})
	if err != nil {
		return err
	}
	var got []string
	for i := range events.Items {
		e := &events.Items[i]
		if e.Reason == "LeftBehind" && strings.Contains(e.Message, cluster) {
			return nil
		}
		got = append(got, e.Reason+": "+e.Message)
	}
	return errors.New("the Events are " + strings.Join(got, "; "))
}

// lawOfRest: a member that returns after the placement was deleted is not changed, and still has
// its objects.
func (w *hubEnv) lawOfRest(m *member) {
	w.t.Helper()
	before := len(m.audit.writes("", ""))
	w.eventually("the member to be reached again", func() error { return w.holds(m, "v1") })
	time.Sleep(2 * time.Second) // longer than any loop of the hub waits
	if err := w.holds(m, "v1"); err != nil {
		w.t.Error(err)
	}
	if after := m.audit.writes("", ""); len(after) != before {
		w.t.Errorf("the member was written to when it came back:\n%s", m.story())
	}
}

// record is a log that can be read while it is written.
type record struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
