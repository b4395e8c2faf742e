package member_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/backend/kube/internal/kubetest"
	"github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// hostile returns a connection to a server that answers as it likes.
func hostile(t *testing.T, o member.Options, answer http.HandlerFunc) backend.Conn {
	t.Helper()
	_, cfg := hostileServer(t, answer)
	c, err := member.NewConn(cfg, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func hostileServer(t *testing.T, answer http.HandlerFunc) (*httptest.Server, *rest.Config) {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server, &rest.Config{Host: server.URL, BearerToken: canary, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
}

func settings(name string) snapshot.ID {
	return snapshot.ID{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: name}
}

// repeat writes until the client has had enough.
func repeat(w io.Writer, text string) {
	chunk := []byte(strings.Repeat(text, 1+(32<<10)/len(text)))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// write writes a text n times, in pieces, so that the memory of the test server does not count as
// memory for the answer.
func write(w io.Writer, text string, n int) {
	chunk := []byte(strings.Repeat(text, 1024))
	for ; n > 0; n -= 1024 {
		if _, err := w.Write(chunk[:min(n, 1024)*len(text)]); err != nil {
			return
		}
	}
}

const prefix = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"7"},"data":`

// TestT8AHostileMemberCostsABoundedAmountOfMemory reads answers that would fill any memory.
func TestT8AHostileMemberCostsABoundedAmountOfMemory(t *testing.T) {
	tests := map[string]struct {
		code   int
		answer func(w io.Writer)
	}{
		"an endless string":   {200, func(w io.Writer) { io.WriteString(w, prefix+`{"a":"`); repeat(w, canary) }},
		"endless space":       {200, func(w io.Writer) { repeat(w, "        ") }},
		"an endless list":     {200, func(w io.Writer) { io.WriteString(w, prefix+`[`); repeat(w, `{},`) }},
		"too many small maps": {200, func(w io.Writer) { io.WriteString(w, prefix+`[`); write(w, `{},`, 1<<20); io.WriteString(w, `{}]}`) }},
		"too many small keys": {200, func(w io.Writer) {
			io.WriteString(w, prefix+`{`)
			write(w, `"a":0,`, 1<<20)
			io.WriteString(w, `"b":0}}`)
		}},
		"endless depth": {200, func(w io.Writer) { io.WriteString(w, prefix); repeat(w, `[`) }},
		"too deep":      {200, func(w io.Writer) { io.WriteString(w, prefix+strings.Repeat(`{"a":`, 200)+`0`+strings.Repeat(`}`, 201)) }},
		"too much of an object": {200, func(w io.Writer) {
			io.WriteString(w, prefix+`{"a":"`)
			write(w, canary, 1<<20)
			io.WriteString(w, `"}}`)
		}},
		"an endless refusal": {403, func(w io.Writer) {
			io.WriteString(w, `{"kind":"Status","status":"Failure","message":"`)
			repeat(w, canary)
		}},
		"a long refusal": {403, func(w io.Writer) {
			fmt.Fprintf(w, `{"kind":"Status","status":"Failure","code":403,"reason":"Forbidden","message":%q}`, strings.Repeat("x", 60<<10))
		}},
		"a refusal that quotes":  {422, func(w io.Writer) { io.WriteString(w, canary) }},
		"a redirect":             {307, func(w io.Writer) { io.WriteString(w, canary) }},
		"no JSON":                {200, func(w io.Writer) { io.WriteString(w, "<html>"+canary) }},
		"half an object":         {200, func(w io.Writer) { io.WriteString(w, prefix+`{"a":"`+canary) }},
		"another kind of value":  {200, func(w io.Writer) { io.WriteString(w, `["`+canary+`"]`) }},
		"null":                   {200, func(w io.Writer) { io.WriteString(w, `null`) }},
		"no object":              {200, func(w io.Writer) { io.WriteString(w, `{"a":"`+canary+`"}`) }},
		"wrong types everywhere": {200, func(w io.Writer) { io.WriteString(w, `{"apiVersion":1,"kind":[],"metadata":"`+canary+`"}`) }},
		"nothing":                {200, func(io.Writer) {}},
		"nothing and a bad code": {599, func(io.Writer) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var elsewhere atomic.Int32
			c := hostile(t, member.Options{Limits: member.Limits{Bytes: 4 << 20}}, func(w http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "elsewhere") {
					elsewhere.Add(1)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.code)
				test.answer(w)
			})
			peak := peakOf(func() {
				_, err := c.Get(t.Context(), settings("a"))
				_, applied := c.Apply(t.Context(), configMap("default", "a"), backend.ApplyOptions{Manager: "m"})
				for _, err := range []error{err, applied} {
					if err == nil || strings.Contains(err.Error(), canary) || len(err.Error()) > 1<<10 {
						t.Errorf("the error is %v, want a short one that quotes nothing", err)
					}
				}
			})
			if peak > 64<<20 {
				t.Errorf("an answer took %d MiB", peak>>20)
			}
			if elsewhere.Load() > 0 {
				t.Error("the credentials were sent to where a redirect says")
			}
		})
	}
}

