package hubapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/httpapi"
	"github.com/slipway-dev/slipway/formats/kubefleet"
	"github.com/slipway-dev/slipway/hub/internal/api"
	"github.com/slipway-dev/slipway/stages"
	"github.com/slipway-dev/slipway/stages/step"
)

// Handler returns the API that the package describes. Names in it are names of objects. The
// handler may be used concurrently, until the hub is closed.
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
		if o.Deadline.Duration != 0 || o.MaxConcurrency != nil || o.Policy != "" {
			return nil, refused("a placement of a hub is deleted as the hub is told to by --deadline and the deletion policy in its spec")
		}
		return nil, h.deleteUnlessBusy(r.Context(), api.PlacementKind, r.PathValue("placement"), o.Force)
	}))
	route("GET /v1/strategies", func(r *http.Request) (any, error) { return items(h.strategies(r.Context())) })
	route("GET /v1/strategies/{strategy}", func(r *http.Request) (any, error) {
		s, err := h.strategy(r.Context(), r.PathValue("strategy"))
		s.Name = r.PathValue("strategy")
		return httpapi.DeclaredStrategy{Strategy: s}, err
	})
	route("POST /v1/runs", with(func(r *http.Request, spec fleet.RunSpec) (any, error) {
		return fleet.Status{Run: step.Run{Name: spec.Name}}, h.createRun(r.Context(), spec)
	}))
	route("DELETE /v1/runs/{run}", with(func(r *http.Request, o httpapi.RunDeletion) (any, error) {
		return nil, h.deleteUnlessBusy(r.Context(), api.RunKind, r.PathValue("run"), o.Force)
	}))
	route("POST /v1/runs/{run}/commands", with(func(r *http.Request, c stages.Command) (any, error) {
		return nil, h.command(r.Context(), r.PathValue("run"), c)
	}))
	route("POST /v1/runs/{run}/commands/check", with(func(r *http.Request, c stages.Command) (any, error) {
		return nil, checkCommand(r.Context(), h, r.PathValue("run"), c)
	}))
	route("POST /v1/runs/{run}/rollback", with(func(r *http.Request, o fleet.RollbackOptions) (any, error) {
		name, err := h.rollback(r.Context(), r.PathValue("run"), o)
		return httpapi.RunName{Run: name}, err
	}))
	for pattern, why := range map[string]string{
		"POST /v1/runs/{run}/catch-up":               "a hub has no run that catches up: create another run of the placement, in which clusters that have the snapshot are done at once",
		"PUT /v1/placements/{placement}":             "a placement of a hub is declared by its object",
		"PUT /v1/strategies/{strategy}":              "a strategy of a hub is declared by its object",
		"DELETE /v1/strategies/{strategy}":           "a strategy of a hub is deleted by its object",
		"PUT /v1/caps/{cap}":                         "the caps of a hub are those of the program that embeds it",
		"DELETE /v1/caps/{cap}":                      "the caps of a hub are those of the program that embeds it",
		"DELETE /v1/placements/{placement}/deletion": "a hub forgets deletions itself",
	} {
		route(pattern, func(*http.Request) (any, error) { return nil, refused("%s", why) })
	}
	return httpapi.Guard(mux, 0), nil
}

// refused returns a permanent error: the hub never does this, however often it is asked.
func refused(format string, args ...any) error {
	return &httpapi.Error{Code: http.StatusUnprocessableEntity, Reason: "Permanent", Message: fmt.Sprintf(format, args...)}
}

func items[T any](all []T, err error) (any, error) { return httpapi.List[T]{Items: all}, err }

// with decodes the body of a request.
func with[B any](do func(r *http.Request, body B) (any, error)) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		var body B
		if err := httpapi.DecodeBody(r, &body); err != nil {
			return nil, err
		}
		return do(r, body)
	}
}

