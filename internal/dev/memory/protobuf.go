package memory

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// protobufPrefix begins a body in the format that kubectl create sends, unless it has a file.
var protobufPrefix = []byte("k8s\x00")

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
	of, _ := goType(gvk.GroupKind())
	o, known := of.(interface{ Unmarshal(text []byte) error })
	if !known {
		return nil, fmt.Errorf("this server reads a %s as JSON or YAML only: add '--dry-run=client -o yaml | kubectl create -f -'", gvk.Kind)
	}
	if err := o.Unmarshal(envelope.Raw); err != nil {
		return nil, fmt.Errorf("the body is no %s: %w", gvk.Kind, err)
	}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	tree["apiVersion"], tree["kind"] = envelope.APIVersion, envelope.Kind
	return json.Marshal(tree)
}
