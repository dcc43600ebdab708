//go:build tools

// Package tools names the programs of others that tests and the demo put on the PATH of hooks, or call themselves.
package tools

import (
	_ "github.com/itchyny/gojq/cmd/gojq"
	_ "github.com/rhysd/actionlint/cmd/actionlint"
)
