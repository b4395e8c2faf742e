package api

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Limits of the text and of the fields that an error repeats from a server's answer.
const (
	mostText   = 500
	mostFields = 5
)

// Describe returns the printable text of an error. A server quotes the content of an object: the
// value of an invalid field, or the whole object. So Describe repeats the names of invalid fields
// and the reasons, without their values; from other messages it repeats the part before a value.
// From an answer about a Secret it repeats only sentences that are known to quote nothing,
// because the author of a policy or a webhook may have quoted anything. If a field is immutable,
// it adds the remedy.
func Describe(secret bool, err error) string {
	status, ok := StatusOf(err)
	switch {
	case holdsObject(err):
		return "the server sent an object that is no answer"
	case !ok:
		return Bounded(reasonFirst(err))
	}
	secret = secret || aboutSecret(status)
	said := fieldsOf(status, secret)
	switch {
	case said != "":
	case secret:
		said = unquoting(status.Message)
	default:
		said = withoutValues(status.Message)
	}
	reason := string(status.Reason)
	if reason == "" {
		reason = fmt.Sprintf("the server answered %d", status.Code)
	}
	if said == "" {
		return reason
	}
	return Bounded(reason + ": " + said)
}

// reasonFirst returns the text of an error. An error of net/http begins with its reason, because
// its URL repeats the name of the object and fills a line of a terminal; the host and the address
// come last.
func reasonFirst(err error) string {
	text := err.Error()
	sent, is := errors.AsType[*url.Error](err)
	if !is {
		return text
	}
	reason, at := sent.Err.Error(), []string{}
	if u, err := url.Parse(sent.URL); err == nil && u.Host != "" {
		at = append(at, u.Host)
	}
	if op, is := errors.AsType[*net.OpError](sent.Err); is {
		reason = strings.Replace(reason, op.Error(), cause(op.Err), 1)
		if op.Addr != nil {
			at = append(at, op.Addr.String())
		}
	}
	at = slices.DeleteFunc(slices.Compact(at), func(a string) bool { return strings.Contains(reason, a) })
	if len(at) > 0 {
		reason += " (" + strings.Join(at, ", ") + ")"
	}
	return strings.Replace(text, sent.Error(), reason, 1)
}

// cause returns the innermost error of a network call, without the name of the call.
func cause(err error) string {
	if called, is := errors.AsType[*os.SyscallError](err); is {
		return called.Err.Error()
	}
	if lookup, is := errors.AsType[*net.DNSError](err); is {
		return lookup.Err
	}
	return err.Error()
}