// peakOf returns the maximum growth of the heap during f. The collector runs often during that
// time, so that garbage does not count.
func peakOf(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	peak := uint64(0)
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-done:
			tick.Stop()
			return peak
		case <-tick.C:
			runtime.ReadMemStats(&now)
			if now.HeapAlloc > before.HeapAlloc {
				peak = max(peak, now.HeapAlloc-before.HeapAlloc)
			}
		}
	}
}

func TestSlowMemberTimesOut(t *testing.T) {
	tests := map[string]func(w http.ResponseWriter, gone <-chan struct{}){
		"says nothing": func(_ http.ResponseWriter, gone <-chan struct{}) { <-gone },
		"stops halfway": func(w http.ResponseWriter, gone <-chan struct{}) {
			io.WriteString(w, prefix)
			w.(http.Flusher).Flush()
			<-gone
		},
		"trickles":       trickle,
		"refuses slowly": func(w http.ResponseWriter, gone <-chan struct{}) { w.WriteHeader(403); trickle(w, gone) },
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			c := hostile(t, member.Options{RequestTimeout: 200 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) { answer(w, r.Context().Done()) })
			began := time.Now()
			_, err := c.Get(t.Context(), settings("a"))
			if err == nil || time.Since(began) > 10*time.Second {
				t.Errorf("after %v the error is %v", time.Since(began), err)
			}
			for _, kind := range []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced} {
				if errors.Is(err, kind) {
					t.Errorf("the error is %v, want one that says nothing about the object", err)
				}
			}
		})
	}
}

func trickle(w http.ResponseWriter, gone <-chan struct{}) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-gone:
			return
		case <-tick.C:
			_, _ = io.WriteString(w, " ")
			w.(http.Flusher).Flush()
		}
	}
}

