package docs

import _ "embed"

// HookSchema and TestSchema are the JSON Schemas of the configuration of hooks and of test files; OperationSchema, ContextSchema and
// ResultSchema those of one operation, of one binding context and of the result file of a run.
var (
	//go:embed reference/hook-configuration.schema.json
	HookSchema []byte
	//go:embed reference/test-file.schema.json
	TestSchema []byte
	//go:embed reference/operation.schema.json
	OperationSchema []byte
	//go:embed reference/binding-context.schema.json
	ContextSchema []byte
	//go:embed reference/result-file.schema.json
	ResultSchema []byte
)
