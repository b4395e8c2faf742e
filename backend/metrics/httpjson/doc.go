// Package httpjson is a provider for the checks of a strategy. It reads a number from the JSON of
// an HTTP service. It needs the standard library only.
//
//	provider, err := httpjson.New(httpjson.Config{
//		Hosts: []httpjson.Host{{URL: "https://quality.example.com/api", BearerTokenFile: "/var/run/secrets/tokens/quality"}},
//	})
//
// # Queries
//
// A query is a line: GET or POST, a URL, and after a # a JSON pointer into the answer. For POST,
// the body begins on the second line; the provider sends it as JSON. GET is the default method.
// The pointer is optional if the answer is the value itself.
//
//	GET /clusters/{{cluster}}/errors?minutes=5 #/data/0/ratio
//
//	POST https://quality.example.com/api/search #/hits/total
//	{"service": "shop", "level": "error"}
//
// A URL that begins with a slash is relative to the URL of the only host. The pointer has the URL
// form of RFC 6901: ~0 and ~1 stand for ~ and /, and %25 for a percent sign. The engine escapes
// values of words such as {{cluster}} in the URL and in the pointer; in a body they must be
// inside strings.
//
// # Values
//
// The pointer must select
//
//   - a number, or a string with a number, also "NaN" and "Inf": a sample without labels;
//   - null, or nothing: no sample, and no error;
//   - an array: a sample for each element that is not null. An element may be an object with a
//     value and labels, such as {"labels": {"cluster": "paris"}, "value": 0.3}, for a check with
//     a clusterLabel.
//
// Everything else is an error. The provider does not use the window of the query, because only
// the service knows the age of its numbers: write {{window}} into the URL if the service supports
// it.
//
// # Which addresses are permitted?
//
// The author of a query may be a tenant, so the host limits the addresses: a query reaches only
// URLs below the URLs of [Config.Hosts], by scheme, host, port and path. A path is refused if it
// has dot segments, also with parameters such as "..;x", a backslash, an escaped slash or percent
// sign, bytes that are not UTF-8, or characters that servers read as dots and slashes. The
// provider follows at most five redirects, within the same limits; others are errors. It uses no
// proxy.
//
// The provider also refuses addresses that are not public unless [Config.Networks] contains them:
// loopback, link-local (for example a cloud's metadata service), private, unspecified and
// reserved addresses. It checks the address that it dials, so a name that resolves to different
// addresses cannot bypass the check.
//
// Only the host itself receives its credentials, headers and client certificates. With them a
// query can read every number that the service grants to these credentials: create a provider for
// each tenant if that is too much. POST may change the state of a service: use credentials with
// read access only.
//
// # Limits and errors
//
// A query takes at most [Config.Timeout], or until the deadline of the caller if that is sooner.
// An answer has at most [Config.MaxBytes], decompressed, and [Config.MaxSamples] samples. A
// status other than 2xx is an error.
//
// An error contains no credentials, no address and no part of the answer except names of labels,
// and is one line of at most 600 bytes. It matches [context.DeadlineExceeded] or
// [context.Canceled] if that was the reason, and wraps no other error. Values of headers with
// fewer than 8 bytes do not count as secrets.
package httpjson
