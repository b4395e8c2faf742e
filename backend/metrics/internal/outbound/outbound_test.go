package outbound

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAddresses(t *testing.T) {
	allowed := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd12::/16")}
	for address, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true, "::ffff:93.184.216.34": true,
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "fd12::1": true, // allowed
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "::ffff:127.0.0.1": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "fd00:ec2::254": false, "::ffff:169.254.169.254": false,
		"10.2.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "fc00::1": false,
		"0.0.0.0": false, "::": false, "0.1.2.3": false, "255.255.255.255": false, "240.0.0.1": false, "224.0.0.1": false, "ff02::1": false,
		"100.64.0.1": false, "100.100.100.200": false, "192.0.0.192": false, "198.18.0.1": false,
		"64:ff9b::a9fe:a9fe": false, "64:ff9b:1::1": false, "2002:a9fe:a9fe::1": false, "2001::1": false,
		"::169.254.169.254": false, "fec0::1": false,
	} {
		if got := mayDial(netip.MustParseAddr(address), allowed); got != want {
			t.Errorf("%s: %t", address, got)
		}
		// The check of a dialer before it dials; nothing is dialed here.
		err := PublicDialer(allowed).Control("tcp", net.JoinHostPort(address, "80"), nil)
		if refused := (*RefusedError)(nil); errors.As(err, &refused) == want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := PublicDialer(nil).Control("unix", "/run/x.sock", nil); err == nil {
		t.Error("a socket of this machine is dialed")
	}
}

func TestBeneath(t *testing.T) {
	for _, test := range []struct {
		base, at string
		want     bool
	}{
		{"http://x", "http://x", true},
		{"http://x", "http://x/", true},
		{"http://x", "http://x/a", true},
		{"http://x/a", "http://x/a", true},
		{"http://x/a", "http://x/a/b", true},
		{"http://x/a/", "http://x/a/b", true},
		{"http://x/a", "http://x/ab", false},
		{"http://x/a", "http://x/", false},
		{"http://x/a", "http://x/a/../b", false},
		{"http://x/a", "http://x/a/%2e%2e/b", false},
		{"http://x/a", "http://x/a/%2E./b", false},
		{"http://x/a", "http://x/a%2fb", false},
		{"http://x/a", "http://x/a/b%2F..%2Fc", false},
		{"http://x/a", "http://x/a/b%5c..", false},
		{"http://x/a", "http://x/a/..b", true},
		{"http://x/a", "http://x/a/b;v=1/c", true},
		{"http://x/a", "http://x/a/b..;x/c", true},
		{"http://x/a", "http://x/a/%C3%BC/%E6%97%A5", true},
		{"http://x/a", "http://x/a/b%20c+d", true},
		{"http://x/a", "http://x/a//b", true},
		{"http://x/a", "http://x/a/..;/admin", false},
		{"http://x/a", "http://x/a/..;x=y/admin", false},
		{"http://x/a", "http://x/a/..%3b/admin", false},
		{"http://x/a", "http://x/a/.;/admin", false},
		{"http://x/a", "http://x/a/;/..", false},
		{"http://x/a", "http://x/a/;x/b", false},
		{"http://x/a", "http://x/a/...;/admin", false},
		{"http://x/a", "http://x/a/..%20/admin", false},
		{"http://x/a", "http://x/a/%20../admin", false},
		{"http://x/a", "http://x/a/%252e%252e/admin", false},
		{"http://x/a", "http://x/a/%252e%252e%252fadmin", false},
		{"http://x/a", "http://x/a/%25252e%25252e/admin", false},
		{"http://x/a", "http://x/a/b%253b", false},
		{"http://x/a", "http://x/a/100%25", false},
		{"http://x/a", "http://x/a/%c0%ae%c0%ae/admin", false},
		{"http://x/a", "http://x/a/%c0%ae./admin", false},
		{"http://x/a", "http://x/a/%e0%80%ae%e0%80%ae/admin", false},
		{"http://x/a", "http://x/a/b%c0%afc", false},
		{"http://x/a", "http://x/a/%ff", false},
		{"http://x/a", "http://x/a/%EF%BC%8E%EF%BC%8E/admin", false},
		{"http://x/a", "http://x/a/．．/admin", false},
		{"http://x/a", "http://x/a/b／..／admin", false},
		{"http://x/a", "http://x/a/。。/admin", false},
		{"http://x/a", "http://x/a/‥/admin", false},
		{"http://x/a", "http://x/a/․․/admin", false},
		{"http://x/a", "http://x/a/..；/admin", false},
		{"http://x/a", "http://x/a/b∕c", false},
		{"http://x/a", "http://x/a/b＼c", false},
		{"http://x/a", "http://x/a/％2e％2e/admin", false},
		{"http://x/a", "http://x/a/.%00./admin", false},
		{"http://x/a", "http://x/a/.%0a./admin", false},
		{"http://x/a", "http://x/a/.%09./admin", false},
		{"http://x/a", "http://x/a/.%7f./admin", false},
		{"http://x/a", "http://x/a/.%E2%80%8B./admin", false},
		{"http://x/a", "http://x/a/.%C2%AD./admin", false},
		{"http://x/a", "http://x/a/.%EF%BB%BF./admin", false},
		{"http://x/a", "http://x/a/.%EF%B8%8F./admin", false},
		{"http://x/a", "http://x/a/b%00.json", false},
	} {
		base, err := url.Parse(test.base)
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(test.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := Beneath(base, at); got != test.want {
			t.Errorf("%s beneath %s: %t", test.at, test.base, got)
		}
	}
}

// TestATokenFileThatOthersReadIsRefused: when the endpoint is made, and when the mode changed
// later.
func TestATokenFileThatOthersReadIsRefused(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := filepath.Join(t.TempDir(), "token")
	e := Endpoint{TokenFile: file}
	if err := e.Prepare(); err != nil {
		t.Errorf("a file that is not there yet: %v", err)
	}
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := e.token(t.Context()); err != nil || token != "s3cret" {
		t.Errorf("%q, %v", token, err)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := e.Prepare(); err == nil || !strings.Contains(err.Error(), file+" has mode 0640") {
		t.Errorf("when the endpoint is made: %v", err)
	}
	_, err := e.token(t.Context())
	if err == nil || !strings.Contains(err.Error(), "mode 0640 and must have 0600") || strings.Contains(err.Error(), file) {
		t.Errorf("when a token is needed: %v", err)
	}
}

func TestOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"http://X/a": "http://x:80", "https://x": "https://x:443", "HTTPS://x:8443": "https://x:8443", "http://[::1]:80/": "http://::1:80",
	} {
		u, err := url.Parse(text)
		if err != nil || Origin(u) != want {
			t.Errorf("%s: %s, %v", text, Origin(u), err)
		}
	}
}

