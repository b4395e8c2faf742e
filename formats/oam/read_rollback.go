package oam

import (
	"strings"

	"github.com/slipway-dev/slipway/formats/internal/rollback"
	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
	"github.com/slipway-dev/slipway/stages"
)

// rollback reads the annotation that asks for one, nil where there is none. Problems
// in it are told at its line.
func (v value) rollback() *stages.Rollback {
	annotations, _ := v.get("annotations")
	if annotations.node == nil {
		return nil
	}
	at, ok := annotations.get(RollbackAnnotation)
	if !ok || at.node.ShortTag() != "!!str" {
		return nil // what is no string was reported
	}
	docs, err := parse([]byte(at.node.Value))
	if err != nil || len(docs) != 1 || !newDocument("", docs[0]).isPlain() {
		at.fail(`must be an object in YAML, for example "{}" or "{causes: [BudgetExceeded]}"`)
		return nil
	}
	known := len(v.doc.problems)
	b := rollback.ReadNode(docs[0], at.path, func(_ int, path, text string) { v.doc.report(at.node.Line, path, text) })
	if len(v.doc.problems) > known {
		return b
	}
	for _, e := range yamldoc.FieldErrors(rollback.Check(b)) {
		v.doc.report(at.node.Line, at.path+strings.TrimPrefix(e.Field, "rollback"), e.ErrorBody())
	}
	return b
}
