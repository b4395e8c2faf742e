package outbound

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// RefusedError is the error of an address that must not be dialed. It does not contain the
// address, because that would reveal names inside a network.
type RefusedError struct{}

func (*RefusedError) Error() string {
	return "the host of the URL has an address that is refused: loopback, link-local, private or reserved"
}

// Transport returns a new transport without a proxy. tlsConfig may be nil.
func Transport(d *net.Dialer, tlsConfig *tls.Config) *http.Transport {
	if tlsConfig != nil {
		tlsConfig = tlsConfig.Clone()
	}
	return &http.Transport{
		DialContext:            d.DialContext,
		TLSClientConfig:        tlsConfig,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           64,
		MaxIdleConnsPerHost:    16, // as many questions as an engine asks at the same time
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// Dialer returns a dialer that may reach any address.
func Dialer() *net.Dialer { return &net.Dialer{Timeout: 10 * time.Second} }

// PublicDialer returns a dialer that refuses all addresses that are neither public nor in
// allowed. It checks the dialed address after name resolution, so a name that resolves to another
// address the next time cannot bypass the check.
func PublicDialer(allowed []netip.Prefix) *net.Dialer {
	allowed = slices.Clone(allowed)
	d := Dialer()
	d.Control = func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !mayDial(to.Addr(), allowed) {
			return &RefusedError{}
		}
		return nil
	}
	return d
}

// reserved returns prefixes that netip does not classify: they are not public, or wrap an IPv4
// address.
func reserved() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"),       // this host
		netip.MustParsePrefix("100.64.0.0/10"),   // shared by carriers, and by clouds for their services
		netip.MustParsePrefix("192.0.0.0/24"),    // protocol assignments
		netip.MustParsePrefix("192.0.2.0/24"),    // documentation
		netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
		netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
		netip.MustParsePrefix("198.51.100.0/24"), // documentation
		netip.MustParsePrefix("203.0.113.0/24"),  // documentation
		netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and the broadcast address
		netip.MustParsePrefix("::/96"),           // IPv4-compatible
		netip.MustParsePrefix("64:ff9b::/96"),    // NAT64, which reaches any IPv4 address
		netip.MustParsePrefix("64:ff9b:1::/48"),  // NAT64 of a local network
		netip.MustParsePrefix("100::/64"),        // discarded
		netip.MustParsePrefix("2001::/23"),       // protocol assignments, Teredo
		netip.MustParsePrefix("2001:db8::/32"),   // documentation
		netip.MustParsePrefix("2002::/16"),       // 6to4, which reaches any IPv4 address
		netip.MustParsePrefix("3fff::/20"),       // documentation
		netip.MustParsePrefix("5f00::/16"),       // segment routing
		netip.MustParsePrefix("fec0::/10"),       // site-local
	}
}

// mayDial reports whether an address is public or allowed.
func mayDial(ip netip.Addr, allowed []netip.Prefix) bool {
	ip = ip.Unmap().WithZone("")
	in := func(p netip.Prefix) bool { return p.Contains(ip) }
	if slices.ContainsFunc(allowed, in) {
		return true
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !slices.ContainsFunc(reserved(), in)
}
