package httpapi

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/approval"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/durations"
)

// Options say how to serve an engine. The zero value serves it for reading only.
type Options struct {
	// Authenticate returns the identity that makes a request. If it returns an error, the answer is
	// 401 with the error's text. It is called for every request, concurrently, and must not read the
	// body. If it is nil, any caller may read, and changes are refused. Approval policies limit the
	// decisions of an identity. All its other requests are executed, unless Authorize refuses them.
	Authenticate func(*http.Request) (approval.Identity, error)
	// Authorize permits an identity to use a verb on a placement by nil. "" is the placement of
	// strategies, caps and everything else that belongs to no placement. Any error refuses: the answer
	// is 403, with the identity, the verb, the object and the error's text, and Log gets a warning. An
	// [*Error] is the answer itself, for example if a server that decides cannot be reached. Lists
	// over several placements contain only what the identity may get. A stream of events is authorized
	// again at the next event after 10 seconds. Authorize is called for each request and concurrently;
	// without Authenticate, the identity is empty. If it is nil, every identity may do everything.
	Authorize func(ctx context.Context, by approval.Identity, verb Verb, placement string) error
	// MaxBody bounds the body of a request, in bytes; 0 means 4 MiB.
	MaxBody int64
	// Log may be nil.
	Log *slog.Logger
}

const (
	defaultBody = 4 << 20
	// pageSize is the default number of items of a list, or events of a history, in one answer.
	pageSize = 1000
	mostPage = 10_000
)

// NewHandler returns the API of an engine, as the documentation of the package describes it. It
// must be served under the root of a host's address, because the paths begin with /v1/. The handler
// may be used concurrently and needs no shutdown; streams end with their requests.
func NewHandler(e *fleet.Engine, o Options) (http.Handler, error) {
	if e == nil {
		return nil, errors.New("httpapi: the engine is missing")
	}
	if o.MaxBody < 0 {
		return nil, fmt.Errorf("httpapi: Options.MaxBody is %d: want a number of bytes, or 0 for the default", o.MaxBody)
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultBody
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.pattern, &endpoint{e, o, r})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { unknown(mux, w, r) })
	return sameOrigin(mux), nil
}

// sameOrigin refuses cross-origin changes.
func sameOrigin(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteError(w, &Error{http.StatusForbidden, "CrossOrigin", "the request comes from a page of another site, which may not change anything"})
	}))
	return origins.Handler(next)
}

// Guard returns a handler with the same checks as [NewHandler] has for every route: it refuses
// cross-origin changes, changes that are not JSON, and bodies of more than maxBody bytes, 4 MiB if
// maxBody is 0. It is for hosts that serve routes of their own beside the API.
func Guard(next http.Handler, maxBody int64) http.Handler {
	if maxBody <= 0 {
		maxBody = defaultBody
	}
	return sameOrigin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		setHeaders(w)
		if err := checkType(r); err != nil {
			WriteError(w, err)
			return
		}
		r = r.Clone(r.Context())
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	}))
}

// setHeaders prevents caching of answers and guesses of their type.
func setHeaders(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
}

// checkType refuses a change with a body that a form of another site could send.
func checkType(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if typ, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || typ != "application/json" {
		return &Error{http.StatusUnsupportedMediaType, "UnsupportedMediaType", fmt.Sprintf("Content-Type is %q: want application/json", r.Header.Get("Content-Type"))}
	}
	return nil
}

// DecodeBody decodes the body of a request strictly into a value: a field that the value does not
// have, and text after the JSON, are errors. An empty body leaves the value unchanged.
func DecodeBody(r *http.Request, into any) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badRequest(fmt.Errorf("the body: %w", durations.Explain(err, text, into)))
	}
	if _, err := d.Token(); err != io.EOF {
		return badRequest(errors.New("the body: there is more after its JSON"))
	}
	return nil
}

// unknown answers a request without a route: either the path or the method does not exist.
func unknown(mux *http.ServeMux, w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := mux.Handler(other); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		WriteError(w, &Error{http.StatusNotFound, "NoRoute", "there is nothing at " + r.URL.Path})
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	WriteError(w, &Error{http.StatusMethodNotAllowed, "NoRoute", r.Method + " " + r.URL.Path + ": want " + strings.Join(allowed, " or ")})
}

// route is one operation of the API.
type route struct {
	pattern string
	// change reports whether the route changes something and therefore requires an identity.
	change bool
	// verb is what the caller must be permitted to do; itself means that serve checks it.
	verb Verb
	// serve answers a request. If it returns an error and has written nothing, the error is the
	// answer.
	serve func(c *call) error
}

// call is a request to a route.
type call struct {
	*http.Request
	w      http.ResponseWriter
	engine *fleet.Engine
	// by is the identity that makes the request; empty without Authenticate.
	by approval.Identity
	o  *Options
	// scope is the placement about which the caller was authorized.
	scope string
}

// endpoint is a route of an engine.
type endpoint struct {
	engine *fleet.Engine
	o      Options
	route  route
}

