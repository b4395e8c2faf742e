package api

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slipway-dev/slipway/backend"
)

const hidden = "hunter2"

// answered returns an error that has a status and nothing else.
func answered(code int, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: int32(code), Reason: reason, Message: message}}
}

func unserved(verb string) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, verb, schema.GroupResource{Resource: "widgets"}, "x", "404 page not found", 0, true)
}

func TestAnErrorOfAServerIsOfItsKind(t *testing.T) {
	secrets, secret := schema.GroupResource{Resource: "secrets"}, schema.GroupKind{Kind: "Secret"}
	noMatch := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Widget"}}
	for name, c := range map[string]struct {
		op   string
		err  error
		want error
	}{
		"not found":           {"get", apierrors.NewNotFound(secrets, "x"), backend.ErrNotFound},
		"namespace not found": {"apply", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "x"), backend.ErrNotFound},
		"exists":              {"put", apierrors.NewAlreadyExists(secrets, "x"), backend.ErrConflict},
		"conflict":            {"put", apierrors.NewConflict(secrets, "x", errors.New("changed")), backend.ErrConflict},
		"forbidden":           {"get", apierrors.NewForbidden(secrets, "x", errors.New("no")), backend.ErrPermanent},
		"invalid":             {"apply", apierrors.NewInvalid(secret, "x", nil), backend.ErrPermanent},
		"bad request":         {"apply", apierrors.NewBadRequest("no"), backend.ErrPermanent},
		"method":              {"apply", apierrors.NewMethodNotSupported(secrets, "patch"), backend.ErrPermanent},
		"too large":           {"put", apierrors.NewRequestEntityTooLargeError("no"), backend.ErrPermanent},
		"teapot of a webhook": {"apply", answered(418, "", "no"), backend.ErrPermanent},
		"untyped":             {"apply", answered(500, "", "failed to create typed patch object (x): .spec.x: field not declared in schema"), backend.ErrPermanent},
		"unreadable":          {"apply", answered(500, "", "failed to convert new object (x; /v1, Kind=Secret) to proper version: unable to convert unstructured object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 3"), backend.ErrPermanent},
		"converter":           {"apply", answered(500, "", "failed to convert new object (x; a.b/v1, Kind=C) to proper version: conversion webhook for a.b/v1, Kind=C failed: Post: connection refused"), nil},
		"no match, apply":     {"apply", noMatch, backend.ErrPermanent},
		"no match, get":       {"get", noMatch, backend.ErrNotFound},
		"no match, delete":    {"delete", fmt.Errorf("map: %w", noMatch), backend.ErrNotFound},
		"unserved, apply":     {"apply", unserved("patch"), backend.ErrPermanent},
		"unserved, get":       {"get", unserved("get"), backend.ErrNotFound},
		"kind of ours":        {"put", fmt.Errorf("x: %w", backend.ErrFenced), backend.ErrFenced},
		"unauthorized":        {"get", apierrors.NewUnauthorized("no"), nil},
		"busy":                {"get", apierrors.NewTooManyRequests("busy", 1), nil},
		"gone":                {"list", apierrors.NewResourceExpired("old"), nil},
		"internal":            {"get", apierrors.NewInternalError(errors.New("x")), nil},
		"unavailable":         {"get", apierrors.NewServiceUnavailable("x"), nil},
		"timeout":             {"get", apierrors.NewTimeoutError("x", 1), nil},
		"server timeout":      {"get", apierrors.NewServerTimeout(secrets, "get", 1), nil},
		"context":             {"get", context.DeadlineExceeded, nil},
		"connection":          {"get", errors.New("connection refused"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			err := Classify(c.op, "Widget.v1 ns/x", c.err)
			ofKind := strings.HasPrefix(name, "no match") || strings.HasPrefix(name, "unserved")
			for _, err := range []error{err, Classify(c.op, "Widget.v1 ns/x", errors.Join(err))} {
				if errors.Is(err, backend.ErrNoSuchKind) != ofKind {
					t.Errorf("%v says that there is no such kind: %t", err, !ofKind)
				}
			}
			var e *backend.Error
			if !errors.As(err, &e) || e.Op != c.op || e.Object != "Widget.v1 ns/x" {
				t.Fatalf("the error is %#v", err)
			}
			for _, kind := range []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced, backend.ErrPermanent} {
				if errors.Is(err, kind) != errors.Is(c.want, kind) {
					t.Errorf("%v is %v: %t", err, kind, errors.Is(err, kind))
				}
			}
			if again := Classify("put", "other", err); again.Error() != err.Error() || !errors.Is(again, err) {
				t.Errorf("classified again it is %v", again)
			}
		})
	}
	if Classify("get", "x", nil) != nil {
		t.Error("no error is one")
	}
}

