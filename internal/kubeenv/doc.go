// Package kubeenv runs real Kubernetes API servers for tests: one etcd, any number of API servers
// on loopback addresses that share it, and on request the controllers of a controller manager.
// There is no kubelet and no scheduler, so that Pods are stored and never run.
//
// A test that needs an environment of its own, because it kills or pauses servers, says
//
//	env := kubeenv.ForTest(t)
//	server := env.Server(t, "one") // or several at once: env.Servers(t, "one", "two")
//	client, err := kubernetes.NewForConfig(server.Config())
//
// Other tests share one server per process, because a start takes seconds, and use separate
// namespaces:
//
//	var clusters kubeenv.Shared // in one _test.go file of the package
//
//	func TestMain(m *testing.M) { os.Exit(clusters.Run(m)) }
//
//	func TestX(t *testing.T) {
//		server := clusters.Server(t, "one") // started when first asked for
//		namespace := server.Namespace(t)
//		...
//	}
//
// Each server uses TLS with a certificate of its own authority, and clients verify it; client
// certificates of the same authority identify users. Authorization is RBAC.
//
// The target make kube builds the programs. If they are missing, the start fails with a message.
//
// Faults and Counts wrap the transport of a client: Faults makes requests fail by rules, Counts
// counts them.
package kubeenv