// TestAHostileWatchEndsWithAnError is about streams, which have no end to wait for.
func TestAHostileWatchEndsWithAnError(t *testing.T) {
	list := func(w io.Writer) { io.WriteString(w, `{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}`) }
	tests := map[string]struct{ list, watch func(w io.Writer) }{
		"an endless list": {func(w io.Writer) {
			io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[`)
			repeat(w, `{"metadata":{"name":"a"}},`)
		}, nil},
		"endless names":      {func(w io.Writer) { io.WriteString(w, `{"items":[`); names(w) }, nil},
		"an endless page":    {func(w io.Writer) { repeat(w, `{"metadata":{"continue":"x","resourceVersion":"1"},"items":[`) }, nil},
		"no JSON":            {func(w io.Writer) { io.WriteString(w, canary) }, nil},
		"no version":         {func(w io.Writer) { io.WriteString(w, `{"metadata":{},"items":[]}`) }, nil},
		"an endless event":   {list, func(w io.Writer) { io.WriteString(w, `{"type":"ADDED","object":{"a":"`); repeat(w, canary) }},
		"events without end": {list, func(w io.Writer) { repeat(w, `{"type":"ERROR","object":{"message":"`+canary+`"}}`) }},
		"no events":          {list, func(w io.Writer) { io.WriteString(w, `"`+canary+`"`) }},
		"nothing":            {list, func(io.Writer) {}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := hostile(t, member.Options{Limits: member.Limits{Bytes: 1 << 20, Elements: 20_000}, QPS: -1}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Has("watch") {
					test.watch(w)
					return
				}
				test.list(w)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var last error
			peak := peakOf(func() {
				for _, err := range c.(backend.ConnWatcher).Watch(ctx, []snapshot.ID{settings("a")}) {
					last = err
				}
			})
			if last == nil || ctx.Err() != nil || strings.Contains(last.Error(), canary) {
				t.Errorf("the watch ended with %v, want an error of its own that quotes nothing", last)
			}
			if peak > 32<<20 {
				t.Errorf("the watch took %d MiB", peak>>20)
			}
		})
	}
}

// names writes objects that all have another name.
func names(w io.Writer) {
	for i := 0; ; i++ {
		if _, err := fmt.Fprintf(w, `{"metadata":{"name":"a%d"}},`, i); err != nil {
			return
		}
	}
}

func TestMembersIgnoreTheProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("NO_PROXY", "")
	cfg := &rest.Config{Host: "https://member.invalid"}
	c, err := member.NewConn(cfg, member.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(t.Context(), settings("a")); err == nil || strings.Contains(err.Error(), "proxyconnect") {
		t.Errorf("the error is %v, want one of the name member.invalid", err)
	}
}

func TestT13ImpersonationWithoutAUserIsRefused(t *testing.T) {
	for _, i := range []rest.ImpersonationConfig{{Groups: []string{"system:masters"}}, {UID: "u"}, {Extra: map[string][]string{"a": {"b"}}}} {
		_, err := member.NewConn(&rest.Config{Host: "https://member.invalid", Impersonate: i}, member.Options{})
		if !errors.Is(err, backend.ErrPermanent) {
			t.Errorf("%+v: the error is %v, want one that is permanent", i, err)
		}
	}
}

// TestNotFoundFromAProxyIsNotAMissingObject is about a proxy with a starting server: an
// object that it does not find may exist.
func TestNotFoundFromAProxyIsNotAMissingObject(t *testing.T) {
	_, cfg := hostileServer(t, http.NotFound)
	c, err := member.NewConn(cfg, member.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	_, look := c.Get(ctx, settings("a"))
	_, event := c.Get(ctx, snapshot.ID{Version: "v1", Kind: "Event", Namespace: "default", Name: "a"})
	_, apply := c.Apply(ctx, configMap("default", "a"), backend.ApplyOptions{Manager: manager})
	_, dial := member.NewDialer(configOf(cfg), member.Options{}).Dial(ctx, placement.Cluster{Name: "one", UID: "some-uid"})
	for what, err := range map[string]error{
		"get of an object": look, "get of another kind": event, "apply": apply, "dial": dial,
		"delete of an object": c.Delete(ctx, settings("a"), backend.DeleteOptions{}),
		"watch of objects":    kubetest.LastOf(c.(backend.ConnWatcher).Watch(ctx, []snapshot.ID{settings("a")})),
	} {
		t.Run(what, func(t *testing.T) { kubetest.WantTransient(t, err) })
	}
}

// TestT8AWatchKeepsNoEndlessNames has a member that announces ever more objects, or names of
// maximal length. The watch neither keeps nor announces objects that nobody watches.
func TestT8AWatchKeepsNoEndlessNames(t *testing.T) {
	for what, name := range map[string]func(i int) string{
		"ever more":   func(i int) string { return fmt.Sprint("a", i) },
		"a long name": func(int) string { return strings.Repeat("a", 1<<20) },
	} {
		t.Run(what, func(t *testing.T) {
			c := hostile(t, member.Options{}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("watch") == "" {
					io.WriteString(w, `{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"7"},"items":[]}`)
					return
				}
				for i := 0; r.Context().Err() == nil; i++ {
					fmt.Fprintf(w, `{"type":"ADDED","object":{"metadata":{"name":%q,"namespace":"n","resourceVersion":"8"}}}`+"\n", name(i))
					w.(http.Flusher).Flush()
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			signs := 0
			peak := peakOf(func() {
				for range c.(backend.ConnWatcher).Watch(ctx, []snapshot.ID{settings("a")}) {
					signs++
				}
			})
			if peak > 32<<20 || signs > 3 {
				t.Errorf("the watch took %d MiB and told of %d changes", peak>>20, signs)
			}
		})
	}
}
