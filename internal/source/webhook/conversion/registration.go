package conversion

import (
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"
	admissionregistration "k8s.io/api/admissionregistration/v1"

	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// registration is the merge patch that points a CRD to the Handler.
func registration(o *keep.Target, crd string) ([]byte, error) {
	c := o.ClientConfig("/"+crd, nil)
	client := map[string]any{"service": c.Service, "url": c.URL} // null removes what other clients have set
	patch := map[string]any{"spec": map[string]any{"conversion": map[string]any{
		"strategy": "Webhook", "webhook": map[string]any{"conversionReviewVersions": reviewVersions, "clientConfig": client},
	}}}
	if o.CertManager != "" { // which injects caBundle
		patch["metadata"] = map[string]any{"annotations": map[string]string{keep.InjectAnnotation: o.CertManager}}
	} else if bundle := o.Bundle(); len(bundle) > 0 {
		client["caBundle"] = bundle
	}
	return json.Marshal(patch, json.Deterministic(true))
}

// leadsTo reports whether a definition leads to a target, with any token.
func leadsTo(o *keep.Target, definition []byte, crd string) bool {
	c, want := clientOf(definition), o.ClientConfig("/"+crd, nil)
	same := c.Service == nil || want.Service != nil && c.Service.Namespace == want.Service.Namespace && c.Service.Name == want.Service.Name
	return same && strings.HasPrefix(keep.PathOf(c), o.URL+"/"+crd)
}

// clientOf returns how the API server calls the webhook of a definition.
func clientOf(definition []byte) admissionregistration.WebhookClientConfig {
	var d struct {
		Spec struct {
			Conversion struct {
				Webhook struct {
					ClientConfig admissionregistration.WebhookClientConfig `json:"clientConfig"`
				} `json:"webhook"`
			} `json:"conversion"`
		} `json:"spec"`
	}
	_ = json.Unmarshal(definition, &d, lenient)
	return d.Spec.Conversion.Webhook.ClientConfig
}

// changes reports whether a patch would change a CRD.
func changes(seen, patch []byte) (bool, error) {
	patched, err := jsonpatch.MergePatch(seen, patch)
	return !jsonpatch.Equal(seen, patched), err
}
