package member

import (
	"cmp"
	"time"
)

// Options say how connections behave. The zero value is useful.
type Options struct {
	// QPS and Burst limit the requests a second to one member; default 50, and twice QPS. Negative
	// means no limit. A limit in the rest.Config wins.
	QPS   float32
	Burst int
	// DialTimeout bounds the connecting and, again, the handshake of TLS; default 5 s.
	DialTimeout time.Duration
	// RequestTimeout bounds a request with its answer; default 30 s. A context may bound it further.
	// Watches are bounded by nothing, but a peer that does not answer a ping within RequestTimeout is
	// taken for dead.
	RequestTimeout time.Duration
	// ProxyFromEnvironment lets HTTPS_PROXY and its like apply to members. By default they do not:
	// what the host uses to reach the internet is no part of a member's configuration.
	ProxyFromEnvironment bool
	// UserAgent is told to members; default slipway.
	UserAgent string
	// Fenced reports whether the members have the policies of [FenceManifests]. What is created then carries
	// the epoch of its writer, as a mark, by which the policies refuse what an older leader creates;
	// the connection's fencing is [backend.FencingEventual]. On a member without them it is a mark
	// that has no effect. What is applied there has the label slipway.dev/applied besides, by which the policies
	// find it; otherwise objects have no label but their own. By default a connection knows no fences.
	Fenced bool
	// Limits bound what a member returns.
	Limits Limits
}

// Limits bound what a member returns, before it is decoded. An answer beyond them is ErrPermanent, and
// is not read to its end.
type Limits struct {
	// Bytes bounds an object, and a page of a list, after decompression; default 8 MiB.
	Bytes int
	// Depth bounds how deep maps and lists are nested; default 128.
	Depth int
	// Elements bounds how many members and elements all maps and lists have together; default
	// 250,000: decoded, each can take a hundred bytes.
	Elements int
}

func (o Options) withDefaults() Options {
	o.QPS = cmp.Or(o.QPS, 50)
	o.Burst = cmp.Or(o.Burst, int(2*o.QPS))
	o.DialTimeout = cmp.Or(max(o.DialTimeout, 0), 5*time.Second)
	o.RequestTimeout = cmp.Or(max(o.RequestTimeout, 0), 30*time.Second)
	o.UserAgent = cmp.Or(o.UserAgent, "slipway")
	o.Limits.Bytes = cmp.Or(max(o.Limits.Bytes, 0), 8<<20)
	o.Limits.Depth = cmp.Or(max(o.Limits.Depth, 0), 128)
	o.Limits.Elements = cmp.Or(max(o.Limits.Elements, 0), 250_000)
	return o
}
