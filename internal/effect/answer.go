package effect

import "encoding/json"

// AdmissionAnswer is a hook's answer to an admission request.
type AdmissionAnswer struct {
	Allowed  bool
	Message  string
	Warnings []string
	// Patch is a JSON patch, for mutating hooks; nil means none.
	Patch []byte
}

// HTTPAnswer is a hook's answer to an HTTP request.
type HTTPAnswer struct {
	// Status is between 200 and 599.
	Status int
	// Headers have canonical names. None of them is about the connection or the length of the body.
	Headers map[string][]string
	// Body is empty for a Status that cannot have one.
	Body []byte
}

// ConversionAnswer is a hook's answer to a conversion request.
type ConversionAnswer struct {
	Objects []json.RawMessage `json:"convertedObjects,omitempty"`
	// Failure is why the conversion failed; empty means success.
	Failure string `json:"failedMessage,omitempty"`
}
