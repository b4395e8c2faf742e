package hubtarget

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/stages"
)

// Handler returns the API of package httpapi on the hub. Lists are made of objects, which takes the role
// slipway-viewer and one request each; what needs more is read from the records of the hub. Changes are made to
// objects. Names are those of the objects that the flags ask for; with --all-namespaces what is in a namespace is
// called NAMESPACE/NAME.
func (h *Hub) Handler() (http.Handler, error) {
	records, err := httpapi.NewHandler(h.engine, httpapi.Options{})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/", h.renamed(records))
	route := func(pattern string, serve func(r *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { answer(w, r, serve) })
	}
	route("GET /v1/runs", func(r *http.Request) (any, error) { return items(h.runs(r.Context(), r.URL.Query().Get("placement"))) })
	route("GET /v1/approvals", func(r *http.Request) (any, error) {
		return items(h.requests(r.Context(), "", r.URL.Query().Get("placement")))
	})
	route("GET /v1/runs/{run}/approvals", func(r *http.Request) (any, error) {
		return items(h.requests(r.Context(), r.PathValue("run"), ""))
	})
	route("GET /v1/placements", func(r *http.Request) (any, error) { return items(h.placements(r.Context(), "")) })
	route("GET /v1/placements/{placement}", func(r *http.Request) (any, error) {
		all, err := h.placements(r.Context(), r.PathValue("placement"))
		if err != nil {
			return nil, err
		}
		return all[0], nil
	})
	route("DELETE /v1/placements/{placement}", with(func(r *http.Request, o fleet.DeleteOptions) (any, error) {
		if o.Deadline != 0 || o.MaxConcurrency != nil || o.Orphan {
			return nil, refused("a placement of a hub is deleted as the hub is told to by --deadline and the deletion policy in its spec")
		}
		return nil, h.remove(r.Context(), placementKind, r.PathValue("placement"))
	}))
	route("POST /v1/runs", with(func(r *http.Request, spec fleet.RunSpec) (any, error) {
		return fleet.Status{}, h.createRun(r.Context(), spec)
	}))
	route("DELETE /v1/runs/{run}", func(r *http.Request) (any, error) { return nil, h.remove(r.Context(), runKind, r.PathValue("run")) })
	route("POST /v1/runs/{run}/decisions", with(func(r *http.Request, a fleet.Answer) (any, error) {
		return nil, h.decide(r.Context(), r.PathValue("run"), a)
	}))
	route("POST /v1/runs/{run}/commands", with(func(r *http.Request, c stages.Command) (any, error) {
		return nil, h.command(r.Context(), r.PathValue("run"), c)
	}))
	route("POST /v1/runs/{run}/rollback", with(func(r *http.Request, o fleet.RollbackOptions) (any, error) {
		name, err := h.rollback(r.Context(), r.PathValue("run"), o)
		return httpapi.RunName{Run: name}, err
	}))
	for pattern, why := range map[string]string{
		"POST /v1/runs/{run}/catch-up":               "a hub has no run that catches up: create another run of the placement, in which clusters that have the snapshot are done at once",
		"PUT /v1/caps/{cap}":                         "the caps of a hub are those of the program that embeds it",
		"DELETE /v1/caps/{cap}":                      "the caps of a hub are those of the program that embeds it",
		"DELETE /v1/placements/{placement}/deletion": "a hub forgets deletions itself",
	} {
		route(pattern, func(*http.Request) (any, error) { return nil, refused(why) })
	}
	return mux, nil
}

func refused(why string) error { return fmt.Errorf("%s: %w", why, backend.ErrPermanent) }

func items[T any](all []T, err error) (any, error) { return httpapi.List[T]{Items: all}, err }

// with decodes the body of a request.
func with[B any](do func(r *http.Request, body B) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var body B
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
		return do(r, body)
	}
}

func answer(w http.ResponseWriter, r *http.Request, serve func(r *http.Request) (any, error)) {
	v, err := serve(r)
	refusal, refuses := errors.AsType[*apierrors.StatusError](err)
	switch {
	case refuses:
		httpapi.WriteError(w, &httpapi.Error{Code: int(refusal.Status().Code), Reason: string(refusal.Status().Reason), Message: err.Error()})
	case err != nil:
		httpapi.WriteError(w, err)
	case v == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		_ = json.NewEncoder(w).Encode(v)
	}
}

// renamed serves what is read from the records of the hub, where an object has another name: requests ask for the
// names of objects, and answers have them.
func (h *Hub) renamed(records http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.EscapedPath(), "/")
		if len(parts) > 3 { // /v1/KIND/NAME
			name, err := url.PathUnescape(parts[3])
			if err != nil {
				httpapi.WriteError(w, err)
				return
			}
			k := h.key(name)
			parts[3] = url.PathEscape(kubefleet.EngineName(k.Namespace, k.Name))
		}
		r = r.Clone(r.Context())
		r.URL.RawPath = strings.Join(parts, "/")
		r.URL.Path, _ = url.PathUnescape(r.URL.RawPath)
		records.ServeHTTP(&renamedWriter{w, h}, r)
	})
}

// renamedWriter writes the names of objects in the place of those that records have. Every Write is whole lines.
type renamedWriter struct {
	http.ResponseWriter
	h *Hub
}

// recordName is what kubefleet.EngineName makes of a name, unless it leaves it.
var recordName = regexp.MustCompile(`\b[nc]\.[a-z0-9][a-z0-9.-]*[a-z0-9]`)

func (w *renamedWriter) Write(b []byte) (int, error) {
	renamed := recordName.ReplaceAllStringFunc(string(b), func(name string) string {
		namespace, object, ok := kubefleet.ObjectName(name)
		if !ok || !w.h.flags.AllNamespaces && namespace != w.h.flags.namespace() {
			return name
		}
		return w.h.shown(namespace, object)
	})
	if _, err := w.ResponseWriter.Write([]byte(renamed)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap returns what http.ResponseController needs.
func (w *renamedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