func answer(w http.ResponseWriter, r *http.Request, serve func(r *http.Request) (any, error)) {
	v, err := serve(r)
	switch {
	case err != nil:
		writeError(w, err)
	case v == nil:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
}

// writeError answers with an error. An error of the API server keeps its code and its reason.
func writeError(w http.ResponseWriter, err error) {
	if refusal, is := errors.AsType[*apierrors.StatusError](err); is {
		err = &httpapi.Error{Code: int(refusal.Status().Code), Reason: string(refusal.Status().Reason), Message: err.Error()}
	}
	httpapi.WriteError(w, err)
}

// renamed serves records of the hub, which have other names than their objects. It translates the
// names of objects in requests, and the names in answers. Plans stay as they were approved.
func (h *Hub) renamed(records http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		parts := strings.Split(r.URL.EscapedPath(), "/")
		if len(parts) < 4 { // shorter than /v1/KIND/NAME
			records.ServeHTTP(&renamedWriter{w, h}, r)
			return
		}
		r = r.Clone(r.Context())
		name, err := url.PathUnescape(parts[3])
		if err == nil {
			k := h.key(name)
			parts[3] = kubefleet.EngineName(k.Namespace, k.Name)
			r.URL.RawPath = strings.Join(parts, "/")
			r.URL.Path, err = url.PathUnescape(r.URL.RawPath)
		}
		if err == nil {
			r.Body, err = h.resolved(r)
		}
		switch {
		case err != nil:
			writeError(w, err)
		default:
			answer := w
			if parts[len(parts)-1] != "preview" {
				answer = &renamedWriter{w, h}
			}
			if parts[2] != "runs" {
				records.ServeHTTP(answer, r)
				return
			}
			run := &withoutRecord{ResponseWriter: answer}
			records.ServeHTTP(run, r)
			if run.end(r.Context(), h, name) { // requests about runs that reach the records only read
				records.ServeHTTP(answer, r)
			}
		}
	})
}

// resolved returns the body of a request with a changed spec of the run. It removes the
// placement, which the path names, and replaces the name of a strategy by the hub's strategy. The
// plan then has the digest that the hub's run will have.
func (h *Hub) resolved(r *http.Request) (io.ReadCloser, error) {
	text, err := io.ReadAll(r.Body)
	var v map[string]any
	if err != nil || len(text) == 0 || decode(text, &v) != nil {
		return io.NopCloser(bytes.NewReader(text)), err
	}
	spec, nested := v["spec"].(map[string]any)
	if !nested {
		spec = v
	}
	delete(spec, "placement")
	if named, ok := spec["strategy"].(map[string]any); ok {
		if named["stages"] == nil {
			name, _ := named["name"].(string)
			strategy, err := h.strategy(r.Context(), name)
			if err != nil {
				return nil, err
			}
			if named, err = asJSON(strategy); err != nil {
				return nil, err
			}
		}
		setting, err := h.setting(r.Context())
		if err != nil {
			return nil, err
		}
		named["requests"] = setting.Behaviour().Requests
		spec["strategy"] = named
	}
	text, err = json.Marshal(v)
	return io.NopCloser(bytes.NewReader(text)), err
}

// asJSON returns a value as an object of JSON.
func asJSON(value any) (object map[string]any, err error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return object, decode(text, &object)
}

// decode keeps numbers in their written form. Text after the JSON is an error.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is more after its JSON")
	}
	return nil
}

// renamedWriter replaces the names of records by the names of their objects. Every Write is one
// line of JSON.
type renamedWriter struct {
	http.ResponseWriter
	h *Hub
}

func (w *renamedWriter) Write(line []byte) (int, error) {
	var v any
	if !recordName.Match(line) || decode(line, &v) != nil {
		return w.ResponseWriter.Write(line)
	}
	text, err := json.Marshal(rename(v, w.h.Shown))
	if err == nil {
		_, err = w.ResponseWriter.Write(append(text, '\n'))
	}
	return len(line), err
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *renamedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// recordName matches the names that kubefleet.EngineName derives from the names of objects.
// EngineName may also leave a name unchanged.
var recordName = regexp.MustCompile(`\b[nc]\.[a-z0-9][a-z0-9.-]*[a-z0-9]`)

// Shown replaces the names of records by the names of objects in a text.
func (h *Hub) Shown(text string) string {
	return recordName.ReplaceAllStringFunc(text, func(name string) string {
		namespace, object, ok := kubefleet.ObjectName(name)
		if !ok || !h.all && namespace != h.namespace {
			return name
		}
		return h.shown(namespace, object)
	})
}

// rename replaces the names of records by the names of objects in every text of a value, but not
// in plans. A run keeps its placement, because otherwise it would not belong to its plan.
func rename(v any, shown func(string) string) any {
	switch v := v.(type) {
	case map[string]any:
		run, _ := v["run"].(map[string]any)
		placement, isRun := run["placement"]
		for key, value := range v {
			if key != "plan" {
				v[key] = rename(value, shown)
			}
		}
		if isRun {
			run["placement"] = placement
		}
	case []any:
		for i := range v {
			v[i] = rename(v[i], shown)
		}
	case string:
		return shown(v)
	}
	return v
}
