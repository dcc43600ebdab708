// Program dockerfile reads a Dockerfile with BuildKit's own parser and prints its instructions as JSON, one on a line:
//
//	{"stage":"","command":"FROM","args":["alpine:3.22"],"flags":[],"line":3}
//
// A file that BuildKit would refuse to read is an error; so is what its linter finds.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "dockerfile: %v\n", err)
		os.Exit(1)
	}
}

// instruction is one line of the output.
type instruction struct {
	// Stage is the name of the stage that the instruction belongs to; the last one is often without a name.
	Stage   string   `json:"stage"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Flags   []string `json:"flags"`
	Line    int      `json:"line"`
}

func run(args []string, stdout io.Writer) error {
	if len(args) != 1 {
		return errors.New("name one Dockerfile")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	tree, err := parser.Parse(file)
	if err != nil {
		return err
	}
	var found []error
	lint := linter.New(&linter.Config{Warn: func(rule, _, url, message string, _ []parser.Range) {
		found = append(found, fmt.Errorf("%s: %s (%s)", rule, message, url))
	}})
	// Parsed once more as instructions, which checks what the syntax tree does not.
	if _, _, err := instructions.Parse(tree.AST, lint); err != nil {
		return err
	}
	if err := errors.Join(found...); err != nil {
		return err
	}
	out := json.NewEncoder(stdout)
	stage := ""
	for _, node := range tree.AST.Children {
		i := instruction{Command: strings.ToUpper(node.Value), Args: []string{}, Flags: append([]string{}, node.Flags...), Line: node.StartLine}
		for arg := node.Next; arg != nil; arg = arg.Next {
			i.Args = append(i.Args, arg.Value)
		}
		for _, heredoc := range node.Heredocs {
			i.Args = append(i.Args, heredoc.Content)
		}
		if i.Command == "FROM" {
			stage = ""
			if len(i.Args) == 3 {
				stage = i.Args[2]
			}
		}
		i.Stage = stage
		if err := out.Encode(i); err != nil {
			return err
		}
	}
	return nil
}
