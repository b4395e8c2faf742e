package httpapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/slipway-dev/slipway/approval"
)

// Tokens authenticates requests by bearer tokens. It reads the format of Kubernetes' static token
// file: one line per identity with token, user, uid and, optionally, groups, as in
//
//	31ada4fd-adec-460c-809a-9e56ceb75269,ann,1001,"ops,release-managers"
//
// The user is the name of the identity. Tokens are compared in constant time. A request that also
// names another identity is refused. The error lists every invalid line, without its token.
func Tokens(file io.Reader) (func(*http.Request) (approval.Identity, error), error) {
	lines := csv.NewReader(file)
	lines.FieldsPerRecord, lines.TrimLeadingSpace = -1, true
	type entry struct {
		digest [sha256.Size]byte
		by     approval.Identity
	}
	var known []entry
	var problems []error
	seen := map[string]bool{}
	for {
		fields, err := lines.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("the file of tokens: %w", err)
		}
		n, _ := lines.FieldPos(0)
		switch {
		case len(fields) < 3 || fields[0] == "" || fields[1] == "":
			problems = append(problems, fmt.Errorf(`line %d: want token,user,uid or token,user,uid,"group,group"`, n))
			continue
		case seen[fields[0]]:
			problems = append(problems, fmt.Errorf("line %d: the token of an earlier line", n))
			continue
		}
		seen[fields[0]] = true
		e := entry{sha256.Sum256([]byte(fields[0])), approval.Identity{Name: fields[1]}}
		if len(fields) > 3 && fields[3] != "" {
			e.by.Groups = strings.Split(fields[3], ",")
		}
		known = append(known, e)
	}
	if len(known)+len(problems) == 0 {
		problems = append(problems, errors.New("there is none"))
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("the file of tokens: %w", errors.Join(problems...))
	}
	return func(r *http.Request) (by approval.Identity, err error) {
		token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !is {
			return by, errors.New("a token is missing: want Authorization: Bearer TOKEN")
		}
		digest := sha256.Sum256([]byte(token))
		found := 0
		for i := range known {
			same := subtle.ConstantTimeCompare(digest[:], known[i].digest[:])
			found = subtle.ConstantTimeSelect(same, i+1, found)
		}
		if found == 0 {
			return by, errors.New("the token is not known")
		}
		if r.Header.Get(userHeader) != "" || r.Header.Get(groupHeader) != "" {
			return by, &Error{http.StatusForbidden, "Forbidden", "the identity is that of the token: another one cannot be named"}
		}
		return known[found-1].by, nil
	}, nil
}
