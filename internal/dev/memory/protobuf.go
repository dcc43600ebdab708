package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// protobufPrefix begins a body in the format that kubectl create sends, unless it has a file.
var protobufPrefix = []byte("k8s\x00")

// decodesProtobuf is a Go type of Kubernetes.
type decodesProtobuf interface{ Unmarshal(text []byte) error }

// fromProtobuf translates a body to JSON, if it has this format.
func fromProtobuf(body []byte) ([]byte, error) {
	text, isProtobuf := bytes.CutPrefix(body, protobufPrefix)
	if !isProtobuf {
		return body, nil
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(text); err != nil {
		return nil, fmt.Errorf("the body is no object: %w", err)
	}
	gvk := schema.FromAPIVersionAndKind(envelope.APIVersion, envelope.Kind)
	o, known := protobufType(gvk)
	if !known {
		return nil, fmt.Errorf("this server reads a %s as JSON or YAML only: add '--dry-run=client -o yaml | kubectl create -f -'", gvk.Kind)
	}
	if err := o.Unmarshal(envelope.Raw); err != nil {
		return nil, fmt.Errorf("the body is no %s: %w", gvk.Kind, err)
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return nil, err
	}
	maps.DeleteFunc(metadataOf(tree), func(_ string, value any) bool { return value == nil })
	tree["apiVersion"], tree["kind"] = envelope.APIVersion, envelope.Kind
	return json.Marshal(tree)
}

// protobufType returns a value of the type of a kind that kubectl creates without a file.
func protobufType(k schema.GroupVersionKind) (decodesProtobuf, bool) {
	if o, ok := exact(k.GroupKind()).(decodesProtobuf); ok {
		return o, true
	}
	switch k.Group + "/" + k.Kind {
	case "/Pod":
		return &corev1.Pod{}, true
	case "/Service":
		return &corev1.Service{}, true
	case "/ServiceAccount":
		return &corev1.ServiceAccount{}, true
	case "authorization.k8s.io/SelfSubjectAccessReview":
		return &authorizationv1.SelfSubjectAccessReview{}, true
	}
	return nil, false
}
