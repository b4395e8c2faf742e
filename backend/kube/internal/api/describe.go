package api

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The most that is said of what a server answered: bytes of text, and fields.
const (
	mostText   = 500
	mostFields = 5
)

// Describe returns what may be told of an error. A server quotes what an object
// contains: the value of a field that is not valid, or the whole object. So of
// fields it says which, and what kind of mistake it is; of other messages what
// comes before a value; and of an answer about a Secret only sentences that are
// known to quote nothing of it, since the author of a policy or a webhook may
// have quoted anything.
func Describe(secret bool, err error) string {
	status, ok := StatusOf(err)
	switch {
	case holdsObject(err):
		return "the server sent an object that is no answer"
	case !ok:
		return Bounded(err.Error())
	}
	said := fieldsOf(status)
	switch {
	case said != "":
	case secret || aboutSecret(status):
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

// fieldsOf lists the fields that a server complains about, without their values.
func fieldsOf(status metav1.Status) string {
	if status.Reason != metav1.StatusReasonInvalid || status.Details == nil {
		return ""
	}
	var fields []string
	for _, c := range status.Details.Causes {
		if c.Type != "" {
			fields = append(fields, strings.TrimPrefix(c.Field+": "+string(c.Type), ": "))
		}
	}
	if more := len(fields) - mostFields; more > 0 {
		fields = append(fields[:mostFields], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(fields, ", ")
}

// aboutSecret reports whether the server says that it speaks of a Secret.
func aboutSecret(status metav1.Status) bool {
	return status.Details != nil && (status.Details.Kind == "secrets" || status.Details.Kind == "Secret")
}

// isSecret reports whether an object, written as a [snapshot.ID] is, is a Secret.
func isSecret(object string) bool {
	kind, _, _ := strings.Cut(object, " ")
	kind, _, _ = strings.Cut(kind, ".")
	return kind == "Secret"
}

// unquoting returns as much of a message about a Secret as is made by the API
// server itself, of names.
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
	cut := message
	for _, mark := range []string{"Value:", "value:", ", got ", "cannot unmarshal ", "cannot convert ", "error decoding from json: "} {
		if before, _, ok := strings.Cut(cut, mark); ok {
			cut = before + strings.TrimRight(mark, ": ")
		}
	}
	if cut == message {
		return message
	}
	return cut + " (withheld)"
}

// untyped reports whether a server could not read an object that was applied: it
// has a field that its schema does not have, one of another type, or text that is not
// of its field's form, such as base64 or a quantity. The code of that answer is 500, as
// if it could get better. What converts the objects of a definition may get better.
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
	if len(text) <= mostText {
		return text
	}
	cut := mostText - len("…")
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// holdsObject tells an error that has an object in it, and in its text.
func holdsObject(err error) bool {
	unexpected := (*apierrors.UnexpectedObjectError)(nil)
	return errors.As(err, &unexpected)
}

// causeOf returns what stands behind err, without what a server said. What a server
// has to finish first can be told from a server that does not answer.
func causeOf(err error) error {
	if errors.Is(err, ErrTerminating) || errors.Is(err, ErrEstablishing) {
		return errors.Join(err, apierrors.NewServiceUnavailable("not yet"))
	}
	return harmless(err)
}

// harmless returns err without what a server said: its reason, its code and how
// long to wait are kept. It is nil where nothing is left.
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
