package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	kubemember "github.com/slipway-dev/slipway/backend/kube/member"
	"github.com/slipway-dev/slipway/hub"
	"github.com/slipway-dev/slipway/placement"
)

// childEnv makes the test binary a hub. Its value is the file with the orders.
const childEnv = "SLIPWAY_HUB_CHILD"

func isChild() bool { return os.Getenv(childEnv) != "" }

// orders are the parameters of a child.
type orders struct {
	Name, Namespace string
	Kubeconfig      string
	Members         string
	Lease           time.Duration
	Elect           bool
}

// beHub serves until standard input ends. It ends with the test.
func beHub() int {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	if err := serveAs(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "the hub ended with:", err)
		return 1
	}
	return 0
}

func serveAs(ctx context.Context) error {
	text, err := os.ReadFile(os.Getenv(childEnv))
	if err != nil {
		return err
	}
	var o orders
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return err
	}
	cfg.UserAgent, cfg.QPS = o.Name, -1
	h, err := hub.New(hub.Config{
		Rest: cfg, Dialer: kubemember.NewDialer(o.way(), kubemember.Options{RequestTimeout: 5 * time.Second}),
		Namespace: o.Namespace, Name: o.Name, LeaseDuration: o.Lease, AlwaysLead: !o.Elect, Collect: 100 * time.Millisecond,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return err
	}
	return h.Run(ctx)
}

func (o *orders) way() kubemember.ConfigFunc {
	files := kubemember.KubeconfigDirectory(o.Members, kubemember.Trusted())
	return func(ctx context.Context, c placement.Cluster) (*rest.Config, error) {
		cfg, err := files(ctx, c)
		if err == nil {
			cfg.UserAgent = o.Name
		}
		return cfg, err
	}
}
