package oam

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/formats/internal/yamldoc"
)

// application reads an Application.
func application(d *document) Application {
	version(d, "v1beta1")
	app := Application{Namespace: d.Namespace, Name: d.Name}
	d.Root().Object(fields{
		"apiVersion": yamldoc.Ignore, "kind": yamldoc.Ignore, "status": yamldoc.Ignore,
		"metadata": func(v value) {
			metadata(v, func(m map[string]string) { app.PublishVersion = m[PublishVersionAnnotation] })
			app.Rollback = rollbackPolicy(v)
		},
		"spec": func(v value) { applicationSpec(v, &app) },
	}, "metadata", "spec")
	return app
}

func applicationSpec(v value, app *Application) {
	v.Object(fields{
		"components": func(v value) { components(v, app) },
		"policies":   func(v value) { inlinePolicies(v, app) },
		"workflow":   func(v value) { applicationWorkflow(v, app) },
	}, "components")
}

func components(v value, app *Application) {
	seen := names{}
	v.Each(func(v value) {
		c := component(v, app.Namespace)
		seen.once(v, c.Name)
		app.Components = append(app.Components, c)
	})
	if len(app.Components) == 0 {
		v.Fail("must have at least one component")
	}
}

// names reports duplicate names in a list.
type names map[string]bool

func (n names) once(v value, name string) {
	if name != "" && n[name] {
		v.Place("name").Fail("another one is named %s; names are unique", yamldoc.Clip(name))
	}
	n[name] = true
}

func component(v value, namespace string) Component {
	c := Component{Name: v.Peek("name")}
	v.Object(fields{
		"name":       func(v value) { label(v) },
		"type":       componentType,
		"properties": func(v value) { c.Objects = refObjects(v, namespace, c.Name) },
		"traits":     unsupported, "dependsOn": unsupported, "inputs": unsupported, "outputs": unsupported,
		"scopes": unsupported, "externalRevision": unsupported, "replicaKey": unsupported,
	}, "name", "type", "properties")
	return c
}

func componentType(v value) {
	if s := v.NonEmpty(); s != "" && s != RefObjects {
		v.Fail("components of type %q are not supported; write %s", yamldoc.Clip(s), RefObjects)
	}
}

func refObjects(v value, namespace, component string) (refs []ObjectRef) {
	v.Object(fields{
		"objects": func(v value) {
			refs = yamldoc.List(v, func(v value) ObjectRef { return objectRef(v, namespace, component) })
			if len(refs) == 0 {
				v.Fail("must name at least one object")
			}
		},
		"urls": unsupported,
	}, "objects")
	return refs
}

// objectRef reads a reference. Without a name and labels it refers to the object with the name of
// the component.
func objectRef(v value, namespace, component string) ObjectRef {
	var ref ObjectRef
	v.Object(fields{
		"apiVersion": func(v value) {
			gv, err := schema.ParseGroupVersion(v.NonEmpty())
			if err != nil {
				v.Fail("must be a version such as v1 or apps/v1")
			}
			ref.Group, ref.Version = gv.Group, gv.Version
		},
		"kind":          func(v value) { ref.Kind = v.NonEmpty() },
		"name":          func(v value) { ref.Name = v.Named(validation.IsDNS1123Subdomain) },
		"labelSelector": func(v value) { ref.Labels = v.StringMap() },
		"namespace": func(v value) {
			if s := v.NonEmpty(); s != "" && s != namespace {
				v.Fail("objects are those of the application's namespace, %s; leave it out", namespace)
			}
		},
		"resource": unsupported, "group": unsupported, "cluster": unsupported,
	}, "apiVersion", "kind")
	switch {
	case ref.Name != "" && ref.Labels != nil:
		v.Fail("takes a name or a labelSelector, not both")
	case ref.Name == "" && ref.Labels == nil:
		ref.Name = component
	}
	return ref
}

func inlinePolicies(v value, app *Application) {
	seen := names{}
	v.Each(func(v value) {
		p := policy(v, fields{"name": func(v value) { v.Named(validation.IsDNS1123Subdomain) }})
		p.Name = v.Peek("name")
		seen.once(v, p.Name)
		app.Policies = append(app.Policies, p)
	})
}

func applicationWorkflow(v value, app *Application) {
	v.Object(fields{
		"ref":   func(v value) { app.WorkflowRef = v.Named(validation.IsDNS1123Subdomain) },
		"mode":  func(v value) { app.Mode = mode(v) },
		"steps": func(v value) { app.Steps = steps(v) },
	})
	if app.WorkflowRef != "" && (len(app.Steps) > 0 || app.Mode != Mode{}) {
		v.Fail("takes a ref, or steps with a mode, not both")
	}
	if len(app.Steps) > 0 {
		checkOrder(v, app.Steps, app.Mode)
	}
}

// listed joins names for people.
func listed(names []string) string { return strings.Join(names, ", ") }
