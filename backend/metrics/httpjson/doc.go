// Package httpjson has a provider for the checks of a strategy that takes a number out of the JSON of an HTTP service. It needs
// the standard library only.
//
//	provider, err := httpjson.New(httpjson.Config{
//		Hosts: []httpjson.Host{{URL: "https://quality.example.com/api", BearerTokenFile: "/var/run/secrets/tokens/quality"}},
//	})
//
// # Queries
//
// A query is a line: GET or POST, a URL, and behind a # a JSON pointer into the answer. Of POST the body follows from the second
// line on; it is sent as JSON. GET may be left out, and the pointer where the answer is the value itself.
//
//	GET /clusters/{{cluster}}/errors?minutes=5 #/data/0/ratio
//
//	POST https://quality.example.com/api/search #/hits/total
//	{"service": "shop", "level": "error"}
//
// A URL that begins with a slash is beneath the one of the only host. The pointer is that of RFC 6901 in its form for URLs: ~0
// and ~1 stand for ~ and /, and %25 for a percent sign. The engine escapes values of words such as {{cluster}} in the URL and
// in the pointer; in a body they belong into strings.
//
// # Values
//
// Where the pointer leads there is
//
//   - a number, or a string that is one, also "NaN" and "Inf": a sample without labels;
//   - null, or nothing: no sample, and no error;
//   - an array: a sample for each element that is not null. An element may be an object with a value and labels, such as
//     {"labels": {"cluster": "paris"}, "value": 0.3}, for a check with a clusterLabel.
//
// Everything else is an error. The window of the query is not used, since only the service knows how old its numbers are: write
// {{window}} into the URL where the service can take it.
//
// # What may be reached
//
// The author of a query may be a tenant, and so the host says what it reaches: what is beneath the URLs of [Config.Hosts], by
// scheme, host, port and path. A path is refused if it has dot segments, also with parameters such as "..;x", a backslash, an
// escaped slash or percent sign, bytes that are not UTF-8, or characters that servers take for dots and slashes. At most five redirects are
// followed, each to what the same host allows; others are errors. No proxy is used.
//
// Besides, an address that is not public is refused: loopback, link-local, as that of a cloud's metadata, private, unspecified and
// reserved ones, unless [Config.Networks] has it. That is checked of the address that is dialed, so that it does not matter what
// a name resolves to, or what it resolved to before.
//
// Credentials, headers and client certificates of a host are sent to that host alone. With them a query reads every number that
// the service has for them: have a provider for each tenant where that is too much. POST may change something in a service that
// means it so: give the credentials rights to read only.
//
// # Limits and errors
//
// A query takes at most [Config.Timeout], or until the deadline of the caller where that is sooner. An answer has at most
// [Config.MaxBytes], decompressed, and [Config.MaxSamples] samples. A status other than 2xx is an error.
//
// An error has no credentials, no address and nothing of the answer but names of labels, and is one line of at most 600 bytes. It
// matches [context.DeadlineExceeded] or [context.Canceled] where that was the reason, and wraps nothing else. Values of headers with
// fewer than 8 bytes are not taken for secrets.
package httpjson
