package manifest_test

import (
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/formats/manifest"
)

// Objects come with their places, and an error has all that is wrong.
func ExampleRead() {
	objects, err := manifest.Read(strings.NewReader(`apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: page, namespace: web}
`), "web.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range objects {
		fmt.Println(o.Place, o.GetKind(), o.GetName())
	}
	_, err = manifest.Read(strings.NewReader("kind: ConfigMap\n---\n[]\n"), "page.yaml")
	fmt.Println(err)
	// Output:
	// web.yaml:1: document 1 Namespace web
	// web.yaml:5: document 2 ConfigMap page
	// page.yaml:1: document 1: apiVersion must be text, and not empty
	// page.yaml:3: document 2: must be an object with apiVersion, kind and metadata
}