func TestTextsAreShown(t *testing.T) {
	e := &Endpoint{
		URL: &url.URL{Scheme: "http", Host: "x"}, Username: "me", Password: "pw",
		Header: http.Header{"Cookie": {"session=0123456789; a=b"}, "X-Scope": {"7"}},
	}
	if err := e.Prepare(); err != nil {
		t.Fatal(err)
	}
	c, _, cancel, err := Begin(context.Background(), nil, e, Limits{Timeout: 1})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	for text, want := range map[string]string{
		"plain":                          "plain",
		" a\n\tb\x00c\u200b ":            "a  b c",
		"of pw, bWU6cHc= and 0123456789": "of [secret], [secret] and [secret]",
		"7 of 17":                        "7 of 17",
		"a\xffb":                         "a b",
		strings.Repeat("ü", 300):         strings.Repeat("ü", 254) + "…",
	} {
		if got := c.Text(text); got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
}

// sent records that a request was sent.
type sent int

func (s *sent) RoundTrip(*http.Request) (*http.Response, error) {
	*s++
	return nil, errors.New("sent")
}

// TestACallStaysAtItsEndpoint tests both guards, each of which must work without the other.
func TestACallStaysAtItsEndpoint(t *testing.T) {
	for text, want := range map[string]bool{
		"http://x.invalid/base/a": true, "http://X.invalid:80/base": true,
		"https://x.invalid/base/a": false, "http://x.invalid:81/base/a": false, "http://y.invalid/base/a": false,
		"http://x.invalid/other": false, "http://x.invalid/base/../a": false, "http://me@x.invalid/base": false,
	} {
		var requests sent
		e := &Endpoint{URL: &url.URL{Scheme: "http", Host: "x.invalid", Path: "/base"}}
		if err := e.Prepare(); err != nil {
			t.Fatal(err)
		}
		c, ctx, cancel, err := Begin(t.Context(), &requests, e, Limits{Timeout: time.Minute, Bytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, text, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(req)
		if resp != nil || (requests > 0) != want || errors.Is(err, errElsewhere) == want {
			t.Errorf("%s: sent %d times, %v", text, requests, err)
		}
		if err = c.redirect(req, []*http.Request{req}); (err == nil) != want {
			t.Errorf("redirect to %s: %v", text, err)
		}
		cancel()
	}
}
