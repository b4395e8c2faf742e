package kubehttp

import (
	"bytes"
	"io"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Metadata returns a client of metadata over an HTTP client; if web is nil, it uses a new one.
// The client of client-go does not decode the Status of an API server, so a refusal would read
// "unknown (get pods.meta.k8s.io)". The refusals of this client repeat the message of the API
// server, which names the user, the verb and the resource.
func Metadata(cfg *rest.Config, web *http.Client) (metadata.Interface, error) {
	if web == nil {
		var err error
		if web, err = rest.HTTPClientFor(metadata.ConfigFor(cfg)); err != nil {
			return nil, err
		}
	}
	with := *web
	with.Transport = ReadRefusals(web.Transport)
	return metadata.NewForConfigAndClient(cfg, &with)
}

// ReadRefusals returns a transport that converts a refusal of an API server to text, for clients
// that do not decode a Status.
func ReadRefusals(through http.RoundTripper) http.RoundTripper { return refusals{through} }

type refusals struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t refusals) RoundTrip(r *http.Request) (*http.Response, error) {
	through := t.RoundTripper
	if through == nil {
		through = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	resp, err := through.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusForbidden {
		return resp, err
	}
	body, err := drain(resp)
	if err != nil {
		return nil, err
	}
	if message := messageOf(body); message != "" {
		body = []byte(message)
		resp.Header = resp.Header.Clone()
		resp.Header.Set("Content-Type", "text/plain")
		resp.Header.Del("Content-Length")
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// messageOf returns the message of a Status in JSON or Protocol Buffers, or "".
func messageOf(body []byte) string {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	obj, _, err := serializer.NewCodecFactory(scheme).UniversalDeserializer().Decode(body, nil, nil)
	if status, is := obj.(*metav1.Status); is && err == nil {
		return status.Message
	}
	return ""
}
