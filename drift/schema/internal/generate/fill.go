package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"reflect"
	"slices"
	"strings"
)

// fill adds the kinds and all types in them.
func (p *goParser) fill(t *table) {
	for dir, group := range p.groups {
		if dir != "meta" {
			t.groups[group] = dir
		}
	}
	for _, name := range p.order {
		if d := p.decls[name]; d.pkg != "meta/v1" && p.isKind(d) {
			p.add(t, name)
		}
	}
}

// isKind reports whether a type is an object: it has TypeMeta and ObjectMeta.
func (p *goParser) isKind(d *decl) bool {
	s, ok := d.spec.Type.(*ast.StructType)
	if !ok {
		return false
	}
	var typeMeta, objectMeta bool
	for _, f := range s.Fields.List {
		name, _ := p.typeName(f.Type, d)
		typeMeta = typeMeta || name == "meta/v1.TypeMeta"
		objectMeta = objectMeta || name == "meta/v1.ObjectMeta"
	}
	return typeMeta && objectMeta
}

// add adds the block of a struct, and of the structs to which its fields refer.
func (p *goParser) add(t *table, name string) {
	if t.blocks[name] != nil {
		return
	}
	d := p.decls[name]
	b := &block{name: name, kind: d.pkg != "meta/v1" && p.isKind(d)}
	t.blocks[name] = b
	if marker(d.doc, "structType") == "atomic" {
		b.flags = append(b.flags, "whole")
	}
	p.addFields(t, b, d)
}

func (p *goParser) addFields(t *table, b *block, d *decl) {
	for _, f := range d.spec.Type.(*ast.StructType).Fields.List {
		tag := tagOf(f)
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		if name == "-" || (len(f.Names) > 0 && !f.Names[0].IsExported()) {
			continue
		}
		if name == "" && len(f.Names) == 0 {
			p.addInline(t, b, f, d)
			continue
		}
		b.fields = append(b.fields, p.field(t, name, f, d))
	}
}

// addInline adds the fields of an embedded struct.
func (p *goParser) addInline(t *table, b *block, f *ast.Field, d *decl) {
	name, _ := p.typeName(f.Type, d)
	inner := p.structOf(name)
	if name == "meta/v1.TypeMeta" && b.kind || inner == nil {
		return
	}
	first := len(b.fields)
	p.addFields(t, b, inner)
	if marker(inner.doc, "structType") == "atomic" && !slices.Contains(b.flags, "whole") {
		b.flags = append(b.flags, "whole")
	}
	b.inline(inner.name, b.fields[first:])
}

// structOf follows a name and its aliases to a struct, nil if there is none.
func (p *goParser) structOf(name string) *decl {
	for d := p.decls[name]; d != nil; d = p.decls[name] {
		if _, ok := d.spec.Type.(*ast.StructType); ok {
			return d
		}
		name, _ = p.typeName(d.spec.Type, d)
	}
	return nil
}

func (p *goParser) field(t *table, name string, f *ast.Field, d *decl) *field {
	doc, tag := rawText(f.Doc), tagOf(f)
	out := &field{name: name}
	expr, pointer := f.Type, false
	if star, ok := expr.(*ast.StarExpr); ok {
		expr, pointer = star.X, true
	}
	out.typ = p.typeExpr(t, expr, d, listMark(doc, tag))
	if pointer && isReference(out.typ) {
		out.typ = "*" + out.typ
	}
	if plain := []string{"string", "number", "boolean"}; !pointer && slices.Contains(plain, out.typ) {
		out.flags = append(out.flags, "unset")
	}
	if strings.HasPrefix(out.typ, "map[") && marker(doc, "mapType") == "atomic" {
		out.flags = append(out.flags, "whole")
	}
	if marker(doc, "structType") == "granular" {
		out.flags = append(out.flags, "granular")
	}
	if value := p.defaultOf(doc, d); value != "" {
		out.flags = append(out.flags, "default="+value)
	}
	return out
}

// defaultOf returns the JSON value of +default without spaces, because spaces separate the flags
// of the table, or an empty text if there is none.
func (p *goParser) defaultOf(doc string, d *decl) string {
	value := marker(doc, "default")
	if name, ok := strings.CutPrefix(value, "ref("); ok {
		value = p.consts[d.pkg+"."+strings.TrimSuffix(name, ")")]
	}
	var compact bytes.Buffer
	if json.Compact(&compact, []byte(value)) != nil {
		return value
	}
	return compact.String()
}

// listMark returns the kind of a list: list, set or keyed(...).
func listMark(doc string, tag reflect.StructTag) string {
	keys := markers(doc, "listMapKey")
	switch kind := marker(doc, "listType"); {
	case kind == "set":
		return "set"
	case kind == "map":
		return "keyed(" + strings.Join(keys, ",") + ")"
	case kind == "" && strings.Contains(tag.Get("patchStrategy"), "merge") && tag.Get("patchMergeKey") != "":
		return "keyed(" + tag.Get("patchMergeKey") + ")"
	}
	return "list"
}

// typeExpr formats a type for the table, and adds the structs in it.
func (p *goParser) typeExpr(t *table, e ast.Expr, d *decl, list string) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return p.typeExpr(t, e.X, d, list)
	case *ast.ArrayType:
		if id, ok := e.Elt.(*ast.Ident); ok && id.Name == "byte" {
			return "bytes"
		}
		return list + "[" + p.typeExpr(t, e.Elt, d, "list") + "]"
	case *ast.MapType:
		return "map[" + p.typeExpr(t, e.Value, d, "list") + "]"
	}
	name, ok := p.typeName(e, d)
	if !ok {
		return "any"
	}
	if plain := plainType(name); plain != "" {
		return plain
	}
	return p.named(t, name, d, list)
}

// named formats a declared type: structs by name, others by their underlying type.
func (p *goParser) named(t *table, name string, from *decl, list string) string {
	d := p.decls[name]
	if d == nil {
		return "any"
	}
	if _, ok := d.spec.Type.(*ast.StructType); !ok {
		return p.typeExpr(t, d.spec.Type, d, list)
	}
	p.add(t, name)
	return shorten(name, from.pkg)
}

// typeName returns the package and name of a type, for example core/v1.Pod.
func (p *goParser) typeName(e ast.Expr, d *decl) (string, bool) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return p.typeName(e.X, d)
	case *ast.Ident:
		if e.Obj == nil && plainType(e.Name) != "" {
			return e.Name, true
		}
		return d.pkg + "." + e.Name, true
	case *ast.SelectorExpr:
		if id, ok := e.X.(*ast.Ident); ok {
			return d.imports[id.Name] + "." + e.Sel.Name, true
		}
	}
	return "", false
}

// plainType returns the word for a type without components, or an empty text.
func plainType(name string) string {
	switch name {
	case "string", "types.UID", "types.NodeName", "types.NamespacedName":
		return "string"
	case "bool":
		return "boolean"
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "float32", "float64":
		return "number"
	case "meta/v1.Time", "meta/v1.MicroTime":
		return "time"
	case "meta/v1.Duration":
		return "duration"
	case "resource.Quantity":
		return "quantity"
	case "intstr.IntOrString":
		return "intorstring"
	case "runtime.RawExtension", "meta/v1.FieldsV1", "runtime.Object":
		return "any"
	}
	return ""
}

func tagOf(f *ast.Field) reflect.StructTag {
	if f.Tag == nil {
		return ""
	}
	return reflect.StructTag(strings.Trim(f.Tag.Value, "`"))
}
