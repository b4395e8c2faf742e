// Package serving serves HTTP on a listener with limits, so that silent, slow or numerous clients
// do not block other clients. Requests and answers must make progress, and the number of
// connections is limited for each address and in total. All listeners of the project's programs
// use it.
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

// Limits are the limits for clients of a server. The zero value of a field means its default.
type Limits struct {
	// Header is the maximum time for the headers of a request, and for a TLS handshake; 5 s.
	Header time.Duration
	// Body is the maximum time for the body of a request; 30 s.
	Body time.Duration
	// Write is the time limit for a client to read 64 KiB of an answer; 30 s.
	Write time.Duration
	// Idle is the maximum time of a connection without a request; 60 s.
	Idle time.Duration
	// Connections is the maximum number of open connections, and PerAddress the maximum for one
	// address; 1,024 and 256. At the maximum, a new connection replaces the oldest connection
	// without a request; if all have one, the new connection is closed.
	Connections, PerAddress int
}

// DefaultLimits returns the limits of a server without limits in its options.
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

// Options configure the server of a handler.
type Options struct {
	Limits Limits
	// TLS, if it is not nil, contains the certificate of the server.
	TLS *tls.Config
	// Log receives problems with connections; nil logs nothing.
	Log *slog.Logger
	// Ending is the time that requests have to end after their contexts ended; 5 s.
	Ending time.Duration
}

// headerBytes is the maximum size of a request's headers.
const headerBytes = 64 << 10

// Serve serves a handler on a listener until ctx ends, which is not an error, and closes the
// listener. The contexts of requests end with ctx. A handler may pause for any time between two
// parts of its answer.
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

// handler adds deadlines for the progress of requests and answers.
func (l Limits) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.Body != nil && r.Body != http.NoBody {
			_ = control.SetReadDeadline(time.Now().Add(l.Body))
			r.Body = &body{r.Body, control}
		}
		// The server writes buffered data after the handler has returned.
		defer func() { _ = control.SetWriteDeadline(time.Now().Add(l.Write)) }()
		h.ServeHTTP(&writer{w, control, l.Write}, r)
	})
}

// body is the body of a request. After the body is read, the connection has no deadline while the
// handler runs.
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

// writer writes an answer in parts, each with its own deadline.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
}

// partBytes is the size of a part that must be written within Limits.Write.
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

// Unwrap returns the writer for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
