package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/slipway-dev/slipway/backend"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/fleet/errdef"
	"github.com/slipway-dev/slipway/stages"
)

// The headers of preconditions.
const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"
)

// version returns the version of a declaration: the beginning of the digest of its JSON.
func version(declaration any) string {
	text, err := json.Marshal(declaration)
	if err != nil {
		return ""
	}
	const bytes = 16
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:bytes])
}

// tag sets the ETag of an answer, unless there is an error.
func (c *call) tag(version string, err error) error {
	if err == nil {
		c.w.Header().Set("ETag", `"`+version+`"`)
	}
	return err
}

// precondition is the precondition of a PUT: nothing, no declaration, or the declaration with a
// version.
type precondition struct {
	given   bool
	version string
}

// precondition reads the headers.
func (c *call) precondition() (precondition, error) {
	match, none := c.Header.Get(ifMatch), c.Header.Get(ifNoneMatch)
	switch {
	case match == "" && none == "":
		return precondition{}, nil
	case match == "" && none == "*":
		return precondition{given: true}, nil
	case none != "":
		return precondition{}, badRequest(fmt.Errorf("%s is %.40q: want *, and no %s", ifNoneMatch, none, ifMatch))
	}
	tag, quoted := strings.CutPrefix(match, `"`)
	tag, ended := strings.CutSuffix(tag, `"`)
	if !quoted || !ended || tag == "" || strings.ContainsAny(tag, `",`) {
		return precondition{}, badRequest(fmt.Errorf(`%s is %.60q: want one ETag, "VERSION" in quotes`, ifMatch, match))
	}
	return precondition{given: true, version: tag}, nil
}

// declaration is a kind of declaration.
type declaration[T any] struct {
	kind    errdef.Kind
	name    string
	get     func() (T, error)
	check   func() error
	put     func() error
	replace func(was *T) error
	// open returns why the declaration that is there does not change, for a dry run; nil if it
	// always may.
	open func(was T) error
}

// wouldPut returns the error of a PUT whose content is valid.
func (d *declaration[T]) wouldPut() error {
	if d.open == nil {
		return nil
	}
	was, err := d.get()
	if errors.Is(err, backend.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return d.open(was)
}

// carryOut carries out a PUT.
func carryOut[T any](c *call, d declaration[T]) error {
	dry, err := c.flag("dryRun")
	if err != nil {
		return err
	}
	want, err := c.precondition()
	if err != nil {
		return err
	}
	if err := d.check(); err != nil {
		return err
	}
	if !want.given {
		if dry {
			return d.wouldPut()
		}
		return d.put()
	}
	was, err := d.get()
	missing := errors.Is(err, backend.ErrNotFound)
	switch {
	case err != nil && !missing:
		return err
	case missing != (want.version == ""), !missing && version(was) != want.version:
		return errdef.Changed(d.kind, d.name)
	case dry:
		return d.wouldPut()
	case missing:
		return d.replace(nil)
	}
	return d.replace(&was)
}

// named returns an error if a document has another name than the path.
func (c *call) named(name, inPath string) error {
	if name == inPath {
		return nil
	}
	return badRequest(fmt.Errorf("name is %q in the body, and %q in the path", name, inPath))
}

func putPlacement(c *call, p fleet.Placement) error {
	if err := c.named(p.Name, c.placement()); err != nil {
		return err
	}
	return carryOut(c, declaration[fleet.Placement]{
		kind: errdef.Placement, name: p.Name,
		get:     func() (fleet.Placement, error) { return c.engine.Placement(p.Name).Get(c.ctx()) },
		check:   func() error { return c.engine.CheckPlacement(p) },
		put:     func() error { return c.engine.PutPlacement(c.ctx(), p) },
		replace: func(was *fleet.Placement) error { return c.engine.ReplacePlacement(c.ctx(), was, p) },
		open:    func(was fleet.Placement) error { return open(c, was, p) },
	})
}

// open returns the error of a PUT of a placement that belongs to another owner, or that is being
// deleted.
func open(c *call, was, p fleet.Placement) error {
	if was.Owner != p.Owner {
		return errdef.OtherOwner(p.Name, was.Owner, p.Owner)
	}
	d, err := c.engine.Placement(p.Name).Deletion(c.ctx())
	switch {
	case errors.Is(err, backend.ErrNotFound), err == nil && !d.Ended.IsZero():
		return nil
	case err != nil:
		return err
	}
	return errdef.Deleting(p.Name, d.Since)
}

func putStrategy(c *call, s stages.Strategy) error {
	if err := c.named(s.Name, c.PathValue("strategy")); err != nil {
		return err
	}
	return carryOut(c, declaration[stages.Strategy]{
		kind: errdef.Strategy, name: s.Name,
		get:     func() (stages.Strategy, error) { return c.engine.Strategy(c.ctx(), s.Name) },
		check:   func() error { return fleet.ValidateStrategy(s) },
		put:     func() error { return c.engine.PutStrategy(c.ctx(), s) },
		replace: func(was *stages.Strategy) error { return c.engine.ReplaceStrategy(c.ctx(), was, s) },
	})
}

func strategies(c *call) (out []DeclaredStrategy, err error) {
	all, err := c.engine.Strategies(c.ctx())
	for _, s := range all {
		out = append(out, DeclaredStrategy{s, version(s)})
	}
	return out, err
}

// Declaring are the options of a request that declares something.
type Declaring struct {
	// Version is the version of the declaration that the request replaces. If the declaration has
	// another version, the error matches errdef.ErrChanged. Empty means any.
	Version string
	// New means that there must be no declaration yet; it replaces Version.
	New bool
	// DryRun only checks the request.
	DryRun bool
}

// header returns the headers of the preconditions.
func (d Declaring) header() http.Header {
	switch {
	case d.New:
		return http.Header{ifNoneMatch: {"*"}}
	case d.Version != "":
		return http.Header{ifMatch: {`"` + d.Version + `"`}}
	}
	return nil
}
