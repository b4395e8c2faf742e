package kubeenv

import (
	"net/http"
	"slices"
	"strings"
)

// Call is the action and the resource of a request to an API server.
type Call struct {
	// Verb is the verb of RBAC: get, list, watch, create, update, patch, delete or deletecollection.
	// A request without a resource, such as discovery, has its method in lower case.
	Verb string
	// Resource is the plural name, with a slash before a subresource: "deployments", "pods/log". It
	// is empty for a request without a resource.
	Resource string
}

// CallOf returns the action and the resource of a request, from its method and URL.
func CallOf(r *http.Request) Call {
	resource, name := target(r.URL.Path)
	if resource == "" {
		return Call{Verb: strings.ToLower(r.Method)}
	}
	return Call{Verb: verb(r, name != ""), Resource: resource}
}

func verb(r *http.Request, named bool) string {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return reading(r, named)
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	}
	return strings.ToLower(r.Method)
}

func reading(r *http.Request, named bool) string {
	switch watch := r.URL.Query().Get("watch"); {
	case watch == "true" || watch == "1":
		return "watch"
	case named:
		return "get"
	}
	return "list"
}

// target takes a path apart: /api/v1 or /apis/group/version, then perhaps namespaces/<namespace>,
// then resource[/name[/subresource]].
func target(path string) (resource, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		parts = parts[3:]
	default:
		return "", ""
	}
	// These are the only subresources of a namespace; other paths below it are resources in it.
	if parts[0] == "namespaces" && len(parts) > 2 && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		parts = parts[2:]
	}
	switch len(parts) {
	case 1:
		return parts[0], ""
	case 2:
		return parts[0], parts[1]
	}
	return parts[0] + "/" + parts[2], parts[1]
}
