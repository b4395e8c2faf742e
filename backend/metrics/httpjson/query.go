package httpjson

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// question is a parsed query.
type question struct {
	method  string
	url     *url.URL
	pointer []string
	body    string
}

// parse reads a query: METHOD URL #POINTER, and after the first line a body. Errors do not
// contain the query, because it may contain a secret.
func parse(text string) (*question, error) {
	line, body, hasBody := strings.Cut(strings.TrimLeft(text, " \t\r\n"), "\n")
	q := &question{method: http.MethodGet, body: body}
	target, fragment, hasPointer := strings.Cut(strings.TrimSpace(line), "#")
	target = strings.TrimSpace(target)
	if method, rest, found := strings.Cut(target, " "); found {
		q.method, target = method, strings.TrimSpace(rest)
	}
	switch {
	case q.method != http.MethodGet && q.method != http.MethodPost:
		return nil, errors.New("it begins with neither GET nor POST: write GET /path?x=y #/data/value")
	case q.method == http.MethodGet && hasBody && strings.TrimSpace(body) != "":
		return nil, errors.New("GET has no body: write POST")
	case strings.ContainsAny(target, " \t"):
		return nil, errors.New("the URL has a space: write %20")
	}
	var err error
	if q.url, err = url.Parse(target); err != nil {
		return nil, errors.New("the URL cannot be parsed")
	}
	absolute := (q.url.Scheme == "http" || q.url.Scheme == "https") && q.url.Host != ""
	beneath := q.url.Scheme == "" && q.url.Host == "" && strings.HasPrefix(q.url.Path, "/")
	switch {
	case q.url.User != nil:
		return nil, errors.New("the URL has user info: the host sets the credentials")
	case !absolute && !beneath:
		return nil, errors.New("the URL begins with none of /, http:// and https://")
	}
	if hasPointer {
		q.pointer, err = parsePointer(strings.TrimSpace(fragment))
	}
	return q, err
}

// parsePointer reads a JSON pointer in its form of a URI fragment, RFC 6901 section 6, without
// the # before it.
func parsePointer(fragment string) ([]string, error) {
	text, err := url.PathUnescape(fragment)
	if err != nil {
		return nil, errors.New("the pointer has a % without two hexadecimal digits: write %25")
	}
	if text == "" {
		return nil, nil
	}
	if !strings.HasPrefix(text, "/") {
		return nil, errors.New("the pointer does not begin with #/")
	}
	steps := strings.Split(text[1:], "/")
	for i, step := range steps {
		for rest := step; ; {
			_, after, found := strings.Cut(rest, "~")
			if !found {
				break
			}
			if !strings.HasPrefix(after, "0") && !strings.HasPrefix(after, "1") {
				return nil, errors.New("the pointer has a ~ that is neither ~0 nor ~1")
			}
			rest = after
		}
		steps[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
	}
	return steps, nil
}
