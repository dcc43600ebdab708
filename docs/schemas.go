package docs

import _ "embed"

// HookSchema and TestSchema are the JSON Schemas of the configuration of hooks and of test files.
var (
	//go:embed reference/hook-configuration.schema.json
	HookSchema []byte
	//go:embed reference/test-file.schema.json
	TestSchema []byte
)
