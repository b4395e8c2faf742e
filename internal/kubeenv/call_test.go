package kubeenv

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestACallIsRecognizedByMethodAndURL(t *testing.T) {
	for request, want := range map[string]Call{
		"GET /api/v1/namespaces":                                 {"list", "namespaces"},
		"GET /api/v1/namespaces/a":                               {"get", "namespaces"},
		"PUT /api/v1/namespaces/a/finalize":                      {"update", "namespaces/finalize"},
		"PATCH /api/v1/namespaces/a/status":                      {"patch", "namespaces/status"},
		"GET /api/v1/namespaces/a/configmaps":                    {"list", "configmaps"},
		"GET /api/v1/namespaces/a/configmaps?watch=true":         {"watch", "configmaps"},
		"GET /api/v1/configmaps?watch=1&resourceVersion=3":       {"watch", "configmaps"},
		"GET /api/v1/configmaps?watch=false":                     {"list", "configmaps"},
		"GET /api/v1/namespaces/a/configmaps/b":                  {"get", "configmaps"},
		"GET /api/v1/namespaces/a/pods/b/log":                    {"get", "pods/log"},
		"POST /apis/apps/v1/namespaces/a/deployments":            {"create", "deployments"},
		"PATCH /apis/apps/v1/namespaces/a/deployments/b":         {"patch", "deployments"},
		"PUT /apis/apps/v1/namespaces/a/deployments/b/scale":     {"update", "deployments/scale"},
		"DELETE /apis/apps/v1/namespaces/a/deployments/b":        {"delete", "deployments"},
		"DELETE /apis/apps/v1/namespaces/a/deployments":          {"deletecollection", "deployments"},
		"GET /apis/rbac.authorization.k8s.io/v1/clusterroles/x/": {"get", "clusterroles"},
		"GET /apis/apps/v1":                                      {"get", ""},
		"GET /api":                                               {"get", ""},
		"GET /":                                                  {"get", ""},
		"GET /readyz":                                            {"get", ""},
	} {
		method, url := cutWord(request)
		if got := CallOf(httptest.NewRequest(method, url, http.NoBody)); got != want {
			t.Errorf("%s is %+v, want %+v", request, got, want)
		}
	}
}
