package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/bench/objects"
)

// client returns a typed client without limits.
func (b *bench) client() *kubernetes.Clientset {
	client, err := kubernetes.NewForConfig(b.config())
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func (b *bench) config() *rest.Config { return b.cluster.Config(b.T) }

// bareHTTP returns a client for raw requests, and the address of the API server. Answers are not compressed: on this
// machine that would only cost time.
func bareHTTP(config *rest.Config) (*http.Client, string, error) {
	config = rest.CopyConfig(config)
	config.DisableCompression = true
	client, err := rest.HTTPClientFor(config)
	return client, strings.TrimSuffix(config.Host, "/"), err
}

// bareList reads a paginated list as bytes and throws it away. It returns how long that took, and its size.
func (b *bench) bareList(path string) (seconds, mib float64) {
	b.Helper()
	client, host, err := bareHTTP(b.config())
	if err != nil {
		b.Fatal(err)
	}
	defer client.CloseIdleConnections()
	started := time.Now()
	size, next := 0, ""
	for {
		res, err := client.Get(host + path + "?limit=500&continue=" + next)
		if err != nil {
			b.Fatal(err)
		}
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatalf("list %s: %s %v", path, res.Status, err)
		}
		size += len(page)
		if next = continuation(page); next == "" {
			return time.Since(started).Seconds(), float64(size) / (1 << 20)
		}
	}
}

// continuation finds the token of the next page, which is at the page's beginning.
func continuation(page []byte) string {
	_, after, found := bytes.Cut(page[:min(len(page), 4096)], []byte(`"continue":"`))
	if !found {
		return ""
	}
	token, _, _ := bytes.Cut(after, []byte(`"`))
	return string(token)
}

// fill makes sure that a namespace has n objects of a kind and returns its name. Who comes second finds them.
func (b *bench) fill(kind string, n int) (namespace string) {
	b.Helper()
	ctx := context.Background()
	client := b.client()
	namespace = fmt.Sprintf("bench-%s-%d", strings.ToLower(kind), n)
	const label = "bench-filled"
	ns, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err == nil && ns.Labels[label] != "" {
		return namespace
	}
	b.progress("makes %d objects of kind %s", n, kind)
	if err != nil {
		b.cluster.Kubectl(b.T, "create", "namespace", namespace)
	}
	b.each(16, n, func(client *kubernetes.Clientset, i int) error { return create(ctx, client, kind, namespace, i) })
	b.cluster.Kubectl(b.T, "label", "namespace", namespace, label+"=yes")
	return namespace
}

// create makes one object as those do who make it in a cluster. One that is there already is fine.
func create(ctx context.Context, client *kubernetes.Clientset, kind, namespace string, i int) (err error) {
	core := client.CoreV1()
	by := metav1.CreateOptions{FieldManager: "kube-controller-manager"}
	switch kind {
	case "ConfigMap":
		_, err = core.ConfigMaps(namespace).Create(ctx, objects.ConfigMap(i, 2048), by)
	case "Secret":
		_, err = core.Secrets(namespace).Create(ctx, objects.Secret(i), by)
	case "Event":
		_, err = core.Events(namespace).Create(ctx, objects.Event(i, namespace), by)
	case "Pod":
		pod := objects.Pod(i)
		pod.Spec.NodeName = "" // a Pod of a node that does not exist would be removed while we measure
		if _, err = core.Pods(namespace).Create(ctx, pod, by); err == nil {
			_, err = core.Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{FieldManager: "kubelet"})
		}
	default:
		return fmt.Errorf("no objects of kind %q", kind)
	}
	if err != nil && strings.Contains(err.Error(), "already exists") {
		return nil
	}
	return err
}

// each does something for 0…n-1 by a number of workers with a connection each.
func (b *bench) each(workers, n int, do func(client *kubernetes.Clientset, i int) error) {
	b.Helper()
	var next atomic.Int64
	var working sync.WaitGroup
	for range workers {
		client := b.client()
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(client, i); err != nil {
					b.Errorf("object %d: %v", i, err)
					return
				}
				if i%10_000 == 9_999 {
					b.progress("%d of %d", i+1, n)
				}
			}
		})
	}
	working.Wait()
	if b.Failed() {
		b.FailNow()
	}
}

// watches counts the watches on a resource that the API server serves.
func (b *bench) watches(resource string) float64 {
	return sumOf(b.cluster.Kubectl(b.T, "get", "--raw", "/metrics"), "apiserver_longrunning_requests{", `resource="`+resource+`"`,
		`verb="WATCH"`)
}

// sumOf adds up the values of a metric with these labels.
func sumOf(page string, metric string, labels ...string) (sum float64) {
	for line := range strings.Lines(page) {
		text := strings.TrimSpace(line)
		if strings.HasPrefix(text, metric) && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(text, l) }) {
			n, _ := strconv.ParseFloat(text[strings.LastIndex(text, " ")+1:], 64)
			sum += n
		}
	}
	return sum
}
