package serving_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/serving"
)

// quick are limits that a test waits for.
func quick() serving.Limits {
	const soon = 300 * time.Millisecond
	return serving.Limits{Header: soon, Body: soon, Write: soon, Idle: soon}
}

// serve serves a handler until the test ends, and returns the address.
func serve(t *testing.T, l serving.Limits, h http.HandlerFunc) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serving.Serve(ctx, ln, h, serving.Options{Limits: l}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return ln.Addr().String()
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// closedWithin fails the test unless the server closes a connection in time. It returns the data
// that the server sent before.
func closedWithin(t *testing.T, c net.Conn, d time.Duration) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	text, err := io.ReadAll(c)
	var e net.Error
	if errors.As(err, &e) && e.Timeout() {
		t.Errorf("the connection is open after %s; read %q", d, text)
	}
	return string(text)
}

// get makes a request on a connection of its own.
func get(t *testing.T, address string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	r, err := client.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "hello" {
		t.Fatalf("%q, %v", text, err)
	}
}

// A connection without progress is closed: before a request, within its headers, within its body,
// between two requests, and while the client does not read the answer.
func TestConnectionsWithoutProgressAreClosed(t *testing.T) {
	t.Parallel()
	big := func(w http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			_, _ = w.Write(make([]byte, 64<<20))
		}
	}
	for what, sent := range map[string]string{
		"nothing":             "",
		"half a request":      "GET / HTTP/1.1\r\nHost: x\r\n",
		"half a body":         "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
		"an idle connection":  "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
		"half a chunked body": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := dial(t, serve(t, quick(), big))
			if _, err := io.WriteString(c, sent); err != nil {
				t.Fatal(err)
			}
			closedWithin(t, c, 10*time.Second)
		})
	}
	t.Run("an answer that is not read", func(t *testing.T) {
		t.Parallel()
		ended := make(chan error, 1)
		address := serve(t, quick(), func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 64<<20))
			ended <- err
		})
		if _, err := io.WriteString(dial(t, address), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err == nil {
				t.Error("64 MiB were written to a client that reads nothing")
			}
		case <-time.After(10 * time.Second):
			t.Error("the handler still writes")
		}
	})
}

// A slow exchange with progress is not cut: a slow handler, a stream with pauses, and a
// connection that is reused after an answer without a body.
func TestSlowExchangesWithProgressAreNotCut(t *testing.T) {
	t.Parallel()
	address := serve(t, quick(), func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.Path == "/none" {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		for i := range 4 {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(500 * time.Millisecond):
			}
			_, _ = fmt.Fprintln(w, i)
			_ = http.NewResponseController(w).Flush()
		}
	})
	client := http.Client{Transport: &http.Transport{}}
	for _, body := range []string{"", "a body"} {
		r, err := client.Post("http://"+address, "text/plain", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || string(text) != "0\n1\n2\n3\n" {
			t.Errorf("with the body %q: %q, %v", body, text, err)
		}
	}
	c := dial(t, address)
	in := bufio.NewReader(c)
	for range 5 {
		time.Sleep(100 * time.Millisecond)
		if _, err := io.WriteString(c, "GET /none HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if r, err := http.ReadResponse(in, nil); err != nil || r.StatusCode != http.StatusNoContent {
			t.Fatal(err)
		}
	}
}

// Idle connections of one address or of many do not block new ones, because new connections
// replace them; a connection with a request is not replaced.
func TestManyConnectionsKeepNoOneOut(t *testing.T) {
	t.Parallel()
	for what, limits := range map[string]serving.Limits{
		"of one address": {Connections: 100, PerAddress: 10}, "in all": {Connections: 10, PerAddress: 100}, "by default": {},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			begun, end := make(chan struct{}), make(chan struct{})
			address := serve(t, limits, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/stream" {
					close(begun)
					<-end
				}
				hello(w, r)
			})
			stream := dial(t, address)
			if _, err := io.WriteString(stream, "GET /stream HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			<-begun
			first := dial(t, address)
			for range 300 {
				dial(t, address)
			}
			get(t, address)
			closedWithin(t, first, 10*time.Second)
			close(end)
			if r, err := http.ReadResponse(bufio.NewReader(stream), nil); err != nil || r.StatusCode != http.StatusOK {
				t.Errorf("the stream: %v", err)
			}
		})
	}
}

// If every connection has a request, a further one is closed at once, and fits again after one of
// them has ended.
func TestAFurtherConnectionIsClosed(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	var begun sync.WaitGroup
	begun.Add(3)
	address := serve(t, serving.Limits{Connections: 3}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			begun.Done()
			<-end
		}
		hello(w, r)
	})
	for range 3 {
		if _, err := io.WriteString(dial(t, address), "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	begun.Wait()
	closedWithin(t, dial(t, address), 2*time.Second)
	close(end)
	for again := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address)
		if err == nil {
			_ = r.Body.Close()
			return
		}
		if time.Since(again) > 5*time.Second {
			t.Fatal(err)
		}
	}
}

// With TLS the limits are the same, and HTTP/2 is one connection for many requests.
func TestTheLimitsHoldWithTLS(t *testing.T) {
	t.Parallel()
	other := httptest.NewUnstartedServer(nil)
	other.StartTLS()
	defer other.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	limits := serving.Limits{PerAddress: 5, Header: time.Minute, Idle: time.Minute}
	go func() {
		served <- serving.Serve(ctx, ln, http.HandlerFunc(hello), serving.Options{Limits: limits, TLS: &tls.Config{Certificates: other.TLS.Certificates}})
	}()
	first := dial(t, ln.Addr().String())
	for range 20 {
		dial(t, ln.Addr().String())
	}
	client := other.Client()
	client.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	for range 3 {
		r, err := client.Get("https://" + ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || string(text) != "hello" || r.ProtoMajor != 2 {
			t.Errorf("%s: %q, %v", r.Proto, text, err)
		}
	}
	closedWithin(t, first, 10*time.Second)
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
