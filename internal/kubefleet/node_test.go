package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLacksVolume: a Pod whose claim is of a class that does not exist never starts, as in a
// cluster.
func TestLacksVolume(t *testing.T) {
	claim := func(namespace, class string) corev1.PersistentVolumeClaim {
		c := corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data"}}
		if class != "" {
			c.Spec.StorageClassName = &class
		}
		return c
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "here"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{
		VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}},
	}}}}
	for name, test := range map[string]struct {
		claim corev1.PersistentVolumeClaim
		want  bool
	}{
		"no such class":        {claim("here", "none"), true},
		"the class":            {claim("here", "standard"), false},
		"no class":             {claim("here", ""), false},
		"of another namespace": {claim("there", "none"), false},
	} {
		if got := lacksVolume(pod, []corev1.PersistentVolumeClaim{test.claim}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if lacksVolume(&corev1.Pod{}, []corev1.PersistentVolumeClaim{claim("", "none")}) {
		t.Error("a Pod without claims lacks one")
	}
}