func TestClassifyKeepsTheServerError(t *testing.T) {
	err := Classify("get", "x", apierrors.NewTooManyRequests("busy", 7))
	if after, ok := apierrors.SuggestsClientDelay(err); !ok || after != 7 || !apierrors.IsTooManyRequests(err) {
		t.Errorf("%v asks to wait %d, %t", err, after, ok)
	}
	if err := Classify("get", "x", fmt.Errorf("x: %w", context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not that of the context", err)
	}
}

func TestErrorsContainNoObjectContent(t *testing.T) {
	path := field.NewPath("data").Key("password")
	object := &corev1.Secret{Data: map[string][]byte{"password": []byte(hidden)}}
	secrets, maps := schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Resource: "configmaps"}
	for name, c := range map[string]struct {
		object string
		err    error
		want   string
	}{
		"field": {"ConfigMap.v1 ns/x", apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "x", field.ErrorList{
			field.Invalid(path, hidden, "must not be "+hidden), field.Required(path, ""),
		}), "Invalid: data[password]: Invalid value, data[password]: Required value"},
		"field of a secret": {"Secret.v1 ns/x", apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "x", field.ErrorList{
			field.Invalid(path, hidden, "has a detail"), field.Forbidden(path, hidden), field.Required(path, hidden), field.Invalid(path, map[string]string{"a": hidden}, hidden),
		}), "data[password]: Invalid value, data[password]: Forbidden, data[password]: Required value, data[password]: Invalid value"},
		"immutable secret": {"Secret.v1 ns/x", apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "x", field.ErrorList{
			field.Invalid(field.NewPath("type"), hidden, "field is immutable"),
		}), "type: Invalid value: field is immutable; delete the object there, or give it another name"},
		"a value of brackets": {"Job.v1.batch ns/x", apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "x", field.ErrorList{
			field.Invalid(field.NewPath("spec", "template"), map[string]string{"a": hidden + `}: "` + hidden, hidden + ": {": hidden + "]: " + hidden}, "field is immutable"),
		}), "Invalid: spec.template: Invalid value: field is immutable; delete the object there, or give it another name"},
		"a value of a server's own form": {"Deployment.v1.apps ns/x", invalid("FieldValueInvalid", "Invalid value: &LabelSelector{MatchLabels:map[string]string{app: "+hidden+": x,},}: field is immutable"), "spec.x: Invalid value: field is immutable"},
		"a value without an end":         {"Pod.v1 ns/x", invalid("FieldValueInvalid", "Invalid value: "+hidden+": "+hidden+": field is immutable"), "spec.x: Invalid value: the field is immutable; delete the object there"},
		"both versions":                  {"Pod.v1 ns/x", invalid("FieldValueForbidden", "Forbidden: pod updates may not change fields other than x\n core.PodSpec{A: "+hidden+"}"), "spec.x: Forbidden: pod updates may not change fields other than x: the field is immutable; delete the object there"},
		"a number":                       {"Pod.v1 ns/x", invalid("FieldValueInvalid", "Invalid value: -1: must be greater than or equal to 0"), "spec.x: Invalid value: must be greater than or equal to 0"},
		"not supported":                  {"Pod.v1 ns/x", invalid("FieldValueNotSupported", `Unsupported value: "`+hidden+`": supported values: "A", "B"`), `spec.x: Unsupported value: supported values: "A", "B"`},
		"a value in a detail":            {"Pod.v1 ns/x", invalid("FieldValueForbidden", `Forbidden: because of Invalid value: "`+hidden+`"`), "spec.x: Forbidden: because of Invalid value (withheld)"},
		"words of no server":             {"Pod.v1 ns/x", invalid("FieldValueInvalid", hidden), "spec.x: FieldValueInvalid"},
		"fields that are many":           {"ConfigMap.v1 ns/x", apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "x", manyFields(path)), "and 15 more"},
		"message":                        {"ConfigMap.v1 ns/x", apierrors.NewBadRequest(`spec.x: Invalid value: "` + hidden + `"`), "BadRequest: spec.x: Invalid value (withheld)"},
		"type":                           {"ConfigMap.v1 ns/x", answered(500, "", "failed to create typed patch object (x): .data.x: expected string, got &value.valueUnstructured{Value:"+hidden+"}"), "expected string, got (withheld)"},
		"unreadable":                     {"Job.v1.batch ns/x", answered(500, "", `failed to convert new object (x) to proper version: unable to convert unstructured object to batch/v1, Kind=Job: error decoding from json: parsing time "`+hidden+`"`), "error decoding from json (withheld)"},
		"number":                         {"ConfigMap.v1 ns/x", apierrors.NewBadRequest("json: cannot unmarshal number " + hidden + " into Go"), "cannot unmarshal (withheld)"},
		"policy":                         {"ConfigMap.v1 ns/x", apierrors.NewForbidden(maps, "x", errors.New("the epoch is old")), "the epoch is old"},
		"policy on a secret":             {"Secret.v1 ns/x", answered(422, metav1.StatusReasonInvalid, `secrets "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `+hidden), "ValidatingAdmissionPolicy 'p' with binding 'b' denied request"},
		"webhook on a secret":            {"Secret.v1 ns/x", answered(403, "", `admission webhook "w.example" denied the request: `+hidden), `the server answered 403: admission webhook "w.example" denied the request`},
		"secret":                         {"Secret.v1 ns/x", apierrors.NewBadRequest("failed to parse " + hidden), "BadRequest"},
		"secret by its status":           {"x", apierrors.NewForbidden(secrets, "x", errors.New(hidden)), "Forbidden"},
		"rights on a secret":             {"Secret.v1 ns/x", apierrors.NewForbidden(secrets, "x", errors.New(`User "u" cannot get resource "secrets"`)), `User "u" cannot get resource "secrets"`},
		"object":                         {"x", apierrors.FromObject(object), "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Classify("apply", c.object, fmt.Errorf("wrapped: %w", c.err))
			if text := err.Error(); !strings.Contains(text, c.want) {
				t.Errorf("the error is %q, want %q in it", text, c.want)
			}
			for e := range causes(err) {
				if text := fmt.Sprintf("%v %+v", e, e); strings.Contains(text, hidden) {
					t.Errorf("a %T quotes the object: %s", e, text)
				}
			}
			var status apierrors.APIStatus
			if errors.As(err, &status) && strings.Contains(fmt.Sprintf("%+v", status.Status()), hidden) {
				t.Errorf("the status quotes the object: %+v", status.Status())
			}
		})
	}
}

