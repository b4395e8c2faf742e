package main

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// podPace is the pause between two lists of Pods.
const podPace = 300 * time.Millisecond

// startNode makes a node, and has Pods run until ctx ends.
func startNode(ctx context.Context, cfg *rest.Config) error {
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status = corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	if node, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	node.Spec.Taints = nil // remove the taints of a node without a report of its kubelet
	if _, err = client.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	go wait.UntilWithContext(ctx, func(ctx context.Context) { runPods(ctx, client) }, podPace)
	return nil
}

// runPods starts the waiting Pods. The next round retries failed requests.
func runPods(ctx context.Context, client kubernetes.Interface) {
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	claims, err := client.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range pods.Items {
		if started := podStarted(&pods.Items[i], metav1.Now()); started != nil && !lacksVolume(started, claims.Items) {
			_, _ = client.CoreV1().Pods(started.Namespace).UpdateStatus(ctx, started, metav1.UpdateOptions{})
		}
	}
}

// storageClass is the only storage class, as in the clusters that the suites require.
const storageClass = "standard"

// lacksVolume reports whether a Pod has a claim of a class that does not exist, so that it is on
// no node.
func lacksVolume(pod *corev1.Pod, claims []corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && slices.ContainsFunc(claims, func(c corev1.PersistentVolumeClaim) bool {
			return c.Namespace == pod.Namespace && c.Name == v.PersistentVolumeClaim.ClaimName && c.Spec.StorageClassName != nil && *c.Spec.StorageClassName != storageClass
		})
	})
}

// podStarted returns a Pod with the status of a started Pod, or nil if no kubelet would start it.
func podStarted(pod *corev1.Pod, now metav1.Time) *corev1.Pod {
	untagged := func(c corev1.Container) bool { return !strings.Contains(c.Image, ":") }
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodPending || slices.ContainsFunc(pod.Spec.Containers, untagged) {
		return nil
	}
	pod = pod.DeepCopy()
	pod.Status.StartTime = &now
	if slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Job" }) {
		pod.Status.Phase = corev1.PodSucceeded
		return pod
	}
	pod.Status.Phase = corev1.PodRunning
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return pod
}
