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
