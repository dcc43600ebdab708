package conversion

import (
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

func TestRegistration(t *testing.T) {
	bundle := func(text string) func() []byte { return func() []byte { return []byte(text) } }
	for _, test := range []struct {
		about string
		o     RegistrarOptions
		want  string
	}{
		{"a Service", RegistrarOptions{Service: Service{"hooks", "ops"}, Bundle: bundle("ca")},
			`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","v1beta1"],` +
				`"clientConfig":{"service":{"namespace":"ops","name":"hooks","path":"/widgets.acme.dev","port":443},"url":null,"caBundle":"Y2E="}}}}}`},
		{"with a token", RegistrarOptions{Service: Service{"hooks", "ops"}, Token: func(path string) string {
			return "token-of" + strings.ReplaceAll(path, "/", "-")
		}},
			`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","v1beta1"],` +
				`"clientConfig":{"service":{"namespace":"ops","name":"hooks","path":"/widgets.acme.dev/token-of-widgets.acme.dev","port":443},` +
				`"url":null}}}}}`},
		{"a URL", RegistrarOptions{URL: "https://127.0.0.1:9681/", Bundle: bundle("ca")},
			`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","v1beta1"],"clientConfig":{"service":null,` +
				`"url":"https://127.0.0.1:9681/widgets.acme.dev","caBundle":"Y2E="}}}}}`},
		{"certificates of another program", RegistrarOptions{URL: "https://hooks.acme.dev/x", Bundle: bundle("")},
			`{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1","v1beta1"],"clientConfig":{"service":null,` +
				`"url":"https://hooks.acme.dev/x/widgets.acme.dev"}}}}}`},
		{"cert-manager", RegistrarOptions{Service: Service{"hooks", "ops"}, CertManager: "ops/hooks", Bundle: bundle("ca")},
			`{"metadata":{"annotations":{"cert-manager.io/inject-ca-from":"ops/hooks"}},"spec":{"conversion":{"strategy":"Webhook",` +
				`"webhook":{"conversionReviewVersions":["v1","v1beta1"],"clientConfig":{"service":{"namespace":"ops","name":"hooks",` +
				`"path":"/widgets.acme.dev","port":443},"url":null}}}}}`},
	} {
		if test.o.Bundle == nil {
			test.o.Bundle = bundle("")
		}
		got, err := registration(&test.o, widgets)
		if err != nil || !jsonpatch.Equal(got, []byte(test.want)) {
			t.Errorf("%s: %v, got\n%s\nwant\n%s", test.about, err, got, test.want)
		}
	}
}

func TestChanges(t *testing.T) {
	o := RegistrarOptions{Service: Service{"hooks", "ops"}, CertManager: "ops/hooks"}
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
		seen, err := definitionOf([]byte(test.crd))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := changes(seen, patch); err != nil || got != test.want {
			t.Errorf("%s: got %v, %v", test.about, got, err)
		}
	}
}
