//go:build tools

// Package tools names the programs of others that tests and the demo put on the PATH of hooks.
package tools

import _ "github.com/itchyny/gojq/cmd/gojq"
