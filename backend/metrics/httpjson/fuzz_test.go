package httpjson

import (
	"math"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/backend/metrics/internal/outbound"
)

// FuzzQuery: every query stays below a URL of the host, and every answer is samples or an error
// of one line.
func FuzzQuery(f *testing.F) {
	f.Add("GET /a?x=y #/data/0/value", `{"data":[{"value":"1"}]}`)
	f.Add("POST /q #/a~1b\n{}", `{"a/b":[1,null,{"labels":{"cluster":"a"},"value":2}]}`)
	f.Add("http://x.invalid/base/%2e%2e/b", `[[1]]`)
	f.Add(`//y.invalid\..%2f#%`, `1e999`)
	p, err := New(Config{Hosts: []Host{{URL: "http://x.invalid/base"}}})
	if err != nil {
		f.Fatal(err)
	}
	base := p.hosts[0].endpoint.URL
	f.Fuzz(func(t *testing.T, query, document string) {
		q, err := parse(query)
		if err != nil {
			return
		}
		if _, err = p.locate(q); err == nil {
			at, err := outbound.ParseURL(strings.SplitN(q.url.String(), "?", 2)[0])
			if err != nil || outbound.Origin(at) != outbound.Origin(base) || !outbound.Beneath(base, at) {
				t.Fatalf("%q leaves %q: %v", q.url, base, err)
			}
		}
		samples, err := read([]byte(document), q.pointer, 10)
		if err != nil && (samples != nil || strings.ContainsAny(err.Error(), "\r\n")) || len(samples) > 10 {
			t.Fatalf("%v, %q", samples, err)
		}
		for _, s := range samples {
			if math.IsNaN(s.Value) && !strings.Contains(strings.ToLower(document), "nan") {
				t.Fatalf("NaN of %s", document)
			}
		}
	})
}
