package kubeenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

func cutWord(s string) (word, rest string) {
	word, rest, _ = strings.Cut(s, " ")
	return word, rest
}

// object is the only object of the server of these tests.
const object = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"n"}}`

// served is an API server of one object: it counts its requests, and its watches never end.
type served struct {
	*httptest.Server
	reached atomic.Int32
	events  int // that each watch is sent
}

func serve(t *testing.T, events int) *served {
	s := &served{events: events}
	s.Server = httptest.NewServer(http.HandlerFunc(s.handle))
	t.Cleanup(s.Close)
	return s
}

func (s *served) handle(w http.ResponseWriter, r *http.Request) {
	s.reached.Add(1)
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	if CallOf(r).Verb != "watch" {
		_, _ = io.WriteString(w, object)
		return
	}
	for range s.events {
		_, _ = fmt.Fprintf(w, "{\"type\":\"ADDED\",\"object\":%s}\n", object)
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// configMaps is a client of the server through wraps.
func (s *served) configMaps(t *testing.T, wraps ...func(http.RoundTripper) http.RoundTripper) dynamic.ResourceInterface {
	t.Helper()
	c := &rest.Config{Host: s.URL, QPS: -1}
	for _, wrap := range wraps {
		c.Wrap(wrap)
	}
	client, err := dynamic.NewForConfig(c)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("n")
}

func configMap() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a", "namespace": "n"},
	}}
}

func TestFaultAnswersLookLikeServerErrors(t *testing.T) {
	is5xx := func(err error) bool { return apierrors.IsServiceUnavailable(err) }
	for name, c := range map[string]struct {
		fault   Fault
		is      func(error) bool
		reaches int32
	}{
		"conflict":     {Conflict(), apierrors.IsConflict, 0},
		"gone":         {Gone(), apierrors.IsResourceExpired, 0},
		"too many":     {TooManyRequests(0), apierrors.IsTooManyRequests, 0},
		"unavailable":  {Answer(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable), is5xx, 0},
		"reset before": {ResetBefore(), utilnet.IsConnectionReset, 0},
		"reset after":  {ResetAfter(), utilnet.IsConnectionReset, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, 0)
			var f Faults
			struck := f.Add(Rule{Verb: "update", Fault: c.fault})
			maps := s.configMaps(t, f.Wrap)
			if _, err := maps.Update(t.Context(), configMap(), metav1.UpdateOptions{}); !c.is(err) {
				t.Errorf("the error is %v", err)
			}
			if s.reached.Load() != c.reaches || struck() != 1 {
				t.Errorf("%d requests reached the server, %d were struck", s.reached.Load(), struck())
			}
			if _, err := maps.Update(t.Context(), configMap(), metav1.UpdateOptions{}); err != nil {
				t.Errorf("the next one: %v", err)
			}
		})
	}
}

func TestTooManyRequestsSaysWhenToComeBack(t *testing.T) {
	s := serve(t, 0)
	var f Faults
	struck := f.Add(Rule{Verb: "update", Fault: TooManyRequests(time.Second)})
	begin := time.Now()
	if _, err := s.configMaps(t, f.Wrap).Update(t.Context(), configMap(), metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < time.Second || struck() != 1 {
		t.Errorf("the client came back after %s; %d requests were struck", took, struck())
	}
}

func TestRuleMatching(t *testing.T) {
	for name, c := range map[string]struct {
		rule Rule
		want string
	}{
		"the first":      {Rule{}, "x-------"},
		"the third":      {Rule{First: 3}, "--x-----"},
		"from the third": {Rule{First: 3, Times: -1}, "--xxxxxx"},
		"every other":    {Rule{First: 2, Every: 2, Times: 3}, "-x-x-x--"},
		"another verb":   {Rule{Verb: "list", Times: -1}, "--------"},
		"another path":   {Rule{Path: "/secrets/", Times: -1}, "--------"},
		"verb and path":  {Rule{Verb: "get", Path: "/configmaps/a", Times: 2}, "xx------"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, 0)
			var f Faults
			c.rule.Fault = Conflict()
			struck := f.Add(c.rule)
			maps, got := s.configMaps(t, f.Wrap), ""
			for range len(c.want) {
				mark := "-"
				if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
					mark = "x"
				}
				got += mark
			}
			if got != c.want || struck() != strings.Count(c.want, "x") {
				t.Errorf("struck were %s, want %s; the rule says %d", got, c.want, struck())
			}
		})
	}
}

func TestRulesApplyInTheOrderOfTheirAddition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Faults
		f.Add(Rule{Fault: Delay(time.Hour)})
		f.Add(Rule{Fault: Conflict()})
		behind := f.Add(Rule{Fault: ResetBefore()})
		begin := time.Now()
		response, err := f.Wrap(nil).RoundTrip(get(t.Context()))
		if err != nil || response.StatusCode != http.StatusConflict || time.Since(begin) != time.Hour {
			t.Errorf("the answer is %v, %v after %s", response, err, time.Since(begin))
		}
		if behind() != 1 {
			t.Error("a rule behind others does not count")
		}
	})
}

func TestHealRemovesAllRules(t *testing.T) {
	s := serve(t, 0)
	var f Faults
	f.Add(Rule{Times: -1, Fault: Conflict()})
	f.Heal()
	if _, err := s.configMaps(t, f.Wrap).Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestADelayEndsWithTheContextOfTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var f Faults
		f.Add(Rule{Fault: Delay(time.Hour)})
		begin := time.Now()
		if _, err := f.Wrap(nil).RoundTrip(get(ctx)); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
	})
}

// get is a request that no transport has to answer.
func get(ctx context.Context) *http.Request {
	return httptest.NewRequestWithContext(ctx, http.MethodGet, "/api/v1/namespaces/n/configmaps/a", http.NoBody)
}

func TestAWatchIsAnswered410BeforeOrAsItsFirstEvent(t *testing.T) {
	s := serve(t, 1)
	var f Faults
	f.Add(Rule{Verb: "watch", Fault: Gone()})
	f.Add(Rule{Verb: "watch", First: 2, Fault: GoneEvent()})
	maps := s.configMaps(t, f.Wrap)
	if _, err := maps.Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsResourceExpired(err) {
		t.Errorf("the first watch: %v", err)
	}
	w, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	event := <-w.ResultChan()
	if err := apierrors.FromObject(event.Object); event.Type != "ERROR" || !apierrors.IsResourceExpired(err) {
		t.Errorf("the second watch: %v, %v", event.Type, err)
	}
	if _, more := <-w.ResultChan(); more {
		t.Error("the second watch goes on")
	}
}

func TestAWatchIsCutInTheMiddleOfAnEvent(t *testing.T) {
	s := serve(t, 5)
	for events := range 4 {
		var f Faults
		f.Add(Rule{Verb: "watch", Fault: CutAfter(events)})
		w, err := s.configMaps(t, f.Wrap).Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for event := range w.ResultChan() {
			if event.Type != "ADDED" {
				break
			}
			seen++
		}
		w.Stop()
		if seen != events {
			t.Errorf("%d events came, want %d", seen, events)
		}
	}
}

func TestABodyThatIsCutEndsWithAReset(t *testing.T) {
	for name, c := range map[string]struct {
		body io.Reader
		want string
	}{
		"in one piece": {strings.NewReader("one\ntwo\nthree\n"), "one\ntwo\nthr"},
		"in bytes":     {iotest.OneByteReader(strings.NewReader("one\ntwo\nthree\n")), "one\ntwo\n"},
		"shorter":      {strings.NewReader("one\ntwo\n"), "one\ntwo\n"},
	} {
		got, err := io.ReadAll(&limited{ReadCloser: io.NopCloser(c.body), left: 2})
		if string(got) != c.want || utilnet.IsConnectionReset(err) == (name == "shorter") {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

func TestOpenWatchesAreCutAtOnce(t *testing.T) {
	s := serve(t, 1)
	var f Faults
	var c Counts
	maps := s.configMaps(t, f.Wrap, c.Wrap)
	open := func() <-chan struct{} {
		w, err := maps.Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		<-w.ResultChan()
		over := make(chan struct{})
		go func() {
			defer close(over)
			// A client begins the watch again after a reset and tells its caller of other errors.
			for event := range w.ResultChan() {
				t.Errorf("the watch ends with %v", event)
			}
			w.Stop()
		}()
		return over
	}
	first, second := open(), open()
	if n := c.OpenWatches(); n != 2 {
		t.Errorf("%d watches are open", n)
	}
	if n := f.CutWatches(); n != 2 {
		t.Errorf("%d watches were cut", n)
	}
	<-first
	<-second
	if n := f.CutWatches(); n != 0 || c.OpenWatches() != 0 {
		t.Errorf("%d watches were left, %d are open", n, c.OpenWatches())
	}
	third := open()
	f.CutWatches()
	<-third
}

func TestAWatchThatTheClientClosesIsNoLongerOpen(t *testing.T) {
	s := serve(t, 1)
	var f Faults
	var c Counts
	w, err := s.configMaps(t, f.Wrap, c.Wrap).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	<-w.ResultChan()
	w.Stop()
	for range w.ResultChan() {
	}
	eventually(t, "the watch is closed", func() bool { return c.OpenWatches() == 0 })
	if n := f.CutWatches(); n != 0 {
		t.Errorf("%d watches were left", n)
	}
}

func TestCountsTellWatchesFromRequests(t *testing.T) {
	s := serve(t, 1)
	var c Counts
	maps := s.configMaps(t, c.Wrap)
	for range 3 {
		if _, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := maps.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w, err := maps.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if c.Requests() != 4 || c.Verb("get") != 3 || c.Watches() != 1 || c.OpenWatches() != 1 || c.Calls()[Call{"delete", "configmaps"}] != 1 {
		t.Errorf("counted %v, %d requests, %d watches of which %d open", c.Calls(), c.Requests(), c.Watches(), c.OpenWatches())
	}
	c.Reset()
	if c.Requests() != 0 || c.Watches() != 0 || c.OpenWatches() != 1 {
		t.Errorf("after Reset %v, %d open", c.Calls(), c.OpenWatches())
	}
}
