package manifests_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/hub/manifests"
)

// Uninstall refuses while placements exist, and names them: their objects on members would stay.
func ExampleUninstall() {
	cfg, err := clientcmd.BuildConfigFromFlags("", "hub.kubeconfig")
	if err != nil {
		log.Fatal(err)
	}
	err = manifests.Uninstall(context.Background(), cfg, manifests.UninstallOptions{})
	if inUse, is := errors.AsType[*manifests.InUseError](err); is {
		fmt.Println("delete these first, while a hub runs:", inUse)
	} else if err != nil {
		log.Fatal(err)
	}
}

// A GitOps repository gets the objects of a hub as files. The definitions come first.
func ExampleExport() {
	all, err := manifests.Export(manifests.Options{Hub: &manifests.HubOptions{}})
	if err != nil {
		log.Fatal(err)
	}
	for _, u := range all {
		if u.GetKind() == "ServiceAccount" {
			fmt.Println(u.GetKind(), u.GetNamespace()+"/"+u.GetName())
		}
	}
	fmt.Println("the first is a", all[0].GetKind())
	// Output:
	// ServiceAccount slipway-system/slipway-hub
	// the first is a CustomResourceDefinition
}
