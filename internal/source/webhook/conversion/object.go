package conversion

import (
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/httpserver"
)

// object is a custom resource as bytes, and the fields that a conversion must not change.
type object struct {
	json    jsontext.Value
	version string
	identity
}

type identity struct {
	kind, namespace, name, uid string
}

func (id identity) String() string {
	name := id.name
	if id.namespace != "" {
		name = id.namespace + "/" + id.name
	}
	return fmt.Sprintf("%s %s, uid %q", httpserver.Text(id.kind), httpserver.Text(name), httpserver.Text(id.uid))
}

func readObject(raw []byte) (object, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
			UID       string `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &head, lenient); err != nil {
		return object{}, err
	}
	return object{raw, head.APIVersion, identity{head.Kind, head.Metadata.Namespace, head.Metadata.Name, head.Metadata.UID}}, nil
}

// readObjects parses the objects of a review.
func readObjects(raw []jsontext.Value) ([]object, error) {
	objects := make([]object, len(raw))
	for i := range raw {
		var err error
		if objects[i], err = readObject(raw[i]); err != nil {
			return nil, fmt.Errorf("cannot read object %d of %d: %s", i+1, len(raw), httpserver.Text(err.Error()))
		}
	}
	return objects, nil
}
