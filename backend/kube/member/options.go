package member

import (
	"cmp"
	"time"
)

// Options configure connections. The zero value is useful.
type Options struct {
	// QPS limits the requests per second to one member, default 50; Burst limits a burst of requests,
	// default twice QPS. A negative value means no limit. A limit in the rest.Config has precedence.
	QPS   float32
	Burst int
	// DialTimeout limits the time to connect and, separately, the TLS handshake; default 5 s.
	DialTimeout time.Duration
	// RequestTimeout limits a request with its answer; default 30 s. A context may limit it further.
	// Watches have no limit, but a peer that does not answer a ping within RequestTimeout counts as
	// dead.
	RequestTimeout time.Duration
	// ProxyFromEnvironment lets HTTPS_PROXY and similar variables apply to members. By default they
	// do not, because the host's way to the internet is not part of a member's configuration.
	ProxyFromEnvironment bool
	// UserAgent is the user agent of requests; default slipway.
	UserAgent string
	// Fenced reports whether the members have the policies of [FenceManifests]. Created objects then
	// carry the epoch of their writer as a mark, by which the policies refuse creations of an older
	// leader; the connection's fencing is [backend.FencingEventual]. On a member without the
	// policies the mark has no effect. Applied objects also get the label slipway.dev/applied, by
	// which the policies find them; without Fenced, objects have only their own labels. By default a
	// connection has no fencing.
	Fenced bool
	// Limits limit the answers of a member.
	Limits Limits
}

// Limits limit an answer of a member before it is decoded. A larger answer is ErrPermanent, and
// is not read to its end.
type Limits struct {
	// Bytes limits an object, and a page of a list, after decompression; default 8 MiB.
	Bytes int
	// Depth limits how deep maps and lists are nested; default 128.
	Depth int
	// Elements limits the total number of members and elements of all maps and lists; default
	// 250,000, because each can take a hundred bytes after decoding.
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
