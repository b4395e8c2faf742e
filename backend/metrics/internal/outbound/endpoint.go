package outbound

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/slipway-dev/slipway/internal/secretfile"
)

// maxToken is the maximum length of a bearer token.
const maxToken = 64 << 10

// Endpoint is a server with the headers and credentials for it. No other server receives them.
type Endpoint struct {
	// URL has a scheme, a host and maybe a path.
	URL *url.URL
	// Header is sent with every request.
	Header http.Header
	// Username and Password are for basic authentication.
	Username, Password string
	// Token returns a bearer token; TokenFile is a file with a token that only its owner can read.
	// Both are read for each call, because tokens are renewed.
	Token     func(context.Context) (string, error)
	TokenFile string
}

// ParseURL returns the URL of an endpoint. Its errors do not contain the text, because it may
// contain a password.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("the URL cannot be parsed")
	case u.User != nil:
		return nil, errors.New("the URL has user info: give the user name and the password in fields of their own")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the URL begins with neither http:// nor https://")
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("the URL has a query or a fragment")
	case !Beneath(u, u):
		return nil, errors.New("the path of the URL has a dot segment, a backslash, an escaped slash, or a character that servers take for one of them")
	}
	return u, nil
}

// Prepare makes the names of headers canonical, and returns an error if the credentials are
// wrong.
func (e *Endpoint) Prepare() error {
	header := http.Header{}
	for name, values := range e.Header {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	e.Header = header
	ways := 0
	for _, given := range []bool{
		e.Username != "" || e.Password != "", e.Token != nil, e.TokenFile != "", e.Header.Get("Authorization") != "",
	} {
		if given {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("of user name with password, bearer token, file of a bearer token and header Authorization only one can be given")
	}
	if strings.Contains(e.Username, ":") {
		return errors.New("the user name has a colon, which basic authentication cannot send")
	}
	// A file that is missing now may exist at the first call.
	_, err := e.readToken()
	if _, open := errors.AsType[*secretfile.ModeError](err); open {
		return err
	}
	return nil
}

// Origin is the scheme, host and port of a URL.
func Origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case strings.EqualFold(u.Scheme, "https"):
		port = "443"
	default:
		port = "80"
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// credentials returns the headers of a call, and the secrets in them, which no error may contain.
func (e *Endpoint) credentials(ctx context.Context) (header http.Header, secrets []string, err error) {
	header = e.Header.Clone()
	for _, values := range header {
		for _, value := range values {
			secrets = append(secrets, parts(value)...)
		}
	}
	if e.Username != "" || e.Password != "" {
		pair := base64.StdEncoding.EncodeToString([]byte(e.Username + ":" + e.Password))
		header.Set("Authorization", "Basic "+pair)
		return header, append(secrets, pair, e.Password), nil
	}
	token, err := e.token(ctx)
	if err != nil {
		return nil, nil, err
	}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
		secrets = append(secrets, token)
	}
	return header, secrets, nil
}

// leastSecret is the minimum length in bytes of a header value that counts as a secret. A shorter
// value, such as the number of a tenant, also occurs inside of ordinary words.
const leastSecret = 8

// parts returns the possible secrets in the value of a header: the complete value, and the token
// in "Bearer token" or "session=token".
func parts(value string) (secrets []string) {
	all := append([]string{value}, strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" =;,", r) })...)
	for _, part := range all {
		if len(part) >= leastSecret {
			secrets = append(secrets, part)
		}
	}
	return secrets
}

// token returns the bearer token, or "" if none is configured.
func (e *Endpoint) token(ctx context.Context) (string, error) {
	var token string
	var err error
	switch {
	case e.Token != nil:
		token, err = e.Token(ctx)
	case e.TokenFile != "":
		token, err = e.readToken()
	default:
		return "", nil
	}
	if open, is := errors.AsType[*secretfile.ModeError](err); is {
		return "", fmt.Errorf("there is no bearer token: its file has mode %04o and must have 0600", open.Mode.Perm()) // without the path of the host
	}
	if err != nil {
		// The error of a token source may contain the token.
		return "", errors.New("there is no bearer token: its source failed")
	}
	token = strings.TrimSpace(token)
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("the bearer token is empty, longer than %d bytes, or has a character that no token has", maxToken)
	}
	return token, nil
}

// readToken returns the content of the token file, or "" if there is none.
func (e *Endpoint) readToken() (string, error) {
	if e.TokenFile == "" {
		return "", nil
	}
	text, err := secretfile.Read(e.TokenFile, maxToken+1)
	return string(text), err
}
