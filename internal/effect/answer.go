package effect

import "encoding/json"

// AdmissionAnswer is a hook's verdict on an admission review.
type AdmissionAnswer struct {
	Allowed  bool
	Message  string
	Warnings []string
	// Patch is a JSON patch, for mutating reviews; nil means none.
	Patch []byte
}

// ConversionAnswer is what a hook made of the objects of a conversion review.
type ConversionAnswer struct {
	Objects []json.RawMessage
	// Failure is why the conversion failed; empty means that it did not.
	Failure string
}
