package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

const eventsIntro = `# Events

<!-- Written by make generate from stages/event.go and hub/internal/api/events.go: change the comments there. -->

This page is the reference for reading the history of a rollout and for alerts. The engine records events in the journals of runs
and placements. ` + "`slipway history`" + ` and ` + "`slipway watch`" + ` show them, ` + "`RunHandle.Follow`" + ` of package fleet yields them, and the
API over HTTP streams them as JSON.

A hub also writes Kubernetes Events. For some events of a run it writes an Event on the object of the run, with the type of the
event as the reason; the column *On a hub* shows whether the Event is Normal or Warning. The last section lists the other Events of
a hub.

The message of an event is for people and may change. Every other field is for programs.

`

// fieldNotes, typeNotes are the keywords of the notes in the comments of events.
const fieldNotes = "Fields"

var typeNotes = []string{"Normal on", "Warning on", "Normal or Warning on"}

// eventsPage returns the page of the events of the engine and of the Events of the hub.
func (s *source) eventsPage() (string, error) {
	file, err := s.parse("stages/event.go")
	if err != nil {
		return "", err
	}
	types, err := blocks(file, "EventType", fieldNotes)
	if err != nil {
		return "", err
	}
	onHub, err := s.onHub()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(eventsIntro)
	for _, group := range types {
		if err := writeTypes(&b, group, onHub); err != nil {
			return "", err
		}
	}
	b.WriteString("## Fields of an event\n\nA field that does not apply is absent.\n\n| Field | JSON | Type | Meaning |\n|---|---|---|---|\n")
	if err := writeFields(&b, file); err != nil {
		return "", err
	}
	if err := s.writeReasons(&b); err != nil {
		return "", err
	}
	return b.String(), nil
}

// titled divides the comment of a block into a title and the rest. The comment begins with "Events
// about" and the subject, which ends at the first colon or period.
func titled(text string) (title, rest string) {
	end := strings.IndexAny(text, ":.")
	if end < 0 {
		return text, ""
	}
	return text[:end], sentence(strings.TrimSpace(text[end+1:]))
}

// writeTypes writes the table of a block of types.
func writeTypes(b *strings.Builder, group block, onHub map[string]string) error {
	title, rest := titled(group.text)
	fmt.Fprintf(b, "## %s\n\n%s\n\n| Event | Meaning | Further fields | On a hub |\n|---|---|---|---|\n", title, wrapped(rest))
	for _, c := range group.constants {
		fields := c.notes[fieldNotes]
		if fields == "" {
			return fmt.Errorf("the comment of %s has no line that begins with %q", c.name, fieldNotes+": ")
		}
		b.WriteString(row("`"+c.value+"`", c.text, sentence(fields), onHub[c.name]))
	}
	b.WriteString("\n")
	return nil
}

// onHub returns the types of Kubernetes Event that a hub writes for the types of event: it reads
// the switch in Recorder.Record.
func (s *source) onHub() (map[string]string, error) {
	file, err := s.parse("hub/internal/objects/recorder.go")
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Name.Name != "Record" {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			clause, ok := n.(*ast.CaseClause)
			if !ok {
				return true
			}
			kinds := recorded(clause)
			for _, e := range clause.List {
				if typ, ok := e.(*ast.SelectorExpr); ok && isIdent(typ.X, "stages") {
					out[typ.Sel.Name] = kinds
				}
			}
			return true
		})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("hub/internal/objects/recorder.go: Record has no case for a type of event")
	}
	return out, nil
}

// recorded returns the types of Kubernetes Event that the calls below n write.
func recorded(n ast.Node) string {
	var kinds []string
	ast.Inspect(n, func(n ast.Node) bool {
		if call, ok := n.(*ast.SelectorExpr); ok && (call.Sel.Name == "Normal" || call.Sel.Name == "Warning") && !slices.Contains(kinds, call.Sel.Name) {
			kinds = append(kinds, call.Sel.Name)
		}
		return true
	})
	slices.Sort(kinds)
	return strings.Join(kinds, " or ")
}

// writeFields writes the table of the fields of stages.Event. A comment is also of the fields
// directly below it.
func writeFields(b *strings.Builder, file *ast.File) error {
	var fields *ast.FieldList
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.TypeSpec); ok && spec.Name.Name == "Event" {
			if s, ok := spec.Type.(*ast.StructType); ok {
				fields = s.Fields
			}
		}
		return true
	})
	if fields == nil {
		return fmt.Errorf("stages/event.go has no struct Event")
	}
	text := ""
	for _, f := range fields.List {
		field := f.Names[0].Name
		if f.Doc != nil {
			text = sentence(strings.TrimPrefix(oneLine(f.Doc.Text()), field+" is "))
		}
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(tag, `json:"`), `"`), ",")
		b.WriteString(row(field, "`"+name+"`", jsonType(f.Type), text))
	}
	return nil
}

// jsonType returns the type of a field in JSON.
func jsonType(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return jsonType(t.X)
	case *ast.SelectorExpr:
		return "time, RFC 3339"
	case *ast.Ident:
		switch t.Name {
		case "int", "int64":
			return "number"
		case "bool":
			return "boolean"
		}
	}
	return "string"
}

// writeReasons writes the tables of the Kubernetes Events of a hub.
func (s *source) writeReasons(b *strings.Builder) error {
	file, err := s.parse("hub/internal/api/events.go")
	if err != nil {
		return err
	}
	reasons, err := blocks(file, "EventReason", typeNotes...)
	if err != nil {
		return err
	}
	values, err := s.values("hub/internal/api/api.go")
	if err != nil {
		return err
	}
	b.WriteString("\n## Kubernetes Events of a hub\n\nA hub writes these in addition to the events of runs. The reporting component is `slipway-hub`. Kubernetes may drop or\n" +
		"aggregate Events, and deletes them after an hour by default. So programs should read the status of an object instead.\n")
	for _, group := range reasons {
		title, _ := titled(group.text)
		fmt.Fprintf(b, "\n### %s\n\n| Reason | Type | Object | Meaning |\n|---|---|---|---|\n", title)
		for _, c := range group.constants {
			typ, objects := "", ""
			for _, keyword := range typeNotes {
				if note, ok := c.notes[keyword]; ok {
					typ, objects = strings.TrimSuffix(keyword, " on"), strings.TrimSuffix(note, ".")
				}
			}
			if typ == "" {
				return fmt.Errorf("the comment of %s has no line that begins with one of %q", c.name, typeNotes)
			}
			value := c.value
			if v, ok := values[value]; ok {
				value = v
			}
			b.WriteString(row("`"+value+"`", typ, objects, c.text))
		}
	}
	return nil
}

// values returns the string constants of a file by their names.
func (s *source) values(name string) (map[string]string, error) {
	file, err := s.parse(name)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && len(v.Values) == len(v.Names) {
			for i := range v.Names {
				if text, ok := v.Values[i].(*ast.BasicLit); ok {
					out[v.Names[i].Name] = strings.Trim(text.Value, `"`)
				}
			}
		}
		return true
	})
	return out, nil
}

// isIdent reports whether e is the name.
func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}