func (h *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w)
	c := &call{Request: r, w: w, engine: h.engine, o: &h.o}
	err := h.admit(c)
	if err == nil {
		err = c.receive()
	}
	if err == nil {
		err = c.authorize(h.route.verb)
	}
	if err == nil {
		err = h.route.serve(c)
	}
	if err == nil || r.Context().Err() != nil {
		return
	}
	if e := errorOf(err); e.Code >= http.StatusInternalServerError {
		h.o.Log.Error("a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	}
	WriteError(w, err)
}

// admit identifies the caller, and refuses a request that a page of another site could have made.
func (h *endpoint) admit(c *call) (err error) {
	switch {
	case h.o.Authenticate != nil:
		if c.by, err = h.o.Authenticate(c.Request); err == nil && c.by.Name == "" {
			err = errors.New("the request has no identity")
		}
		if err != nil {
			if e, is := errors.AsType[*Error](err); is {
				return e
			}
			c.w.Header().Set("WWW-Authenticate", "Bearer")
			c.w.Header().Set("Connection", "close") // a caller without an identity keeps no connection
			return &Error{http.StatusUnauthorized, "Unauthorized", err.Error()}
		}
	case h.route.change:
		return &Error{http.StatusForbidden, "ReadOnly", "this address is for reading only: the host authenticates no one"}
	}
	return checkType(c.Request)
}

// receive reads the body, so that a caller cannot be authorized long before the request is carried
// out.
func (c *call) receive() error {
	text, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, c.o.MaxBody))
	if err != nil {
		return err
	}
	c.Request = c.Clone(c.Context())
	c.Body = io.NopCloser(bytes.NewReader(text))
	return nil
}

// ctx is the request's context.
func (c *call) ctx() context.Context { return c.Context() }

// read decodes the body strictly into a value; an empty body leaves the value unchanged.
func (c *call) read(into any) error {
	return DecodeBody(c.Request, into)
}

// number returns a numeric parameter from 0 to most, or otherwise if it is missing.
func (c *call) number(name string, otherwise, most int64) (int64, error) {
	text := c.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0, badRequest(fmt.Errorf("%s=%.40q: want a number from 0 to %d", name, text, most))
	}
	return n, nil
}

// flag returns a boolean parameter, or false if it is missing.
func (c *call) flag(name string) (bool, error) {
	switch text := c.URL.Query().Get(name); text {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	default:
		return false, badRequest(fmt.Errorf("%s=%.40q: want true or false", name, text))
	}
}

// limit returns the maximum number of items in the answer.
func (c *call) limit() (int, error) {
	n, err := c.number("limit", pageSize, mostPage)
	if err == nil && n == 0 {
		n = pageSize
	}
	return int(n), err
}

// answer writes a value as the answer. A value of type struct{} gives an answer without content.
func answer(c *call, v any) error {
	if v == any(struct{}{}) {
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(append(text, '\n'))
	return nil
}

// one answers with a value.
func one[T any](get func(c *call) (T, error)) func(*call) error {
	return func(c *call) error {
		v, err := get(c)
		if err != nil {
			return err
		}
		return answer(c, v)
	}
}

// with serves a route that has a body and answers with a value.
func with[B, T any](do func(c *call, body B) (T, error)) func(*call) error {
	return func(c *call) error {
		var body B
		if err := c.read(&body); err != nil {
			return err
		}
		v, err := do(c, body)
		if err != nil {
			return err
		}
		return answer(c, v)
	}
}

// done serves a route whose answer has no content; the body may be empty.
func done[B any](do func(c *call, body B) error) func(*call) error {
	return with(func(c *call, body B) (struct{}, error) { return struct{}{}, do(c, body) })
}

// list answers with a part of a list. The part continues after the last item of the previous part
// or, if that item is gone, after the same number of items.
func list[T any](get func(c *call) ([]T, error), key func(T) string) func(*call) error {
	return func(c *call) error {
		limit, err := c.limit()
		if err != nil {
			return err
		}
		after, err := decodeToken(c.URL.Query().Get("continue"))
		if err != nil {
			return err
		}
		items, err := get(c)
		if err != nil {
			return err
		}
		first := min(after.Items, len(items))
		if first > 0 && key(items[first-1]) != after.Key {
			if i := slices.IndexFunc(items, func(item T) bool { return key(item) == after.Key }); i >= 0 {
				first = i + 1
			}
		}
		page := List[T]{Items: items[first:min(first+limit, len(items))]}
		if end := first + len(page.Items); end < len(items) {
			page.Continue = token{Key: key(items[end-1]), Items: end}.encode()
		}
		if page.Items == nil {
			page.Items = []T{}
		}
		return answer(c, page)
	}
}

// token is the position after an item of a list. Items is used if the item with the key is gone.
type token struct {
	Key   string `json:"k"`
	Items int    `json:"n"`
}

func (t token) encode() string {
	text, _ := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeToken(text string) (t token, err error) {
	if text == "" {
		return t, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil || t.Items < 0 {
		return t, badRequest(fmt.Errorf("continue=%.40q: want the value in an answer to the same list", text))
	}
	return t, nil
}
