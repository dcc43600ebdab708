package conversion

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Service is that of the Handler inside a cluster, with port 443.
type Service struct {
	Name, Namespace string
}

// injectCA is the annotation that makes cert-manager inject caBundle.
const injectCA = "cert-manager.io/inject-ca-from"

// definition has the fields of a CRD that a registration reads and writes, as a patch.
type definition struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations,omitzero"`
	} `json:"metadata,omitzero"`
	Spec struct {
		Conversion jsontext.Value `json:"conversion,omitzero"`
	} `json:"spec,omitzero"`
}

// stanza is the desired spec.conversion. Null removes the fields of other clients.
type stanza struct {
	Strategy string `json:"strategy"`
	Webhook  struct {
		Versions     []string     `json:"conversionReviewVersions"`
		ClientConfig clientConfig `json:"clientConfig"`
	} `json:"webhook"`
}

type clientConfig struct {
	Service *serviceReference `json:"service"`
	URL     *string           `json:"url"`
	// CABundle is omitted when cert-manager injects it.
	CABundle []byte `json:"caBundle,omitempty"`
}

type serviceReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Path      string `json:"path"`
	Port      int    `json:"port"`
}

// checkTarget rejects what the API server would reject later.
func checkTarget(o *RegistrarOptions) error {
	if o.URL == "" {
		if o.Service.Name == "" || o.Service.Namespace == "" {
			return fmt.Errorf("the webhooks for conversions have no address: the Service %q in the namespace %q needs a name and a namespace, "+
				"or give a URL", o.Service.Name, o.Service.Namespace)
		}
		return nil
	}
	if o.Service != (Service{}) {
		return errors.New("the webhooks for conversions have both a Service and a URL: set one of them")
	}
	u, err := url.Parse(o.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%q is no URL for webhooks: it looks like https://host:port/path", o.URL)
	}
	return nil
}

// registration is the merge patch that points a CRD to the Handler.
func registration(o *RegistrarOptions, crd string) ([]byte, error) {
	s := stanza{Strategy: "Webhook"}
	s.Webhook.Versions = reviewVersions
	path := "/" + crd
	if o.Token != nil {
		path += "/" + o.Token(path)
	}
	if o.URL != "" {
		target := strings.TrimRight(o.URL, "/") + path
		s.Webhook.ClientConfig.URL = &target
	} else {
		s.Webhook.ClientConfig.Service = &serviceReference{o.Service.Namespace, o.Service.Name, path, 443}
	}
	var d definition
	if o.CertManager != "" {
		d.Metadata.Annotations = map[string]string{injectCA: o.CertManager}
	} else {
		s.Webhook.ClientConfig.CABundle = o.Bundle()
	}
	var err error
	if d.Spec.Conversion, err = json.Marshal(&s); err != nil {
		return nil, err
	}
	return json.Marshal(&d)
}

// changes reports whether a patch would change the definition of a CRD.
func changes(seen, patch []byte) (bool, error) {
	patched, err := jsonpatch.MergePatch(seen, patch)
	return !jsonpatch.Equal(seen, patched), err
}
