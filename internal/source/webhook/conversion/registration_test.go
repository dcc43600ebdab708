package conversion

import (
	"fmt"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"k8s.io/apimachinery/pkg/types"
)

var service = types.NamespacedName{Namespace: "ops", Name: "hooks"}

// TestRegistration compares the patches of CRDs with testdata/registration.golden.
func TestRegistration(t *testing.T) {
	bundle := func(text string) func() []byte { return func() []byte { return []byte(text) } }
	var all strings.Builder
	for _, test := range []struct {
		about string
		o     keep.Target
	}{
		{"a Service", keep.Target{Service: service, Bundle: bundle("ca")}},
		{"with a token", keep.Target{Service: service,
			Token: func(path string) string { return "token-of" + strings.ReplaceAll(path, "/", "-") }}},
		{"a URL", keep.Target{URL: "https://127.0.0.1:9681", Bundle: bundle("ca")}},
		{"certificates of another program", keep.Target{URL: "https://hooks.acme.dev/x", Bundle: bundle("")}},
		{"cert-manager", keep.Target{Service: service, CertManager: "ops/hooks", Bundle: bundle("ca")}},
	} {
		if test.o.Bundle == nil {
			test.o.Bundle = bundle("")
		}
		patch, err := registration(&test.o, widgets)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "# %s\n%s\n\n", test.about, patch)
	}
	golden.Compare(t, "testdata/registration.golden", all.String())
}

func TestChanges(t *testing.T) {
	o := keep.Target{Service: service, CertManager: "ops/hooks"}
	patch, err := registration(&o, widgets)
	if err != nil {
		t.Fatal(err)
	}
	const good = `"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"caBundle":"aW5qZWN0ZWQ=","service":{"name":"hooks",` +
		`"namespace":"ops","path":"/widgets.acme.dev","port":443}},"conversionReviewVersions":["v1","v1beta1"]}}`
	for _, test := range []struct {
		about, crd string
		want       bool
	}{
		{"as it has to be", `{"metadata":{"annotations":{"cert-manager.io/inject-ca-from":"ops/hooks","a":"b"}},"spec":{"group":"acme.dev",` +
			good + `}}`, false},
		{"without the annotation", `{"metadata":{"annotations":{"a":"b"}},"spec":{` + good + `}}`, true},
		{"another annotation", `{"metadata":{"annotations":{"cert-manager.io/inject-ca-from":"ops/other"}},"spec":{` + good + `}}`, true},
		{"new", `{"metadata":{},"spec":{"conversion":{"strategy":"None"}}}`, true},
		{"nothing", `{}`, true},
	} {
		if got, err := changes([]byte(test.crd), patch); err != nil || got != test.want {
			t.Errorf("%s: got %v, %v", test.about, got, err)
		}
	}
}