// invalid returns the error of an API server about one field.
func invalid(kind, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: 422, Reason: metav1.StatusReasonInvalid, Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: metav1.CauseType(kind), Field: "spec.x", Message: message}},
	}}}
}

func manyFields(path *field.Path) (list field.ErrorList) {
	for i := range 20 {
		list = append(list, field.Invalid(path.Index(i), hidden, ""))
	}
	return list
}

// causes yields an error and all that it wraps.
func causes(err error) func(yield func(error) bool) {
	return func(yield func(error) bool) {
		for todo := []error{err}; len(todo) > 0; todo = todo[1:] {
			if !yield(todo[0]) {
				return
			}
			switch e := any(todo[0]).(type) {
			case interface{ Unwrap() error }:
				todo = append(todo, e.Unwrap())
			case interface{ Unwrap() []error }:
				todo = append(todo, e.Unwrap()...)
			}
		}
	}
}

func TestTheTextOfAnErrorIsOneShortLine(t *testing.T) {
	for _, text := range []string{strings.Repeat("ä\n", 1000), strings.Repeat("x", 499) + "ää", "\x00\x1b[31m"} {
		got := Describe(false, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "x", errors.New(text)))
		if len(got) > mostText || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\x00\x1b") {
			t.Errorf("%d bytes: %q", len(got), got)
		}
	}
}

// TestAnErrorOfTheNetworkBeginsWithItsReason: the error has the reason and the address instead of
// the URL, because a URL can fill the 80 columns of a terminal and only repeats the object.
func TestAnErrorOfTheNetworkBeginsWithItsReason(t *testing.T) {
	const at = "https://eu-1-dns-0c4e7f.hcp.westeurope.azmk8s.io:443/apis/apps/v1/namespaces/shop/deployments/web?fieldManager=slipway&timeout=30s"
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 443}, Err: err}
	}
	refused := dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "eu-1", Server: "10.0.0.10:53"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&url.Error{Op: "Get", URL: at, Err: refused}, "connection refused (eu-1-dns-0c4e7f.hcp.westeurope.azmk8s.io:443, 10.0.0.1:443)"},
		{
			fmt.Errorf("failed to get API group resources: %w", &url.Error{Op: "Get", URL: at, Err: context.DeadlineExceeded}),
			"failed to get API group resources: context deadline exceeded (eu-1-dns-0c4e7f.hcp.westeurope.azmk8s.io:443)",
		},
		{&url.Error{Op: "Get", URL: "https://10.0.0.1:443/api", Err: refused}, "connection refused (10.0.0.1:443)"},
		{&url.Error{Op: "Get", URL: ":", Err: refused}, "connection refused (10.0.0.1:443)"},
		{&url.Error{Op: "Get", URL: "https://eu-1:443/api", Err: unknown}, "no such host (eu-1:443)"},
		{&url.Error{Op: "Get", URL: "https://eu-1:443/api", Err: dial(errors.New("i/o timeout"))}, "i/o timeout (eu-1:443, 10.0.0.1:443)"},
		{&url.Error{Op: "Get", URL: "https://eu-1:443/api", Err: errors.New("tls: unknown certificate authority")}, "tls: unknown certificate authority (eu-1:443)"},
	} {
		if got := Describe(false, c.err); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}
