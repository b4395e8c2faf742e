package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/slipway-dev/slipway/backend/kube/store"
	"github.com/slipway-dev/slipway/fleet"
	"github.com/slipway-dev/slipway/internal/storebench"
)

// The environment of a process that is an engine.
const (
	engineName       = "SLIPWAY_TEST_ENGINE"
	engineRollout    = "SLIPWAY_TEST_ROLLOUT"
	engineKubeconfig = "SLIPWAY_TEST_KUBECONFIG"
	engineNamespace  = "SLIPWAY_TEST_NAMESPACE"
)

// runEngine runs an engine until it is killed.
func runEngine() error {
	rollout, is := storebench.ParseRollout(os.Getenv(engineRollout))
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv(engineKubeconfig))
	if !is || err != nil {
		return errors.Join(errors.New("the environment is not that of an engine"), err)
	}
	s, err := store.New(config, store.Options{Namespace: os.Getenv(engineNamespace)})
	if err != nil {
		return err
	}
	cfg := fleet.Config{Store: s, Name: os.Getenv(engineName)}
	rollout.Configure(&cfg)
	e, err := fleet.New(cfg)
	if err != nil {
		return err
	}
	return e.Start(context.Background())
}

// BenchmarkEngines runs engines in separate processes on one store, which roll out a ConfigMap to
// clusters with calls of 20 ms. updates/s is their total rate, engine-cores their processor
// usage. The bytes are the sizes of the records at the end.
func BenchmarkEngines(b *testing.B) {
	server := clusters.Server(b, "one")
	kubeconfig := filepath.Join(b.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.Kubeconfig(), 0o600); err != nil {
		b.Fatal(err)
	}
	r := storebench.Rollout{Clusters: 1000, Placements: 20, Delay: 20 * time.Millisecond}
	for _, engines := range []int{1, 2, 4} {
		b.Run(fmt.Sprint("engines=", engines), func(b *testing.B) {
			var took time.Duration
			var own, bytes float64
			for range b.N {
				namespace := server.Namespace(b)
				var kills []func() float64
				for i := range engines {
					kills = append(kills, storebench.Spawn(b, fmt.Sprintf("%s=engine-%d", engineName, i), engineRollout+"="+r.String(),
						engineKubeconfig+"="+kubeconfig, engineNamespace+"="+namespace))
				}
				time.Sleep(2 * time.Second)
				h := r.Declare(b, storeOn(b, server.Config(), namespace))
				began := time.Now()
				h.Begin(b)
				h.Finish(b)
				took += time.Since(began)
				for _, kill := range kills {
					own += kill()
				}
				client, err := kubernetes.NewForConfig(server.Config())
				if err != nil {
					b.Fatal(err)
				}
				secrets, err := client.CoreV1().Secrets(namespace).List(b.Context(), metav1.ListOptions{})
				if err != nil {
					b.Fatal(err)
				}
				bytes += stored(secrets.Items)
			}
			n := float64(b.N * r.Clusters)
			b.ReportMetric(n/took.Seconds(), "updates/s")
			b.ReportMetric(own/took.Seconds(), "engine-cores")
			b.ReportMetric(bytes/n, "stored-bytes/cluster")
		})
	}
}

// stored is how much Secrets take in etcd.
func stored(secrets []corev1.Secret) (bytes float64) {
	for i := range secrets {
		bytes += float64(secrets[i].Size())
	}
	return bytes
}
