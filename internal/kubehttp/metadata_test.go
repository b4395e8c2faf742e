package kubehttp_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/kubehttp"
)

// TestARefusalOfMetadataHasTheWordsOfTheAPIServer, in whichever encoding the API server says them.
func TestARefusalOfMetadataHasTheWordsOfTheAPIServer(t *testing.T) {
	const words = `pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "app"`
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	for kind, encoder := range map[string]runtime.Encoder{
		"application/json":                    json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{}),
		"application/vnd.kubernetes.protobuf": protobuf.NewSerializer(scheme, scheme),
		"text/plain":                          nil,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(http.StatusForbidden)
			if encoder == nil {
				_, _ = w.Write([]byte(words))
				return
			}
			refusal := &metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
				Status:   metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden, Message: words,
			}
			if err := encoder.Encode(refusal, w); err != nil {
				t.Error(err)
			}
		}))
		client, err := kubehttp.Metadata(&rest.Config{Host: server.URL}, nil)
		if err != nil {
			t.Fatal(err)
		}
		pods := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace("app")
		_, listErr := pods.List(t.Context(), metav1.ListOptions{})
		_, getErr := pods.Get(t.Context(), "a", metav1.GetOptions{})
		for _, err := range []error{listErr, getErr} {
			if !apierrors.IsForbidden(err) || err.Error() != words {
				t.Errorf("%s: %v, want the words of the API server", kind, err)
			}
		}
		server.Close()
	}
}