// fieldsOf lists the fields that a server complains about and the reasons, without their values.
func fieldsOf(status metav1.Status, secret bool) string {
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil {
		return ""
	}
	var fields []string
	fixed := false
	for _, c := range status.Details.Causes {
		if c.Type == "" {
			continue
		}
		wrong := complaintOf(string(c.Type), c.Message, secret)
		if isImmutable(c.Message) {
			fixed = true
			if !strings.Contains(wrong, "immutable") {
				wrong += ": the field is immutable"
			}
		}
		fields = append(fields, strings.TrimPrefix(c.Field+": "+wrong, ": "))
	}
	if more := len(fields) - mostFields; more > 0 {
		fields = append(fields[:mostFields], fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(fields, ", ")
	if !fixed {
		return text
	}
	return cut(text, mostText-len("Invalid: ; "+remake)) + "; " + remake
}

// remake is the remedy for an immutable field. A deleted object is applied anew. The text is short,
// because statuses keep only the beginning of an error.
const remake = "delete the object there, or give it another name"

// isImmutable reports whether a server's message says that a field cannot be changed. Servers have
// no error type for this.
func isImmutable(message string) bool {
	message = strings.ToLower(message)
	return slices.ContainsFunc([]string{
		"immutable", "may not change once set", "may not change fields other than", "may not be changed", "must not be changed",
		"cannot be changed", "cannot change roleref", "may not be updated", "self == oldself",
	}, func(words string) bool { return strings.Contains(message, words) }) ||
		strings.Contains(message, "updates to ") && strings.Contains(message, "forbidden")
}

// mostDetail bounds the text about one field, in bytes.
const mostDetail = 160

// complaintOf returns a server's complaint about a field, such as "Invalid value: field is
// immutable". A server quotes the field's value before the detail, or as the detail. The value is
// left out, and so is a detail that repeats it.
func complaintOf(kind, message string, secret bool) string {
	word, rest, _ := strings.Cut(message, ": ")
	switch word {
	case "Required value", "Forbidden", "Too long", "Too many", "Internal error":
	case "Invalid value", "Duplicate value", "Unsupported value", "Not found":
		_, rest = cutValue(rest)
	default:
		return kind
	}
	rest, _, _ = strings.Cut(strings.ReplaceAll(rest, "\r", "\n"), "\n") // the next lines quote the object
	if secret && !slices.Contains(harmlessDetails, rest) {
		return word
	}
	if rest = withoutValues(strings.TrimSpace(rest)); rest == "" {
		return word
	}
	return word + ": " + cut(rest, mostDetail)
}

// harmlessDetails are an API server's own words about the fields of a Secret, which quote
// nothing.
var harmlessDetails = []string{"field is immutable", "field is immutable when `immutable` is set"} //nolint:gochecknoglobals // a constant table

// cutValue splits the text behind "Invalid value: " into the value and the detail. If the end of
// the value is uncertain, all of the text belongs to the value.
func cutValue(text string) (value, detail string) {
	if quoted, err := strconv.QuotedPrefix(text); err == nil {
		return split(text, quoted)
	}
	// A list or object may contain anything. Its end is at or before the last such bracket.
	end := -1
	for _, bracket := range []string{"}: ", "]: ", "): "} {
		end = max(end, strings.LastIndex(text, bracket))
	}
	if end >= 0 && strings.ContainsAny(text[:end], "{[(") {
		return text[:end+1], text[end+len("}: "):]
	}
	value, detail, _ = strings.Cut(text, ": ")
	if strings.Trim(value, "0123456789+-.eEKMGTPimnutrfals") != "" { // neither a number, a quantity nor a boolean
		return text, ""
	}
	return value, detail
}

// split returns the detail behind a quoted value, or nothing if it repeats the value.
func split(text, quoted string) (value, detail string) {
	value, _ = strconv.Unquote(quoted)
	detail, ok := strings.CutPrefix(text[len(quoted):], ": ")
	if !ok || len(value) > 2 && strings.Contains(detail, value) {
		return value, ""
	}
	return value, detail
}

// aboutSecret reports whether the server's answer is about a Secret.
func aboutSecret(status metav1.Status) bool {
	return status.Details != nil && (status.Details.Kind == "secrets" || status.Details.Kind == "Secret")
}

// isSecret reports whether an object, written like a [snapshot.ID], is a Secret.
func isSecret(object string) bool {
	kind, _, _ := strings.Cut(object, " ")
	kind, _, _ = strings.Cut(kind, ".")
	return kind == "Secret"
}

// unquoting returns the part of a message about a Secret that the API server made from names
// alone.
func unquoting(message string) string {
	for _, denied := range []string{" denied the request", " denied request"} {
		if before, _, ok := strings.Cut(message, denied); ok {
			return withoutValues(before + denied)
		}
	}
	_, why, _ := strings.Cut(message, " is forbidden: ")
	for _, known := range []string{"User ", "exceeded quota: ", "unable to create new content in namespace "} {
		if strings.HasPrefix(why, known) {
			return message
		}
	}
	return ""
}

// withoutValues cuts a message before the first value that it quotes.
func withoutValues(message string) string {
	kept := message
	for _, mark := range []string{"Value:", "value:", ", got ", "cannot unmarshal ", "cannot convert ", "error decoding from json: "} {
		if before, _, ok := strings.Cut(kept, mark); ok {
			kept = before + strings.TrimRight(mark, ": ")
		}
	}
	if kept == message {
		return message
	}
	return kept + " (withheld)"
}

// untyped reports whether a server could not read an applied object: a field is not in its
// schema, has another type, or its text has not the form of the field, such as base64 or a
// quantity. The server answers with code 500, as if the error were transient. A failed conversion
// of a custom resource may be transient.
func untyped(message string) bool {
	return strings.HasPrefix(message, "failed to create typed patch object") ||
		strings.HasPrefix(message, "failed to convert new object") && strings.Contains(message, ": unable to convert unstructured object to ")
}

// Bounded makes a text one line of at most mostText bytes.
func Bounded(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return cut(text, mostText)
}

// cut returns at most so many bytes of a text, with an ellipsis if something is missing.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := max(0, most-len("…"))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// holdsObject reports whether an error, and so its text, contains an object.
func holdsObject(err error) bool {
	unexpected := (*apierrors.UnexpectedObjectError)(nil)
	return errors.As(err, &unexpected)
}

// causeOf returns the cause of err without the server's text. It keeps the difference between a
// server that must finish something first and a server that does not answer.
func causeOf(err error) error {
	if errors.Is(err, ErrTerminating) || errors.Is(err, ErrEstablishing) {
		return errors.Join(err, apierrors.NewServiceUnavailable("not yet"))
	}
	return harmless(err)
}

// harmless returns err without the server's text: its reason, its code and the retry delay are
// kept. It is nil if nothing is left.
func harmless(err error) error {
	if holdsObject(err) {
		return nil
	}
	status, ok := StatusOf(err)
	if !ok {
		return err
	}
	kept := metav1.Status{Status: status.Status, Reason: status.Reason, Code: status.Code}
	if d := status.Details; d != nil {
		kept.Details = &metav1.StatusDetails{Name: d.Name, Group: d.Group, Kind: d.Kind, UID: d.UID, RetryAfterSeconds: d.RetryAfterSeconds}
		for _, c := range d.Causes {
			kept.Details.Causes = append(kept.Details.Causes, metav1.StatusCause{Type: c.Type, Field: c.Field})
		}
	}
	return &apierrors.StatusError{ErrStatus: kept}
}
