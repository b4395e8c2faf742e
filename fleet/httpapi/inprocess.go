package httpapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// InProcess returns a transport that calls a handler directly. With it, a program that contains the
// engine can use the same client as a remote program. The caller can read the answer while the
// handler writes it. A request ends with its context, or when the body of the answer is closed.
func InProcess(h http.Handler) http.RoundTripper { return inProcess{h} }

type inProcess struct{ h http.Handler }

func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	in := r.Clone(ctx)
	in.Host, in.RequestURI, in.RemoteAddr = r.URL.Host, r.URL.RequestURI(), "in-process"
	if in.Body == nil {
		in.Body = http.NoBody
	}
	read, write := io.Pipe()
	w := &pipeWriter{header: http.Header{}, body: write, begun: make(chan struct{})}
	context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) })
	go func() {
		defer func() {
			if p := recover(); p != nil {
				_ = write.CloseWithError(fmt.Errorf("httpapi: the handler panicked: %v", p))
			}
			w.WriteHeader(http.StatusInternalServerError) // no effect if the handler has written
			_ = write.Close()
			_ = in.Body.Close()
		}()
		t.h.ServeHTTP(w, in)
		w.WriteHeader(http.StatusOK)
	}()
	select {
	case <-w.begun:
	case <-ctx.Done():
		cancel()
		return nil, ctx.Err()
	}
	return &http.Response{
		Status: fmt.Sprint(w.code, " ", http.StatusText(w.code)), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: pipeBody{read, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// pipeWriter passes the answer of a handler to the client.
type pipeWriter struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	// begun is closed once code and sent, the header of the answer, are final.
	begun chan struct{}
	code  int
	sent  http.Header
}

func (w *pipeWriter) Header() http.Header { return w.header }

func (w *pipeWriter) WriteHeader(code int) {
	w.once.Do(func() {
		w.code, w.sent = code, w.header.Clone()
		close(w.begun)
	})
}

func (w *pipeWriter) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// Flush does nothing, because the client reads each write at once.
func (w *pipeWriter) Flush() {}

// pipeBody ends the request when it is closed.
type pipeBody struct {
	io.Reader
	end context.CancelFunc
}

func (b pipeBody) Close() error {
	b.end()
	return nil
}
