package member

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/slipway-dev/slipway/backend/kube/internal/api"
)

// usualAnswer limits the memory that is allocated for an answer because of its announced length,
// in bytes.
const usualAnswer = 64 << 10

// object decodes an object within the limits. No error quotes it.
func (l Limits) object(body []byte) (*unstructured.Unstructured, error) {
	if err := l.check(body); err != nil {
		return nil, api.Permanent(err)
	}
	obj := &unstructured.Unstructured{}
	if err := json.Unmarshal(body, &obj.Object); err != nil || obj.Object == nil {
		return nil, api.Permanent(errors.New("the member returned no JSON object"))
	}
	if obj.GetAPIVersion() == "" || obj.GetKind() == "" || obj.GetName() == "" {
		return nil, api.Permanent(errors.New("the member returned JSON without apiVersion, kind or metadata.name"))
	}
	return obj, nil
}

// check counts the elements of a JSON text without decoding it. The decoder finds invalid JSON.
func (l Limits) check(body []byte) error {
	depth, elements := 0, 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '"':
			i = endOfString(body, i)
		case '{', '[':
			depth++
			elements++
		case '}', ']':
			depth--
		case ',':
			elements++
		}
		if depth > l.Depth {
			return fmt.Errorf("the member returned JSON nested deeper than %d levels", l.Depth)
		}
		if elements > l.Elements {
			return fmt.Errorf("the member returned JSON with more than %d elements", l.Elements)
		}
	}
	return nil
}

// endOfString returns the end of the string that begins at i.
func endOfString(body []byte, i int) int {
	for i++; i < len(body) && body[i] != '"'; i++ {
		if body[i] == '\\' {
			i++
		}
	}
	return i
}

// read reads an answer to its end, or up to the limit. announced is its Content-Length; negative
// if unknown.
func (l Limits) read(r io.Reader, announced int64) ([]byte, error) {
	var into bytes.Buffer
	into.Grow(int(max(bytes.MinRead, min(announced, usualAnswer)+bytes.MinRead)))
	if _, err := into.ReadFrom(io.LimitReader(r, int64(l.Bytes)+1)); err != nil {
		return nil, err
	}
	body := into.Bytes()
	if len(body) > l.Bytes {
		return nil, api.Permanent(fmt.Errorf("the member's answer has more than %d bytes", l.Bytes))
	}
	return body, nil
}

// frames passes a stream on until one of its messages has more bytes than the limit. The user of
// the decoder calls next after each message.
type frames struct {
	from  io.Reader
	limit int
	seen  int
}

func (f *frames) Read(p []byte) (int, error) {
	if f.seen > f.limit {
		return 0, api.Permanent(fmt.Errorf("a message of the member's watch has more than %d bytes", f.limit))
	}
	n, err := f.from.Read(p)
	f.seen += n
	return n, err
}

// next begins another message. Bytes that the decoder read ahead count for the previous message.
func (f *frames) next() { f.seen = 0 }
