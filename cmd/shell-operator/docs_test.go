package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "write the table of flags into docs/reference/command-line.md")

const (
	reference   = "../../docs/reference/command-line.md"
	tableBegins = "<!-- flags: written by go test ./cmd/shell-operator -run TestReference -update -->\n"
	tableEnds   = "<!-- end of flags -->\n"
)

// TestReference keeps the table of flags in the documentation equal to that of the code.
func TestReference(t *testing.T) {
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), tableBegins)
	found, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table: it needs the lines\n%s%s", reference, tableBegins, tableEnds)
	}
	want := flagsTable()
	if found == want {
		return
	}
	if !*update {
		t.Fatalf("the flags in %s are not those of the code: run go test ./cmd/shell-operator -run TestReference -update\n--- found:\n%s--- should be:\n%s", reference, found, want)
	}
	if err := os.WriteFile(reference, []byte(before+tableBegins+want+tableEnds+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// flagsTable renders the flags: first those that do something, then those that are accepted only.
func flagsTable() string {
	const reserved = " (not in use yet)"
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	s := newSettings(nil)
	s.addFlags(fs)
	var inUse, later strings.Builder
	for _, row := range s.list {
		f := fs.Lookup(row.flag)
		usage, isReserved := strings.CutSuffix(row.usage, reserved)
		into := &inUse
		if isReserved {
			into = &later
		}
		if row.hidden {
			usage += " (not in `--help`)"
		}
		def := f.DefValue
		if def == "" || def == "[]" {
			def = "—"
		} else {
			def = "`" + def + "`"
		}
		fmt.Fprintf(into, "| `--%s` | `%s` | %s | %s | %s |\n", row.flag, row.env, typeName(f), def, strings.ReplaceAll(usage, "|", `\|`))
	}
	const head = "| flag | variable | type | default | meaning |\n|---|---|---|---|---|\n"
	table := "\n" + head + inUse.String()
	if later.Len() > 0 {
		table += "\nAccepted and checked, but not in use yet:\n\n" + head + later.String()
	}
	return table + "\n"
}

const (
	commandsBegin = "<!-- commands: written by go test ./cmd/shell-operator -run TestReference -update -->\n"
	commandsEnd   = "<!-- end of commands -->\n"
)

// TestReferenceOfCommands keeps the help of the commands that ask an operator equal to the documentation.
func TestReferenceOfCommands(t *testing.T) {
	page, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(page), commandsBegin)
	found, after, ends := strings.Cut(rest, commandsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the commands: it needs the lines\n%s%s", reference, commandsBegin, commandsEnd)
	}
	var want strings.Builder
	for _, c := range newAskCommands(newSettings(nil), io.Discard) {
		root := &cobra.Command{Use: "shell-operator"}
		root.AddCommand(c)
		describeCommand(&want, c)
	}
	if found == want.String() {
		return
	}
	if !*update {
		t.Fatalf("the commands in %s are not those of the code: run go test ./cmd/shell-operator -run TestReference -update", reference)
	}
	if err := os.WriteFile(reference, []byte(before+commandsBegin+want.String()+commandsEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// describeCommand writes what --help says, for a command that does something, and for those below it.
func describeCommand(b *strings.Builder, c *cobra.Command) {
	if c.Example != "" {
		fmt.Fprintf(b, "\n### %s\n\n", strings.TrimPrefix(c.CommandPath(), "shell-operator "))
		text := c.Long
		if text == "" {
			text = c.Short + "."
		}
		b.WriteString(text + "\n\n```\n" + c.UseLine() + "\n\n")
		for line := range strings.Lines(c.Example + "\n") {
			b.WriteString(strings.TrimPrefix(line, "  "))
		}
		b.WriteString("```\n\n| flag | meaning |\n|---|---|\n")
		row := func(f *pflag.Flag) {
			name := "--" + f.Name
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			usage := f.Usage
			if f.DefValue != "" && f.DefValue != "false" {
				usage += " (default `" + f.DefValue + "`)"
			}
			fmt.Fprintf(b, "| `%s` | %s |\n", name, usage)
		}
		c.LocalFlags().VisitAll(row)
		c.InheritedFlags().VisitAll(row)
	}
	for _, below := range c.Commands() {
		describeCommand(b, below)
	}
	if c.Parent().Name() == "shell-operator" {
		b.WriteString("\n")
	}
}

func typeName(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "stringToString":
		return "key=value,…"
	case "stringSlice":
		return "list"
	case "float32":
		return "number"
	case "int":
		return "integer"
	case "bool":
		return "boolean"
	}
	return f.Value.Type()
}
