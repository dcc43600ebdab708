// Package objects makes the Kubernetes objects that the benchmarks work on.
//
// Callers may rely on this:
//   - Object number i is the same on every machine and at every time, whatever else has been made.
//   - Payloads are random letters, which do not compress well; everything else looks as in a cluster that is used.
//
// `go run ./bench/generate` prints them.
package objects

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// seed makes the objects equal in all runs.
const seed = 20_26

// at is the time that all times in the objects are near to.
var at = time.Date(2026, 1, 15, 9, 30, 0, 0, time.UTC)

// random returns the source of object i of a kind.
func random(kind string, i int) *rand.Rand {
	return rand.New(rand.NewPCG(seed+uint64(len(kind))<<32, uint64(i)))
}

const letters = "bcdfghjklmnpqrstvwxz2456789"

// text returns n random letters, as Kubernetes makes them for names.
func text(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return string(b)
}

func hexadecimal(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[r.IntN(16)]
	}
	return string(b)
}

// binary returns n random bytes.
func binary(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// ConfigMap returns a ConfigMap whose payload is n bytes of random text.
func ConfigMap(i, n int) *corev1.ConfigMap {
	r := random("ConfigMap", i)
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("map-%06d", i),
			Labels: map[string]string{"app.kubernetes.io/name": "shop", "shard": fmt.Sprint(i % 16)},
		},
		Data: map[string]string{
			"payload": base64.StdEncoding.EncodeToString(binary(r, n*3/4)),
			"number":  fmt.Sprint(i),
			"mode":    []string{"plain", "fast", "careful"}[r.IntN(3)],
		},
	}
}

// Secret returns a Secret with a certificate and a key of the usual sizes.
func Secret(i int) *corev1.Secret {
	r := random("Secret", i)
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tls-%06d", i), Labels: map[string]string{"app.kubernetes.io/name": "shop"}},
		Type:       corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			"tls.crt": []byte("-----BEGIN CERTIFICATE-----\n" + base64.StdEncoding.EncodeToString(binary(r, 900)) + "\n-----END CERTIFICATE-----\n"),
			"tls.key": []byte("-----BEGIN PRIVATE KEY-----\n" + base64.StdEncoding.EncodeToString(binary(r, 1200)) +
				"\n-----END PRIVATE KEY-----\n"),
		},
	}
}

// Event returns an Event about a Pod.
func Event(i int, namespace string) *corev1.Event {
	r := random("Event", i)
	pod := podName(i)
	reasons := []struct{ kind, reason, message, component string }{
		{"Normal", "Scheduled", "Successfully assigned %s/%s to node-%03d", "default-scheduler"},
		{"Normal", "Pulled", "Container image \"registry.example.com/shop/%s:%s\" already present on machine (node-%03d)", "kubelet"},
		{"Warning", "BackOff", "Back-off restarting failed container app in pod %s_%s on node-%03d", "kubelet"},
		{"Warning", "Unhealthy", "Readiness probe of %s/%s failed on node-%03d: HTTP probe failed with statuscode: 503", "kubelet"},
	}
	what := reasons[r.IntN(len(reasons))]
	seen := metav1.NewTime(at.Add(time.Duration(i) * time.Second))
	return &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Name: pod + "." + hexadecimal(r, 16)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, Namespace: namespace, UID: uid(r),
			ResourceVersion: fmt.Sprint(100_000 + i)},
		Type: what.kind, Reason: what.reason, Message: fmt.Sprintf(what.message, namespace, pod, r.IntN(200)),
		Source:         corev1.EventSource{Component: what.component, Host: fmt.Sprintf("node-%03d", r.IntN(200))},
		FirstTimestamp: seen, LastTimestamp: seen, Count: int32(1 + r.IntN(40)),
	}
}

// UID returns the uid of object i, for those who need it before an API server has given one.
func UID(i int) types.UID { return uid(random("UID", i)) }
