package event

import "github.com/shell-operator/shell-operator/internal/hook"

// Review is a request that a hook answers.
type Review struct {
	// Event is of the type Validating, Mutating, Conversion or HTTP.
	Event
	// Body is the review of the API server as JSON text: of an admission as it was sent, of a conversion with the objects of a step.
	Body []byte
	// Step is the step of a Conversion, as the binding declares it.
	Step hook.ConversionStep
	// Subject names what is reviewed, as `CREATE Pod demo/web-0`, for the record of the run; empty means the binding.
	Subject string
	// NoEffects drops operations and metrics, after they have been checked like others: the request is a dry run.
	NoEffects bool
}
