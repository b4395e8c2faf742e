// Package serving serves HTTP on a listener within bounds, so that clients which say nothing, read nothing or come in
// great number do not keep others out: a request and an answer have to make progress, and connections are bounded for
// each address and in all. All listeners of the project's programs use it.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits bound what clients take of a server. The zero value of a field stands for its default.
type Limits struct {
	// Header is how long the headers of a request may take, and a TLS handshake; 5 s.
	Header time.Duration
	// Body is how long the body of a request may take; 30 s.
	Body time.Duration
	// Write is how long a client may take to read 64 KiB of an answer; 30 s.
	Write time.Duration
	// Idle is how long a connection may have no request; 60 s.
	Idle time.Duration
	// Connections is how many connections may be open, and PerAddress how many of one address; 1,024 and 256. If there
	// are as many, a new connection replaces the oldest one that has no request; if all have one, it is closed.
	Connections, PerAddress int
}

// DefaultLimits are the limits of a server whose options have none.
func DefaultLimits() Limits {
	return Limits{
		Header: 5 * time.Second, Body: 30 * time.Second, Write: 30 * time.Second, Idle: time.Minute, Connections: 1024, PerAddress: 256,
	}
}

func orDefault[T comparable](v *T, otherwise T) {
	if none := *new(T); *v == none {
		*v = otherwise
	}
}

func (l Limits) withDefaults() Limits {
	d := DefaultLimits()
	orDefault(&l.Header, d.Header)
	orDefault(&l.Body, d.Body)
	orDefault(&l.Write, d.Write)
	orDefault(&l.Idle, d.Idle)
	orDefault(&l.Connections, d.Connections)
	orDefault(&l.PerAddress, d.PerAddress)
	return l
}

// Options say how a handler is served.
type Options struct {
	Limits Limits
	// TLS, if it is not nil, has the certificate of the server.
	TLS *tls.Config
	// Log gets what goes wrong with connections; nil logs nothing.
	Log *slog.Logger
	// Ending is how long requests may take to end after their contexts have; 5 s.
	Ending time.Duration
}

// headerBytes bounds the headers of a request.
const headerBytes = 64 << 10

// Serve serves a handler on a listener until ctx ends, whose end is no error, and closes the listener. The contexts of
// requests end with ctx. A handler may take as long as it likes between two parts of its answer.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, o Options) error {
	limits := o.Limits.withDefaults()
	orDefault(&o.Ending, 5*time.Second)
	bounded := newListener(ln, limits)
	server := &http.Server{
		Handler: limits.handler(h), ReadHeaderTimeout: limits.Header, IdleTimeout: limits.Idle, MaxHeaderBytes: headerBytes,
		ConnState: bounded.state, BaseContext: func(net.Listener) context.Context { return ctx }, TLSConfig: o.TLS,
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	served := make(chan error, 1)
	go func() {
		if o.TLS == nil {
			served <- server.Serve(bounded)
			return
		}
		served <- server.ServeTLS(bounded, "", "")
	}()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Ending)
	defer cancel()
	if server.Shutdown(end) != nil {
		_ = server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// handler has requests and answers make progress.
func (l Limits) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(l.Body))
			r.Body = &body{r.Body, control}
		}
		// What is buffered is written after the handler has returned.
		defer func() { _ = control.SetWriteDeadline(time.Now().Add(l.Write)) }()
		h.ServeHTTP(&writer{w, control, l.Write}, r)
	})
}

// body is the body of a request. Once it was read the connection may be quiet for as long as the handler takes.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// writer writes an answer in parts, each of which has its time.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// partBytes is how much of an answer is written within Limits.Write.
const partBytes = 64 << 10

func (w *writer) Write(b []byte) (n int, err error) {
	for first := true; err == nil && (first || n < len(b)); first = false {
		_ = w.control.SetWriteDeadline(time.Now().Add(w.timeout))
		var part int
		part, err = w.ResponseWriter.Write(b[n:min(len(b), n+partBytes)])
		n += part
	}
	return n, err
}

// Unwrap returns what http.ResponseController needs.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
