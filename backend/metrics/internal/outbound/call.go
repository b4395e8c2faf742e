package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a call.
const (
	maxRedirects = 5
	maxText      = 512 // bytes of an error
)

// TooLargeError is the error of a body beyond its limit.
type TooLargeError struct{ Limit int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer has more than %d bytes", e.Limit)
}

// Limits are the limits of a call.
type Limits struct {
	// Timeout is the maximum duration of the call, including redirects and body.
	Timeout time.Duration
	// Bytes is the maximum size of the body after decompression.
	Bytes int64
}

// Call is one question to an endpoint: a request with its redirects. It is the
// [http.Client.Transport] of its client, because it adds the credentials.
type Call struct {
	next     http.RoundTripper
	endpoint *Endpoint
	limits   Limits
	header   http.Header
	secrets  []string
}

// Begin reads the credentials and returns a call and the context for its request.
func Begin(ctx context.Context, next http.RoundTripper, e *Endpoint, l Limits) (*Call, context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	c := &Call{next: next, endpoint: e, limits: l}
	var err error
	if c.header, c.secrets, err = e.credentials(ctx); err != nil {
		cancel()
		return nil, nil, nil, err
	}
	return c, ctx, cancel, nil
}

// Client returns a client of the call.
func (c *Call) Client() *http.Client {
	return &http.Client{Transport: c, CheckRedirect: c.redirect}
}

// errElsewhere refuses a redirect. It does not contain the target, because an address may contain
// a secret.
var errElsewhere = errors.New("the server redirects to another host, which is refused")

func (c *Call) redirect(req *http.Request, via []*http.Request) error {
	switch {
	case !c.within(req.URL):
		return errElsewhere
	case req.Method != via[0].Method:
		return errors.New("the server redirects a POST so that its body is lost: configure the URL that it redirects to")
	case len(via) >= maxRedirects:
		return fmt.Errorf("the server redirects more than %d times", maxRedirects)
	}
	return nil
}

// within reports whether a URL is beneath the endpoint.
func (c *Call) within(u *url.URL) bool {
	return u.User == nil && Origin(u) == Origin(c.endpoint.URL) && Beneath(c.endpoint.URL, u)
}

// Beneath reports whether the path of u equals the path of base or is below it, however a server
// reads the path. Some servers decode a path twice, remove parameters from its segments, and read
// other characters as dots and slashes.
func Beneath(base, u *url.URL) bool {
	if !utf8.ValidString(u.Path) || strings.Contains(strings.ToLower(u.EscapedPath()), "%2f") || strings.ContainsFunc(u.Path, isAmbiguous) {
		return false
	}
	if again, err := url.PathUnescape(u.Path); err != nil || again != u.Path {
		return false // a percent sign that is not the end of decoding
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		name, _, _ := strings.Cut(segment, ";")
		if name = strings.TrimSpace(name); name != "" && strings.Trim(name, ". ") == "" || name == "" && segment != "" {
			return false
		}
	}
	prefix := strings.TrimRight(base.Path, "/")
	return u.Path == prefix || strings.HasPrefix(u.Path, prefix+"/") || prefix == "" && u.Path == ""
}

// isAmbiguous reports whether a server may read a character of a path as a dot, a slash, a
// percent sign or a semicolon, or ignore it.
func isAmbiguous(r rune) bool {
	return !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) || strings.ContainsRune("\\"+
		"\u2024\u2025\u2026\u3002\ufe12\ufe19\ufe30\ufe52\uff0e\uff61"+ // dots
		"\u2044\u2215\u2216\u29f5\u29f8\u29f9\ufe68\uff0f\uff3c"+ // slashes
		"\u037e\ufe14\ufe54\ufe6a\uff05\uff1b", r) // semicolons and percent signs
}

// RoundTrip sends a request with the credentials to the endpoint, and limits the answer.
func (c *Call) RoundTrip(req *http.Request) (*http.Response, error) {
	if !c.within(req.URL) {
		return nil, errElsewhere
	}
	req = req.Clone(req.Context())
	maps.Copy(req.Header, c.header)
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &bounded{body: resp.Body, left: c.limits.Bytes, limit: c.limits.Bytes}
	return resp, nil
}

// bounded is a body that returns an error beyond its limit.
type bounded struct {
	body        io.ReadCloser
	left, limit int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.body.Read(p)
	if int64(n) > b.left {
		return int(b.left), &TooLargeError{Limit: b.limit}
	}
	b.left -= int64(n)
	return n, err
}

func (b *bounded) Close() error { return b.body.Close() }

// Error returns err in a form that may be shown to users: one short line without addresses and
// without secrets of the call. It wraps only the error of an ended context.
func (c *Call) Error(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("there was no answer in time: %w", context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("the question was given up: %w", context.Canceled)
	}
	return errors.New(c.Text(reason(err)))
}

// Text returns a message of a server in a form that may be shown to users.
func (c *Call) Text(s string) string {
	for _, secret := range c.secrets {
		if secret != "" {
			s = strings.ReplaceAll(s, secret, "[secret]")
		}
	}
	return Line(s)
}

// Line returns a text in one line of at most 512 bytes.
func Line(s string) string {
	var out strings.Builder
	for _, r := range strings.TrimSpace(s) {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			r = ' '
		}
		if out.Len()+utf8.RuneLen(r) > maxText-len("…") {
			return out.String() + "…"
		}
		out.WriteRune(r)
	}
	return strings.TrimSpace(out.String())
}

// reason returns the text of an error without the URL and the addresses that the standard library
// adds.
func reason(err error) string {
	if sent := (*url.Error)(nil); errors.As(err, &sent) {
		err = sent.Err
	}
	if name := (*net.DNSError)(nil); errors.As(err, &name) {
		if name.IsNotFound {
			return "the host of the URL is not known"
		}
		return "the host of the URL could not be looked up"
	}
	if refused := (*RefusedError)(nil); errors.As(err, &refused) {
		return refused.Error()
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		if number := syscall.Errno(0); errors.As(op.Err, &number) {
			return op.Op + ": " + number.Error()
		}
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
