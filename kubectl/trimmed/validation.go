package main

import (
	"sync"

	"github.com/go-json-experiment/json"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/openapi"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/validation"
)

// factory is kubectl's with a change: that the API server validates the fields of a kind is found without all schemas of its group,
// whose decoding took a third of the CPU time of create, apply and replace.
type factory struct{ cmdutil.Factory }

func (f factory) Validator(directive string) (validation.Schema, error) {
	complete, err := f.Factory.Validator(directive)
	if err != nil || directive == metav1.FieldValidationIgnore {
		return complete, err
	}
	client, err := f.ToDiscoveryClient()
	if err != nil {
		return nil, err
	}
	return &validator{complete: complete, documents: client.OpenAPIV3(), validated: map[schema.GroupVersionKind]bool{}}, nil
}

// validator leaves an object to the API server if that validates its kind, and to complete otherwise.
type validator struct {
	complete  validation.Schema
	documents openapi.Client

	mu        sync.Mutex // guards what follows
	validated map[schema.GroupVersionKind]bool
}

func (v *validator) ValidateBytes(object []byte) error {
	var header struct {
		Version string `json:"apiVersion"`
		Kind    string `json:"kind"`
	}
	if json.Unmarshal(object, &header) != nil || !v.validatedByServer(schema.FromAPIVersionAndKind(header.Version, header.Kind)) {
		return v.complete.ValidateBytes(object)
	}
	return nil
}

func (v *validator) validatedByServer(kind schema.GroupVersionKind) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	validated, ok := v.validated[kind]
	if !ok {
		list := schema.GroupVersionKind{Version: "v1", Kind: "List"} // kubectl's own kind
		validated = kind != list && hasParameter(v.documents, kind)
		v.validated[kind] = validated
	}
	return validated
}

// hasParameter reports whether the document of a group says what resource.QueryParamVerifierV3 looks for: the request that patches an
// object of the kind has the parameter fieldValidation.
func hasParameter(documents openapi.Client, kind schema.GroupVersionKind) bool {
	paths, err := documents.Paths()
	name := "apis/" + kind.GroupVersion().String()
	if kind.Group == "" {
		name = "api/" + kind.Version
	}
	if err != nil || paths[name] == nil {
		return false
	}
	text, err := paths[name].Schema(runtime.ContentTypeJSON)
	if err != nil {
		return false
	}
	var document struct {
		Paths map[string]struct {
			Patch struct {
				Kind struct {
					Group   string `json:"group"`
					Version string `json:"version"`
					Kind    string `json:"kind"`
				} `json:"x-kubernetes-group-version-kind"`
				Parameters []struct {
					Name string `json:"name"`
					In   string `json:"in"`
				} `json:"parameters"`
			} `json:"patch"`
		} `json:"paths"`
	}
	if json.Unmarshal(text, &document) != nil {
		return false
	}
	for _, path := range document.Paths {
		if schema.GroupVersionKind(path.Patch.Kind) != kind {
			continue
		}
		for _, p := range path.Patch.Parameters {
			if p.Name == string(resource.QueryParamFieldValidation) && p.In == "query" {
				return true
			}
		}
	}
	return false
}
