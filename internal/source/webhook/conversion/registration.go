package conversion

import (
	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"

	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// registration is the merge patch that points a CRD to the Handler.
func registration(o *keep.Target, crd string) ([]byte, error) {
	path := o.Path("/" + crd)
	client := map[string]any{"service": nil, "url": nil} // null removes what other clients have set
	if o.URL != "" {
		client["url"] = o.URL + path
	} else {
		client["service"] = map[string]any{"namespace": o.Service.Namespace, "name": o.Service.Name, "path": path, "port": 443}
	}
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

// pathsOf returns the path or URL to which a definition leads.
func pathsOf(raw []byte) []string {
	var d struct {
		Spec struct {
			Conversion struct {
				Webhook struct {
					ClientConfig struct {
						URL     string `json:"url"`
						Service struct {
							Path string `json:"path"`
						} `json:"service"`
					} `json:"clientConfig"`
				} `json:"webhook"`
			} `json:"conversion"`
		} `json:"spec"`
	}
	_ = json.Unmarshal(raw, &d, lenient)
	if c := d.Spec.Conversion.Webhook.ClientConfig; c.URL+c.Service.Path != "" {
		return []string{c.URL + c.Service.Path} // one of them is empty
	}
	return nil
}

// changes reports whether a patch would change a CRD.
func changes(seen, patch []byte) (bool, error) {
	patched, err := jsonpatch.MergePatch(seen, patch)
	return !jsonpatch.Equal(seen, patched), err
}
