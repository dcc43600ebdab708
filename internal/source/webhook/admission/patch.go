package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apipatch "gopkg.in/evanphx/json-patch.v4"
)

// orNothing is nil for a patch without operations.
func orNothing(patch []byte) []byte {
	var operations []json.RawMessage
	if json.Unmarshal(patch, &operations) == nil && len(operations) == 0 {
		return nil
	}
	return patch
}

// checkApplies returns why the API server could not apply a patch to the object of a review. The error has no values.
func checkApplies(review, patch []byte) error {
	var r struct {
		Request struct{ Object json.RawMessage }
	}
	if err := json.Unmarshal(review, &r); err != nil || r.Request.Object == nil {
		return nil //nolint:nilerr // it is no review with an object, so there is nothing to compare with
	}
	_, err := ApplyPatch(r.Request.Object, patch)
	return err
}

// ApplyPatch applies the patch of a hook as the API server does, by the same library: later versions of it reject other patches.
func ApplyPatch(object, patch []byte) ([]byte, error) {
	decoded, err := apipatch.DecodePatch(patch)
	if err != nil {
		return nil, errors.New(`it is not a JSON patch, that is a list such as [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]`)
	}
	for i, o := range decoded {
		if _, has := o["value"]; !has && slices.Contains([]string{"add", "replace", "test"}, o.Kind()) { // the library takes it for null
			return nil, fmt.Errorf("operation %d: op %q: it has no \"value\"", i, o.Kind())
		}
	}
	patched, err := decoded.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("it does not apply to the object: %w", err)
	}
	return patched, nil
}
