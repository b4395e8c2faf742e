// Package kubeenv runs real Kubernetes API servers for tests: one etcd, any number of API servers on
// loopback addresses that share it, and where a test wants them, the controllers of a controller
// manager. There is no kubelet and no scheduler, so that Pods are stored and never run.
//
// A test that needs an environment of its own, because it kills or pauses servers, says
//
//	env := kubeenv.ForTest(t)
//	server := env.Server(t, "one") // or several at once: env.Servers(t, "one", "two")
//	client, err := kubernetes.NewForConfig(server.Config())
//
// Tests that only need some server share one per process, since a start takes seconds, and keep apart
// by namespaces:
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
// Everything that a server serves is encrypted with a certificate of its own authority, and clients
// verify it; users are told apart by client certificates of the same authority. Authorization is RBAC.
//
// The programs are built by make kube. Where they are missing, the start fails and says so.
//
// Faults and Counts wrap the transport of a client: the one spoils requests by plan, the other counts
// them.
package kubeenv
