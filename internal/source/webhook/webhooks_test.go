package webhook

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// Inside a cluster webhooks are registered by their Services, with certificates of one Secret. There are no Pods here
// that could call them, so the test checks the registrations only.
func TestWebhooksInside(t *testing.T) {
	c := testenv.Shared(t)
	namespace := c.Namespace(t)
	t.Cleanup(func() {
		c.Kubectl(t, "delete", "validatingwebhookconfiguration", namespace+"-hooks", "--ignore-not-found")
	})
	log := slog.New(slog.DiscardHandler)
	hooks := []*hook.Hook{{
		Name: "hook.sh",
		Validating: []hook.Admission{{
			Binding: hook.Binding{Name: "deny.example.com"}, SideEffects: "None", TimeoutSeconds: 10, FailurePolicy: "Ignore",
			Rules: []hook.Rule{{APIGroups: []string{namespace + ".example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"},
				Operations: []string{"CREATE"}}},
		}},
	}}
	w, err := New(t.Context(), Options{
		Cluster: &kube.Cluster{Config: c.Config(t), Inside: true}, Hooks: hooks, Log: log,
		Ready: func(*hook.Hook, hook.Address) bool { return true }, ReadyChanged: func() <-chan struct{} { return nil },
		Webhooks: WebhookOptions{
			Admission:         WebhookServer{ListenAddress: "127.0.0.1:0", ServiceName: "admission-svc", Cert: "/no/such/file"},
			Conversion:        WebhookServer{ServiceName: "conversion-svc"},
			ConfigurationName: namespace, FailurePolicy: "Fail", Namespace: namespace, SecretName: "webhook-certificates",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, stop)
	}()
	c.Kubectl(t, "wait", "--for=create", "validatingwebhookconfiguration/"+namespace+"-hooks", "--timeout=60s")
	got := c.Kubectl(t, "get", "validatingwebhookconfiguration", namespace+"-hooks", "-o",
		"jsonpath={.webhooks[0].clientConfig.service}{.webhooks[0].failurePolicy}")
	if !strings.Contains(got, `"name":"admission-svc","namespace":"`+namespace+`"`) || !strings.HasSuffix(got, "Ignore") {
		t.Errorf("registered as %s", got)
	}
	bundle := c.Kubectl(t, "get", "validatingwebhookconfiguration", namespace+"-hooks", "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}")
	secret := c.Kubectl(t, "-n", namespace, "get", "secret", "webhook-certificates", "-o", `jsonpath={.data.ca\.crt}`)
	if bundle == "" || bundle != secret {
		t.Errorf("the API server trusts %q, but the Secret has %q", bundle, secret)
	}
	stop(nil)
	<-ended

	// Hooks without webhooks: the next operator removes what the last one has left.
	w, err = New(t.Context(), Options{
		Cluster: &kube.Cluster{Config: c.Config(t), Inside: true}, Log: log, ReadyChanged: func() <-chan struct{} { return nil },
		Webhooks: WebhookOptions{Admission: WebhookServer{ServiceName: "admission-svc"}, ConfigurationName: namespace, Namespace: namespace},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop = context.WithCancelCause(t.Context())
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, stop)
	}()
	c.Kubectl(t, "wait", "--for=delete", "validatingwebhookconfiguration/"+namespace+"-hooks", "--timeout=60s")
	stop(nil)
	<-ended
}

func TestPlaces(t *testing.T) {
	outside := &kube.Cluster{Config: &rest.Config{Host: "https://127.0.0.1:6443"}}
	inside := &kube.Cluster{Config: outside.Config, Inside: true}
	for _, test := range []struct {
		name, listen, url string
		cl                *kube.Cluster
		want              endpoint
		base              string
	}{
		{"a Service", "", "", inside, endpoint{namespace: "ns"}, ""},
		{"our own address", "0.0.0.0:9681", "", outside, endpoint{host: "127.0.0.1"}, "https://127.0.0.1:9681"},
		{"our own address of any kind", ":9681", "", outside, endpoint{host: "127.0.0.1"}, "https://127.0.0.1:9681"},
		{"one address", "192.0.2.7:9681", "", outside, endpoint{host: "192.0.2.7"}, "https://192.0.2.7:9681"},
		{"a name", "localhost:9681", "", outside, endpoint{host: "localhost"}, "https://localhost:9681"},
		{"one address of IPv6", "[2001:db8::1]:9681", "", outside, endpoint{host: "2001:db8::1"}, "https://[2001:db8::1]:9681"},
		{"all addresses of IPv6", "[::]:9681", "", outside, endpoint{host: "127.0.0.1"}, "https://127.0.0.1:9681"},
		{"a URL", "", "https://a.example.com/x/", outside, endpoint{url: "https://a.example.com/x"}, "https://a.example.com/x"},
		{"a URL inside", "", "https://a.example.com:1", inside, endpoint{url: "https://a.example.com:1"}, "https://a.example.com:1"},
	} {
		got, err := endpointOf(test.cl, WebhookOptions{Namespace: "ns"}, WebhookServer{URL: test.url, ListenAddress: test.listen})
		if err != nil || got != test.want {
			t.Errorf("%s: got %+v, %v", test.name, got, err)
		}
		if base := got.base("0.0.0.0:9681"); test.base != "" && base != test.base {
			t.Errorf("%s: the base is %s", test.name, base)
		}
	}
}

// One URL cannot lead to two servers, unless a proxy there has a certificate of the user's CA.
func TestOneURLForBoth(t *testing.T) {
	made, given := WebhookServer{Cert: "/no/such/file"}, WebhookServer{FilesGiven: true}
	own := func(s WebhookServer, url string) WebhookServer { s.URL = url; return s }
	for _, test := range []struct {
		o    WebhookOptions
		fine bool
	}{
		{WebhookOptions{Admission: made, Conversion: made}, true},
		{WebhookOptions{Admission: own(made, "https://a:1"), Conversion: own(made, "https://a:1/")}, false},
		{WebhookOptions{Admission: own(given, "https://a:1"), Conversion: own(made, "https://a:1")}, false},
		{WebhookOptions{Admission: own(given, "https://a:1"), Conversion: own(given, "https://a:1")}, true},
		{WebhookOptions{Admission: own(made, "https://a:1"), Conversion: own(made, "https://a:1"), CertManager: "a/b"}, true},
		{WebhookOptions{Admission: own(made, "https://a:1"), Conversion: own(made, "https://a:2")}, true},
		{WebhookOptions{Admission: own(made, "https://a:1"), Conversion: made}, true},
	} {
		if err := test.o.checkURLs(); (err == nil) != test.fine {
			t.Errorf("%+v: %v", test.o, err)
		}
	}
}
