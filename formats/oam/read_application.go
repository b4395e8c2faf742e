package oam

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// application reads an Application.
func (d *document) application() Application {
	d.version("v1beta1")
	app := Application{Namespace: d.namespace, Name: d.name}
	d.value().object(fields{
		"apiVersion": ignore, "kind": ignore, "status": ignore,
		"metadata": func(v value) {
			v.metadata(func(m map[string]string) { app.PublishVersion = m[PublishVersionAnnotation] })
			app.Rollback = v.rollback()
		},
		"spec": func(v value) { v.applicationSpec(&app) },
	}, "metadata", "spec")
	return app
}

func (v value) applicationSpec(app *Application) {
	v.object(fields{
		"components": func(v value) { v.components(app) },
		"policies":   func(v value) { v.inlinePolicies(app) },
		"workflow":   func(v value) { v.applicationWorkflow(app) },
	}, "components")
}

func (v value) components(app *Application) {
	seen := names{}
	v.list(func(v value) {
		c := v.component(app.Namespace)
		seen.once(v, c.Name)
		app.Components = append(app.Components, c)
	})
	if len(app.Components) == 0 {
		v.fail("must have at least one component")
	}
}

// names reports a name that another element of a list has.
type names map[string]bool

func (n names) once(v value, name string) {
	if name != "" && n[name] {
		v.doc.reportAt(v.path+".name", "another one is named "+clip(name)+"; names are unique")
	}
	n[name] = true
}

func (v value) component(namespace string) Component {
	var c Component
	if name, ok := v.get("name"); ok {
		c.Name, _ = name.text()
	}
	v.object(fields{
		"name":       func(v value) { v.label() },
		"type":       func(v value) { v.componentType() },
		"properties": func(v value) { c.Objects = v.refObjects(namespace, c.Name) },
		"traits":     unsupported, "dependsOn": unsupported, "inputs": unsupported, "outputs": unsupported,
		"scopes": unsupported, "externalRevision": unsupported, "replicaKey": unsupported,
	}, "name", "type", "properties")
	return c
}

func (v value) componentType() {
	if s := v.str(); s != "" && s != RefObjects {
		v.fail("components of type %q are not supported; write %s", clip(s), RefObjects)
	}
}

func (v value) refObjects(namespace, component string) (refs []ObjectRef) {
	v.object(fields{
		"objects": func(v value) {
			v.list(func(v value) { refs = append(refs, v.objectRef(namespace, component)) })
			if len(refs) == 0 {
				v.fail("must name at least one object")
			}
		},
		"urls": unsupported,
	}, "objects")
	return refs
}

// objectRef reads a reference. One without a name and labels is to the object that
// is named as the component.
func (v value) objectRef(namespace, component string) ObjectRef {
	var ref ObjectRef
	v.object(fields{
		"apiVersion": func(v value) {
			gv, err := schema.ParseGroupVersion(v.str())
			if err != nil {
				v.fail("must be a version such as v1 or apps/v1")
			}
			ref.Group, ref.Version = gv.Group, gv.Version
		},
		"kind":          func(v value) { ref.Kind = v.str() },
		"name":          func(v value) { ref.Name = v.named(validation.IsDNS1123Subdomain) },
		"labelSelector": func(v value) { ref.Labels = v.stringMap() },
		"namespace": func(v value) {
			if s := v.str(); s != "" && s != namespace {
				v.fail("objects are those of the application's namespace, %s; leave it out", namespace)
			}
		},
		"resource": unsupported, "group": unsupported, "cluster": unsupported,
	}, "apiVersion", "kind")
	switch {
	case ref.Name != "" && ref.Labels != nil:
		v.fail("takes a name or a labelSelector, not both")
	case ref.Name == "" && ref.Labels == nil:
		ref.Name = component
	}
	return ref
}

func (v value) inlinePolicies(app *Application) {
	seen := names{}
	v.list(func(v value) {
		p := v.policy(fields{"name": func(v value) { v.named(validation.IsDNS1123Subdomain) }})
		if name, ok := v.get("name"); ok {
			p.Name, _ = name.text()
		}
		seen.once(v, p.Name)
		app.Policies = append(app.Policies, p)
	})
}

func (v value) applicationWorkflow(app *Application) {
	v.object(fields{
		"ref":   func(v value) { app.WorkflowRef = v.named(validation.IsDNS1123Subdomain) },
		"mode":  func(v value) { app.Mode = v.mode() },
		"steps": func(v value) { app.Steps = v.steps() },
	})
	if app.WorkflowRef != "" && (len(app.Steps) > 0 || app.Mode != Mode{}) {
		v.fail("takes a ref, or steps with a mode, not both")
	}
	if len(app.Steps) > 0 {
		v.checkOrder(app.Steps, app.Mode)
	}
}

// listed joins names for people.
func listed(names []string) string { return strings.Join(names, ", ") }
