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

// HTTPAnswer is a hook's answer to an HTTP request.
type HTTPAnswer struct {
	// Status is between 200 and 599.
	Status int
	// Headers have canonical names. None of them belongs to the connection or tells the length of the body.
	Headers map[string][]string
	// Body is empty for a Status that cannot have one.
	Body []byte
}

// ConversionAnswer is what a hook made of the objects of a conversion review.
type ConversionAnswer struct {
	Objects []json.RawMessage
	// Failure is why the conversion failed; empty means that it did not.
	Failure string
}
