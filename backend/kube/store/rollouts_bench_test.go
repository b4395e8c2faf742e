package store_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-dev/slipway/internal/storebench"
)

// BenchmarkRollouts drives runs over 50 clusters each at the same time, with an updater that
// takes no time. Beside it, on the same API server in the same run: bare updates of Secrets of as
// many bytes, by as many clients.
func BenchmarkRollouts(b *testing.B) {
	server := clusters.Server(b, "one")
	for _, runs := range []int{8, 64} {
		b.Run(fmt.Sprint("runs=", runs), func(b *testing.B) {
			var all storebench.Measured
			bare := 0.0
			for b.Loop() {
				b.StopTimer()
				namespace := server.Namespace(b)
				s := storebench.Count(storeOn(b, server.Config(), namespace))
				m := storebench.NewRuns(b, s, runs, 50).Measure(b, s)
				all.Add(m)
				bare += storebench.Bare(b, runs, m.SaveBytes(), secretSaver(b, server.Config(), namespace, runs))
				b.StartTimer()
			}
			all.Report(b, bare/float64(b.N))
		})
	}
}

// secretSaver updates Secrets, each client one of its own.
func secretSaver(b *testing.B, config *rest.Config, namespace string, clients int) func(context.Context, int, []byte) error {
	b.Helper()
	config.QPS = -1 // no limit, as the store has none
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	secrets := client.CoreV1().Secrets(namespace)
	last := make([]*corev1.Secret, clients)
	for i := range last {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("bare-", i)}}
		if last[i], err = secrets.Create(b.Context(), secret, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	return func(ctx context.Context, client int, value []byte) (err error) {
		value[0]++ // an update that changes nothing is not written
		last[client].Data = map[string][]byte{"value": value}
		last[client], err = secrets.Update(ctx, last[client], metav1.UpdateOptions{})
		return err
	}
}
