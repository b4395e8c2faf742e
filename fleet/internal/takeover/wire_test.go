package takeover

import (
	"encoding/json"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	numbers "k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/placement"
	"github.com/slipway-dev/slipway/snapshot"
)

// The operations of a server.
const (
	opGet           = "get"
	opWrite         = "write"
	opList          = "list"
	opWatch         = "watch"
	opClusters      = "clusters"
	opWatchClusters = "watch clusters"
	opDial          = "dial"
	opClose         = "close"
	opGetObject     = "get object"
	opApply         = "apply"
	opDelete        = "delete object"
	opWatchObjects  = "watch objects"
)

// clientHeader names the client of a request.
const clientHeader = "Slipway-Client"

// mostBytes is the size of the largest request: a batch of pages and a record.
const mostBytes = 64 << 20

// request is the body of every request. Op determines the fields that count.
type request struct {
	Op string `json:"op"`
	// Key is a key of the store, or a prefix.
	Key     string               `json:"key,omitempty"`
	Writes  []backend.Write      `json:"writes,omitempty"`
	Cluster placement.Cluster    `json:"cluster,omitzero"`
	IDs     []snapshot.ID        `json:"ids,omitempty"`
	Object  object               `json:"object,omitzero"`
	Apply   backend.ApplyOptions `json:"apply,omitzero"`
	// Delete has a slice and is a pointer so that it can be left out.
	Delete *backend.DeleteOptions `json:"delete,omitempty"`
}

// reply is one of the answers to a request. The last one has End; if it is missing, the answer was
// cut off in transit.
type reply struct {
	End       bool               `json:"end,omitempty"`
	Err       *fault             `json:"err,omitempty"`
	Record    *backend.Record    `json:"record,omitempty"`
	Revisions []backend.Revision `json:"revisions,omitempty"`
	Change    *backend.Change    `json:"change,omitempty"`
	Cluster   *placement.Cluster `json:"cluster,omitempty"`
	Object    object             `json:"object,omitzero"`
	// Fencing is the fencing of the new connection.
	Fencing backend.Fencing `json:"fencing,omitempty"`
}

// object is a member's object in transit. Whole numbers stay whole.
type object struct{ *unstructured.Unstructured }

func (o object) MarshalJSON() ([]byte, error) {
	if o.Unstructured == nil {
		return []byte("null"), nil
	}
	return json.Marshal(o.Unstructured.Object)
}

func (o *object) UnmarshalJSON(b []byte) error {
	var content map[string]any
	if err := numbers.Unmarshal(b, &content); err != nil || content == nil {
		return err
	}
	o.Unstructured = &unstructured.Unstructured{Object: content}
	return nil
}

// fault is an error in transit. It matches the same errors of package backend as the original.
type fault struct {
	Text  string   `json:"text"`
	Kinds []string `json:"kinds,omitempty"`
	// Owners are the managers of a conflict over fields.
	Owners []string `json:"owners,omitempty"`
}

func kinds() []error {
	return []error{backend.ErrNotFound, backend.ErrConflict, backend.ErrFenced, backend.ErrPermanent}
}

func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	if conflict := (*backend.FieldConflictError)(nil); errors.As(err, &conflict) {
		f.Owners = conflict.Managers
	}
	for _, kind := range kinds() {
		if errors.Is(err, kind) {
			f.Kinds = append(f.Kinds, kind.Error())
		}
	}
	return f
}

// err returns the fault as an error, or nil.
func (f *fault) err() error {
	if f == nil {
		return nil
	}
	return f
}

func (f *fault) Error() string { return f.Text }

// As supports *backend.FieldConflictError.
func (f *fault) As(target any) bool {
	conflict, ok := target.(**backend.FieldConflictError)
	if !ok || f.Owners == nil {
		return false
	}
	*conflict = &backend.FieldConflictError{Managers: f.Owners}
	return true
}

// Is reports whether the error matches an error of package backend.
func (f *fault) Is(target error) bool {
	return slices.Contains(kinds(), target) && slices.Contains(f.Kinds, target.Error())
}
